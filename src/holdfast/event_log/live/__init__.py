"""Runs in progress in this process, and readers that see the journal first and then what is live.

This room must never change what a run does: a reader that is slow or gone costs its own buffer only.
"""
