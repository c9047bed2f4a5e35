"""The terminal client: chat, run, inspect and resume from a shell.

This room must never add behaviour to the library: it prints what the runtime reports, and passes
answers back.
"""
