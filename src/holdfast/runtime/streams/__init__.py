"""Streams of a run: events, live text, and previews of a typed output.

This folder must not save an event or change the state of a run. Without a reader it costs nothing.
"""
