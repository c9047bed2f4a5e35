"""Sends and receives bytes over HTTP; the only importer of the HTTP client.

This room must never parse a wire, retry or choose a provider: it sends one request and yields its bytes.
Its failures say whether the request can have landed.
"""
