"""Journals: one outcome per key, append-only, behind one port.

A journal must never know what an event means, and must never acknowledge what it may still lose.
"""
