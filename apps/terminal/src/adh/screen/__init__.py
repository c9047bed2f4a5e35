"""The screen: shows a conversation, asks the person, and passes on the person's actions.

It must never decide about a call, run a tool, or write a text of a model or a tool to the terminal with
characters that a terminal obeys.
"""
