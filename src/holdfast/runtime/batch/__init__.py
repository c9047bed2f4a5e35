"""Batches: one turn for each item of a list or generator.

This folder must not change how a turn runs. It only begins and continues turns.
"""
