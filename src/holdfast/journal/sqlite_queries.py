"""Queries of a SQLite journal that find sessions without decoding all their records.

The writer thread calls these functions with its connection.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence

from holdfast.core.errors import ConflictError
from holdfast.journal.encoding import Line
from holdfast.journal.rows import SAID

_KEYS = "SELECT key FROM (SELECT key, id FROM records INDEXED BY records_by_key WHERE run = ?) ORDER BY id"
_PICK = (
    "SELECT schema, run, seq, key, digest, type, at, event FROM records"
    " INDEXED BY records_by_key WHERE run = ? AND key IN (SELECT value FROM json_each(?)) ORDER BY seq"
)
# JSON may escape non-ASCII letters, and LIKE does not know the escapes.
_HOLDING = f"SELECT run, key FROM records WHERE type IN {SAID}{{}} ORDER BY at DESC, run, seq DESC"  # noqa: S608  # REASON: names of our own
_LIKE = " AND event LIKE ? ESCAPE '!'"
_LIKE_OR_ESCAPED = " AND (event LIKE ? ESCAPE '!' OR INSTR(event, '\\u'))"
NEXT_ID = "SELECT MAX(last_id, COALESCE((SELECT MAX(id) FROM records), 0)) + 1 FROM identity"
"""The id of the next record; the id of a deleted record is not used again."""

_INSERT = (
    "INSERT INTO records (id, run, seq, key, digest, type, at, schema, event)"  # noqa: S608  # REASON: a text of our own
    f" VALUES (({NEXT_ID}), ?, ?, ?, ?, ?, ?, ?, ?)"
)
# An index leads from one run to the next, and to the first and last record of each run. The records
# between them are not read.
_HEADS = """
WITH RECURSIVE names(run) AS (
  SELECT MIN(run) FROM records
  UNION ALL
  SELECT (SELECT MIN(run) FROM records AS r WHERE r.run > names.run) FROM names
  WHERE names.run IS NOT NULL
), turns AS (
  SELECT run,
    (SELECT MAX(seq) FROM records AS r WHERE r.run = names.run AND type = 'turn_opened') AS opened,
    (SELECT MAX(seq) FROM records AS r WHERE r.run = names.run AND type = 'turn_closed') AS closed
  FROM names WHERE run IS NOT NULL
)
SELECT run,
  (SELECT MAX(seq) FROM records AS r WHERE r.run = turns.run),
  (SELECT at FROM records AS r WHERE r.run = turns.run ORDER BY seq LIMIT 1),
  (SELECT at FROM records AS r WHERE r.run = turns.run ORDER BY seq DESC LIMIT 1),
  COALESCE(opened > COALESCE(closed, 0), 0),
  COALESCE((SELECT CASE WHEN json_valid(event) THEN json_extract(event, '$.agent') END
    FROM records AS r WHERE r.run = turns.run AND r.seq = opened), '')
FROM turns
"""
Row = tuple[object, ...]


def select_heads(connection: sqlite3.Connection) -> list[Row]:
    """Select the fields of `RunEntry` for each run, with the times of its first and last record."""
    return connection.execute(_HEADS).fetchall()


def select_keys(run: str, connection: sqlite3.Connection) -> list[str]:
    """Select the keys of a run in order, from an index alone."""
    return [str(key) for (key,) in connection.execute(_KEYS, (run,))]


def select_by_keys(run: str, wanted: Sequence[str], connection: sqlite3.Connection) -> list[Row]:
    """Select the rows of a run that have one of these keys, in order."""
    return connection.execute(_PICK, (run, json.dumps(wanted))).fetchall()


def find_words(words: Sequence[str], connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """Select run and key of each record that may contain all of these words, the newest first."""
    tests = "".join(_LIKE if word.isascii() else _LIKE_OR_ESCAPED for word in words)
    patterns = [f"%{_escape_like(word)}%" for word in words]
    return connection.execute(_HOLDING.format(tests), patterns).fetchall()


def select_snapshot(run: str, connection: sqlite3.Connection) -> bytes | None:
    """Select the snapshot of a run, if there is one."""
    found = connection.execute("SELECT state FROM snapshots WHERE run = ?", (run,)).fetchone()
    return found[0] if found and isinstance(found[0], bytes) else None


def insert_snapshot(run: str, records: int, state: bytes, connection: sqlite3.Connection) -> None:
    """Replace the snapshot of a run, unless the run was deleted meanwhile."""
    connection.execute(
        "INSERT OR REPLACE INTO snapshots (run, state)"
        " SELECT ?, ? WHERE EXISTS (SELECT 1 FROM records WHERE run = ? AND seq = ?)",
        (run, state, run, records),
    )


def _escape_like(word: str) -> str:
    return word.replace("!", "!!").replace("%", "!%").replace("_", "!_")


def insert_runs(
    runs: Mapping[str, Sequence[tuple[Line, str]]], connection: sqlite3.Connection
) -> None:
    """Insert whole runs, in the transaction of the caller. Raises ConflictError."""
    for run in runs:
        # Checked before the first insert: the group's transaction is not rolled back for this error.
        if connection.execute("SELECT 1 FROM records WHERE run = ? LIMIT 1", (run,)).fetchone():
            raise ConflictError(f"the journal already has a run {run!r}")
    for run, rows in runs.items():
        connection.executemany(
            _INSERT,
            (
                (run, line.seq, line.key, line.digest, line.type, line.at, line.schema, body)
                for line, body in rows
            ),
        )
