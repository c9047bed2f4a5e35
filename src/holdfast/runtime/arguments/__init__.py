"""The arguments of `Agent.run` and of similar methods.

This folder must not begin a turn or perform an effect.
"""
