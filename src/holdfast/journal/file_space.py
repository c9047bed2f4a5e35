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

_BYTES = (
    "SELECT (SELECT COALESCE(SUM(bytes), 0) FROM runs WHERE tenant = :tenant)"
    " + (SELECT COALESCE(SUM(LENGTH(body)), 0) FROM holdfast_inbox WHERE tenant = :tenant)"
    " + (SELECT COALESCE(SUM(LENGTH(definition)), 0) FROM holdfast_schedules WHERE tenant = :tenant)"
)

_BYTES_OF_RUN = "SELECT bytes FROM runs WHERE tenant = ? AND name = ?"


def select_sizes(tenant: str, connection: sqlite3.Connection) -> dict[str, int]:
    """Select the bytes of the events, the media and the snapshot of each run."""
    return dict(connection.execute(_SIZES, (tenant,)).fetchall())


def select_bytes(tenant: str, connection: sqlite3.Connection) -> int:
    """Select the bytes of the events of a tenant, with their media, and of what it has queued.

    It reads a row of each run, and no record.
    """
    return int(connection.execute(_BYTES, {"tenant": tenant}).fetchone()[0])


def select_bytes_of_run(tenant: str, run: str, connection: sqlite3.Connection) -> int:
    """Select the bytes of the events of a run, with their media; 0 if it is unknown."""
    found = connection.execute(_BYTES_OF_RUN, (tenant, run)).fetchone()
    return int(found[0]) if found else 0


def vacuum_pages(connection: sqlite3.Connection) -> int:
    """Give some free pages back to the file system; return how many are left.

    The file becomes shorter when the log is copied into it.
    """
    connection.execute(f"PRAGMA incremental_vacuum({VACUUMED_AT_ONCE})").fetchall()
    return int(connection.execute("PRAGMA freelist_count").fetchone()[0])
