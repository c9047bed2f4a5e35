"""Models: which endpoint answers a request, and the HTTP client code that asks it.

This room must not decide whether a failed call is repeated.
"""
