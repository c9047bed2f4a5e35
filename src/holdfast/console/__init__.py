"""The console: static files that a browser runs as a client of `/api/v1`, and the routes that send them.

The files are sent as they are, without a build step. They must never load anything from another
address, and must never hold a secret.
"""
