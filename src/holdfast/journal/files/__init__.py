"""A SQLite journal's file: schema, lock, log."""
