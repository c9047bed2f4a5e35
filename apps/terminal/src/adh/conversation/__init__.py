"""The conversation: the queue of messages, the turns, the questions, stop, undo and export.

The screen and `adh run` both use it. It must never write a word to a terminal.
"""
