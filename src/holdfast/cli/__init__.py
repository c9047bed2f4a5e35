"""The terminal client: chat, run, inspect and resume from a shell.

This room must never add behaviour to the library: it prints the reports of the runtime, and passes
answers back.
"""
