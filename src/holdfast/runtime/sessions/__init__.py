"""Sessions that are open in this process.

This folder must not run a turn.
"""
