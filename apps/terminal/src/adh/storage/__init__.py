"""Storage: what the program keeps in the person's folders, and how it opens a path without following links.

It must never decide whether a call may run, and must never write an API key into a file.
"""
