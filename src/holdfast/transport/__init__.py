"""Sends HTTP requests and reads response bytes. Only this package imports the HTTP client.

It sends one request and returns the bytes of its response. It must never parse a wire, retry or
choose a provider. Its errors say whether the request may have taken effect (`landed`).
"""
