"""The event log of a session as its readers see it: the items of a stream, and positions in it.

This room is pure: no clock, no network, no journal. It must never decide who may read, or how an
item is sent.
"""
