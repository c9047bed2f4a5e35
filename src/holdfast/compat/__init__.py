"""The names and texts of the seed systems, as thin spellings of the rest of the library.

Nothing else in the package may import this room, and it must not define behavior of its own.
"""
