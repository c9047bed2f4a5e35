"""Turns that are submitted and driven elsewhere.

They are saved in the inbox, followed and awaited. This room must never drive a turn.
"""
