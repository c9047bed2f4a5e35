"""A journal in SQLite."""
