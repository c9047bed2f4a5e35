"""The parts of one turn in progress: its input, its log, the stage of each effect, its hooks.

This folder must not drive a turn, call a model or run a tool.
"""
