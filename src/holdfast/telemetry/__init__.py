"""What a run does, shown to observers, metrics and traces.

This room must never change what a run does.
"""
