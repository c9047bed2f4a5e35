"""Passes what a run does to observers, metrics and traces.

This package must never change what a run does.
"""
