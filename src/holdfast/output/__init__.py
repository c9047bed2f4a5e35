"""Typed output: the wanted type, how a model is asked for it, and how its answer is read and checked.

This room must not know a turn, a journal or an SDK.
"""
