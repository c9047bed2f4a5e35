"""Passes the events of a run to observers, metrics and traces.

This package must never change a run.
"""
