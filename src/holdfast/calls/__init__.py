"""Pieces around calls that you make yourself with a vendor's SDK: read, judge and retry them.

This room must never import an SDK, open a connection, or need more of an object than its values.
"""
