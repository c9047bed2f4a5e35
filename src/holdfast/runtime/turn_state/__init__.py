"""The parts of one turn in progress: its input, log, channel, effects and hooks.

This folder must not drive a turn, call a model or run a tool.
"""
