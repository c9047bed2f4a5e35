"""Middleware: what a user adds to a run, as hooks that look and decisions that they return.

A middleware must never hold the state of a run: what it has to remember is a fold over events.
This room must not know how a hook is reached; the runtime calls it.
"""
