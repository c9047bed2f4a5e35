"""Typed output: the wanted type, and how a model is asked for it.

This folder must not read or write the journal.
"""
