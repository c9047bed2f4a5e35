"""Bytes to core types and back: one folder for each wire, with its own error table.

This room must never do I/O, wait, retry or log: a codec is given bytes and hands back values.
It knows core, and no other room.
"""
