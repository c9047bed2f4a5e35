"""Compiles JSON Schemas of callers and checks values by them, in counted steps.

A schema and the value that it is checked against may come from anybody. So each part of a schema is compiled once,
each pair of a part and a value is decided once, and all work counts its steps and stops at a limit. This room must
never read a clock, match a regular expression by itself, or fetch the target of a reference.
"""
