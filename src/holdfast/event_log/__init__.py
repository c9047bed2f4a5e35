"""The event log of a session as its readers see it: the items of a stream, and positions in it.

The modules of this folder are pure: no clock, no network, no journal; `live/` reads the journal and what
is in progress. This room must never decide who may read, or how an item is sent.
"""
