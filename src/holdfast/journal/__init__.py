"""One outcome per key, append-only: the port and its stores in memory, SQLite and PostgreSQL.

A journal must never change or drop a fact that it has accepted, and must not interpret it:
it keeps bytes under a key and refuses a second outcome for the same key.
"""
