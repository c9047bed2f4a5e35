"""Chat Completions, the wire that most providers speak, each with an accent of its own.

`codec` is the door. This room must never know a provider by name: an accent is a field of `Quirks`.
"""
