"""Passes what a run does to observers, metrics and traces.

This room must never change what a run does.
"""
