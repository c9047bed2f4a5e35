"""JSON Schemas as each provider accepts them, and the way back from its replies.

This folder must never validate a value, and must never drop a constraint without saying so.
"""
