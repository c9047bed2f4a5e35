"""What makes one effect safe: retry, timeout, breaker, limiter, cache, fallback, one strategy a file.

A strategy must never turn an exception into text, and must not read the time or throw dice by itself:
clock and dice are passed in. It knows core, and neither a wire nor a tool.
"""
