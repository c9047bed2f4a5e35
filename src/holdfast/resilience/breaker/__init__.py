"""The circuit breaker: stops calls to an endpoint that fails, and tests it again later."""
