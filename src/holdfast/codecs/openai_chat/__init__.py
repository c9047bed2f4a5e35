"""Chat Completions, the wire that most providers speak, each with small differences.

`codec` is the door. This room must never know a provider by name: an accent is a field of `Quirks`.
"""
