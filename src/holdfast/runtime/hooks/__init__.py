"""The hooks around the effects of a turn: around a model call, around a tool, and between effects.

This folder must not perform an effect itself.
"""
