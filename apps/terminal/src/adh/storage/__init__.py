"""Storage: the program's files in the person's folders, and opening a path without following links.

It must never decide whether a call may run, and must never write an API key into a file.
"""
