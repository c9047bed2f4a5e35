"""The rate limiter: limits concurrent calls, calls per minute and tokens per minute."""
