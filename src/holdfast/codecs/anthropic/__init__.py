"""Anthropic's messages wire."""
