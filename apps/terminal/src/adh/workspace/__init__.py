"""The workspace: opens everything that a conversation works with, and closes it again.

It must never hold a part of one turn, and must never start with fewer rules than the files have.
"""
