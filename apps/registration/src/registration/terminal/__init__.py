"""The terminal client: a parent registers a child by typing lines, over the routes that the page uses.

This room must never import the service, and must never put a message, a name or a token into an address.
"""
