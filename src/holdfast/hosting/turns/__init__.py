"""Turns that this process drives in the background, whoever is connected.

This room must never wait for a client: a turn ends by its own end, by an act, or with the process.
"""
