"""The commands of `adh`: each reads its arguments, calls the rooms below and says how it ended.

A command must never decide itself whether a call may run, and must never print to standard output what
was not asked for: other programs read it.
"""
