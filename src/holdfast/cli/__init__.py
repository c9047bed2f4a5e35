"""The terminal client: chat, run, inspect and resume from a shell.

This room must never hold behaviour that the library lacks: it prints what the runtime says and passes answers back.
"""
