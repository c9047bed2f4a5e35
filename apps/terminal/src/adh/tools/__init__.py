"""Tools: the actions of the agent on files, with commands and on the web, each with its declared effects.

A tool acts on exactly the path, content and address that were judged. This room must never decide whether
a call may run, must never follow a symbolic link that was not judged, and must never put the value of an
argument into an error.
"""
