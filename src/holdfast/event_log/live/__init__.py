"""Runs in progress in this process, and readers that see the journal first and then the live items.

This room must never change a run: a reader that is slow or gone costs its own buffer only.
"""
