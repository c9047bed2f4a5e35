"""The retry budget: limits retries to a share of the calls to one endpoint."""
