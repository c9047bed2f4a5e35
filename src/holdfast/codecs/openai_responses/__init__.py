"""OpenAI's responses wire."""
