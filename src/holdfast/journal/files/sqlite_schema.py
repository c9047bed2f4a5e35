"""The schema of a SQLite journal; `PRAGMA user_version` of a file says which version it has.

Rules for editing: a step that was released is never changed, and there is no way back. A new version
is a further step.
"""

from __future__ import annotations

from holdfast.journal.inbox_schema import SQLITE_TABLES as INBOX_TABLES

APPLICATION_ID = 0x48464A31
"""`HFJ1`: marks a file as a journal of Holdfast."""

COST_CLASS = (
    "(CASE WHEN {0} > 0 THEN CAST(substr(printf('%.0e', {0}), 3) AS INTEGER) * 10"
    " + CAST(substr(printf('%.0e', {0}), 1, 1) AS INTEGER) ELSE -10000 END)"
)
"""The class of a cost, as SQL: its power of ten and its first digit, rounded; below them that of 0."""

SCHEMA: tuple[str, ...] = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    # One row for each run. `records` says how many records it has, so that a lost one is missed.
    # `bytes` is the length of their events with their media, so that a tenant is measured without reading
    # them. `nested` says whether it is the run of a subagent. From `title` on, the columns say what a list
    # of sessions shows of its turns; see `core.run_fold`.
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
        " title TEXT NOT NULL DEFAULT '',"
        " turns INTEGER NOT NULL DEFAULT 0,"
        " messages INTEGER NOT NULL DEFAULT 0,"
        " turn INTEGER NOT NULL DEFAULT 0,"
        " status TEXT NOT NULL DEFAULT 'idle',"
        " in_doubt INTEGER NOT NULL DEFAULT 0,"
        " questions TEXT NOT NULL DEFAULT '',"
        " input INTEGER NOT NULL DEFAULT 0,"
        " cached_input INTEGER NOT NULL DEFAULT 0,"
        " output INTEGER NOT NULL DEFAULT 0,"
        " cost REAL,"
        " UNIQUE (tenant, name)"
        ")"
    ),
    # A run whose turn is open is in the first index, and one that waits or has ended in the others,
    # unless it is nested. So only the records that open or close a turn, ask or answer write to an
    # index of this table. The last one has the costs in classes, nine of each power of ten: the
    # latest runs of each class are found without the others.
    "CREATE INDEX runs_open ON runs (tenant, name, status) WHERE turn_open",
    (
        "CREATE INDEX runs_recent ON runs (tenant, changed_at DESC, name, cost)"
        " WHERE status <> 'open' AND NOT nested"
    ),
    (
        "CREATE INDEX runs_by_state ON runs (tenant, status, agent, changed_at DESC, name, cost)"
        " WHERE status <> 'open' AND NOT nested"
    ),
    (
        f"CREATE INDEX runs_by_cost ON runs (tenant, {COST_CLASS.format('cost')}, changed_at DESC,"
        " name, cost) WHERE status <> 'open' AND NOT nested AND cost IS NOT NULL"
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
    # The acts of people and programs on sessions. The id of an act for a request with an idempotency key
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
    # The folded state of a long session, so that it opens quickly; nothing is lost without it.
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
