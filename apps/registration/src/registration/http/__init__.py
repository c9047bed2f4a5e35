"""The service over HTTP: conversations, photos, payment links, webhooks, the club's office, metrics.

This room must never decide a step, never trust a client about one, and never put a message, a name or a
token into an address or a log.
"""
