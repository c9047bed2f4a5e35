"""Photos: how they are kept, checked, saved and shown to the office.

Hostile bytes are decoded in a process of their own. This room must never decide a step, and must never
put the name of a person into an address or a log.
"""
