"""The hooks around the effects of a turn, and between them.

This folder must not perform an effect itself.
"""
