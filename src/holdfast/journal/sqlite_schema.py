"""The schema of a SQLite journal; `PRAGMA user_version` of a file says which version it has.

Rules for editing: a step that was released is never changed, and there is no way back. A new version
is a further step.
"""

from __future__ import annotations

from holdfast.journal.inbox_schema import SQLITE_TABLES as INBOX_TABLES

APPLICATION_ID = 0x48464A31
"""`HFJ1`: marks a file as a journal of Holdfast."""

SCHEMA: tuple[str, ...] = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    # One row for each run. `records` says how many records it has, so that a lost one is missed.
    # `bytes` is the length of their events with their media, so that a tenant is measured without reading
    # them. `nested` says whether it is the run of a subagent.
    (
        "CREATE TABLE runs ("
        " id INTEGER PRIMARY KEY,"
        " tenant TEXT NOT NULL,"
        " name TEXT NOT NULL,"
        " records INTEGER NOT NULL,"
        " bytes INTEGER NOT NULL,"
        " opened_at REAL NOT NULL,"
        " changed_at REAL NOT NULL,"
        " turn_open INTEGER NOT NULL,"
        " agent TEXT NOT NULL,"
        " nested INTEGER NOT NULL,"
        " UNIQUE (tenant, name)"
        ")"
    ),
    # A run whose turn is open is in the first index, any other that is not nested in the second. So
    # only the records that open or close a turn write to an index of this table.
    "CREATE INDEX runs_open ON runs (tenant, name) WHERE turn_open",
    (
        "CREATE INDEX runs_recent ON runs (tenant, changed_at DESC, name)"
        " WHERE NOT turn_open AND NOT nested"
    ),
    # In the order in which they came, so that an append writes the last page of one table and not
    # several in the middle: SQLite rebalances a table WITHOUT ROWID at almost every row this long.
    # `run` is the id of the run; `journal.rows` computes `checksum`.
    (
        "CREATE TABLE records ("
        " id INTEGER PRIMARY KEY,"
        " run INTEGER NOT NULL,"
        " seq INTEGER NOT NULL,"
        " key TEXT NOT NULL,"
        " digest TEXT NOT NULL,"
        " type TEXT NOT NULL,"
        " at REAL NOT NULL,"
        " schema INTEGER NOT NULL,"
        " event TEXT NOT NULL,"
        " checksum INTEGER NOT NULL"
        ")"
    ),
    "CREATE UNIQUE INDEX records_by_seq ON records (run, seq)",
    "CREATE UNIQUE INDEX records_by_key ON records (run, key)",
    # Which turn has which idempotency key of a caller.
    (
        "CREATE TABLE requests ("
        " tenant TEXT NOT NULL,"
        " request TEXT NOT NULL,"
        " run INTEGER NOT NULL,"
        " key TEXT NOT NULL,"
        " PRIMARY KEY (tenant, request)"
        ") WITHOUT ROWID"
    ),
    "CREATE INDEX requests_by_run ON requests (run)",
    # What people and programs did to sessions. The id of an act for a request with an idempotency key
    # is made of that key.
    (
        "CREATE TABLE acts ("
        " tenant TEXT NOT NULL,"
        " id TEXT NOT NULL,"
        " act TEXT NOT NULL,"
        " session TEXT NOT NULL,"
        " made_by TEXT NOT NULL,"
        " at REAL NOT NULL,"
        " details TEXT NOT NULL,"
        " digest TEXT NOT NULL,"
        " PRIMARY KEY (tenant, id)"
        ") WITHOUT ROWID"
    ),
    "CREATE INDEX acts_by_session ON acts (tenant, session, at)",
    # What was folded of a long session, so that it opens quickly; nothing is lost without it.
    "CREATE TABLE snapshots (run INTEGER PRIMARY KEY, state BLOB NOT NULL)",
    # Large bytes of pictures and files, once each, and which runs use them; see `journal.media_store`.
    "CREATE TABLE media (digest TEXT NOT NULL UNIQUE, data BLOB NOT NULL)",
    (
        "CREATE TABLE media_uses ("
        " run INTEGER NOT NULL,"
        " digest TEXT NOT NULL,"
        " PRIMARY KEY (run, digest)"
        ") WITHOUT ROWID"
    ),
    "CREATE INDEX media_uses_by_digest ON media_uses (digest)",
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
    # Which turns are to be done; see `journal.inbox`.
    *INBOX_TABLES,
)

STEPS: tuple[tuple[str, ...], ...] = (SCHEMA,)
"""The statements that make each version of the one before; the first step makes a new journal."""

VERSION = len(STEPS)
"""The version that this Holdfast reads and writes."""
