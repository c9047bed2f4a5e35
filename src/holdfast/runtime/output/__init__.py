"""Typed output: the wanted type, how a model is asked for it, and previews while it is written.

This folder must not read or write the journal.
"""
