"""The parts of one turn in progress: its input, log and channel, its effects, its hooks.

This folder must not drive a turn, call a model or run a tool.
"""
