"""The schema of a SQLite journal; `PRAGMA user_version` of a file says which version it has.

Rules for editing: a version that was released is never changed, and there is no way back.
"""

from __future__ import annotations

APPLICATION_ID = 0x48464A31
"""`HFJ1`: marks a file as a journal of Holdfast."""

VERSION = 1
"""The version of the schema below."""

SCHEMA: tuple[str, ...] = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    # In the order in which they came, so that an append writes the last page of one table and not
    # several in the middle: SQLite rebalances a table WITHOUT ROWID at almost every row this long.
    (
        "CREATE TABLE records ("
        " id INTEGER PRIMARY KEY,"
        " run TEXT NOT NULL,"
        " seq INTEGER NOT NULL,"
        " key TEXT NOT NULL,"
        " digest TEXT NOT NULL,"
        " type TEXT NOT NULL,"
        " at REAL NOT NULL,"
        " schema INTEGER NOT NULL,"
        " event TEXT NOT NULL"
        ")"
    ),
    "CREATE UNIQUE INDEX records_by_seq ON records (run, seq)",
    "CREATE UNIQUE INDEX records_by_key ON records (run, key)",
    # Which runs have an open turn, without reading the records.
    (
        "CREATE INDEX records_of_turns ON records (run, type, seq)"
        " WHERE type IN ('turn_opened', 'turn_closed')"
    ),
    # What was folded of a long session, so that it opens quickly; nothing is lost without it.
    "CREATE TABLE snapshots (run TEXT PRIMARY KEY, state BLOB NOT NULL) WITHOUT ROWID",
    # Which journal it is, and where in its history, so that a log of another file or of an older state
    # is known. `log` names the log that SQLite writes now, and `base` the one before, which the file
    # holds completely. `last_id` is the largest id of a record that was deleted or is there, as of the
    # last deletion: an id is given once.
    (
        "CREATE TABLE identity ("
        " journal TEXT NOT NULL,"
        " log TEXT NOT NULL,"
        " base TEXT NOT NULL,"
        " last_id INTEGER NOT NULL,"
        " deletions INTEGER NOT NULL"
        ")"
    ),
    (
        "INSERT INTO identity VALUES"
        " (lower(hex(randomblob(16))), lower(hex(randomblob(16))), '', 0, 0)"
    ),
)
