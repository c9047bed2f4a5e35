"""Turns that are submitted and driven elsewhere.

What is saved of one, and how to follow and await it. This room must never drive a turn.
"""
