"""Queries of a SQLite journal about the size of its runs, and the space that deleted ones leave."""

from __future__ import annotations

import sqlite3

VACUUMED_AT_ONCE = 20
"""Pages that one transaction gives back; a turn waits for one such transaction at most."""

_SIZES = (
    "SELECT name, SUM(LENGTH(CAST(event AS BLOB)))"
    " + COALESCE((SELECT LENGTH(state) FROM snapshots WHERE snapshots.run = runs.id), 0)"
    " + COALESCE((SELECT SUM(LENGTH(data)) FROM media_uses JOIN media USING (digest)"
    " WHERE media_uses.run = runs.id), 0)"
    " FROM records JOIN runs ON runs.id = records.run WHERE tenant = ? GROUP BY records.run"
)


def select_sizes(tenant: str, connection: sqlite3.Connection) -> dict[str, int]:
    """Select the bytes of the events, the media and the snapshot of each run."""
    return dict(connection.execute(_SIZES, (tenant,)).fetchall())


def vacuum_pages(connection: sqlite3.Connection) -> int:
    """Give some free pages back to the file system; return how many are left.

    The file becomes shorter when the log is copied into it.
    """
    connection.execute(f"PRAGMA incremental_vacuum({VACUUMED_AT_ONCE})").fetchall()
    return int(connection.execute("PRAGMA freelist_count").fetchone()[0])
