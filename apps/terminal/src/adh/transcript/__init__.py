"""The transcript: a conversation as the person sees it, in blocks.

Everything here is pure: it must never read a file, a clock or the network, and must never show a text of
a model or a tool with characters that a terminal obeys.
"""
