"""The commands of `adh`: each reads its arguments, calls the rooms below and says how it ended.

A command must never decide itself whether a call may run, and must never print anything else to
standard output than its result: other programs read it.
"""
