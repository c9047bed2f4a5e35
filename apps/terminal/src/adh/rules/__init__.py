"""Rules: the approval that a call of a tool needs before it runs.

Everything here is pure: it must never read a file, the clock or the environment. The one exception
are the built-in rules, which are part of the package.
"""
