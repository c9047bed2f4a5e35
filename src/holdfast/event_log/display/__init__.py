"""The display fold: everything that a person sees of a turn, step by step, for every user interface.

The fold is pure. It must never word an item: each user interface does that itself.
"""
