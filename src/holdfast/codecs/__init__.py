"""Encoders and decoders: one folder for each wire, with the wire's error table.

A codec takes bytes and returns values. This room must never do I/O, wait, retry or log. It imports
only `core`.
"""
