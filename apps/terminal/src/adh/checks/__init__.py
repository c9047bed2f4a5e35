"""Safety checks: conditions that must hold right before a call runs, beside the rules.

A check that fails, crashes or is late blocks the call. This room must never ask a person, and must never
decide by the name of a tool alone.
"""
