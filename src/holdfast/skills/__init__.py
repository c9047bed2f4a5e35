"""Skills: folders of instructions that a model opens when a task needs them.

This room must never read a file outside of the folder of a skill, must never run anything that it
finds there, and must never know which skills are open in a run: that is a fold over its events.
"""
