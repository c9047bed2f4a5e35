"""Queries of a SQLite journal: runs, their records, snapshots and requests.

The writer thread calls these functions with its connection. Each query is of one tenant.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.journal.media_store import has_media, put_media_back
from holdfast.journal.rows import SAID, Row

_HEAD = (
    "SELECT id, records, (SELECT deletions FROM identity) FROM runs WHERE tenant = ? AND name = ?"
)
MOST_ROWS = 256
"""The maximum number of rows that are read at once; an append waits while they are read."""

MOST_RUNS = 1000
"""The maximum number of runs that are listed at once."""

_COLUMNS = "schema, name, seq, key, digest, type, at, event, checksum"
_EVENT = 7
_JOINED = "FROM records{} JOIN runs ON runs.id = run"
_LINES = f"SELECT {_COLUMNS} {_JOINED} WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?"  # REASON: names of our own
_BY_SEQ = _LINES.format(" INDEXED BY records_by_seq")
_BY_KEY = _LINES.format(" INDEXED BY records_by_key")
_KEYS = "SELECT key FROM (SELECT key, id FROM records INDEXED BY records_by_key WHERE run = ?) ORDER BY id"
_PICK = (
    f"SELECT {_COLUMNS} {_JOINED.format(' INDEXED BY records_by_key')}"  # noqa: S608  # REASON: names of our own
    " WHERE run = ? AND key IN (SELECT value FROM json_each(?)) ORDER BY seq"
)
_RUNS = "SELECT name, records, opened_at, changed_at, turn_open, agent FROM runs"
_NEXT_RUNS = f"{_RUNS} WHERE tenant = ?1 AND name {{}} ?2{{}} ORDER BY name LIMIT ?3"
_RUNS_BETWEEN = f"{_RUNS} WHERE tenant = ? AND name BETWEEN ? AND ? ORDER BY name"
_RECENT_RUNS = (
    f"{_RUNS} INDEXED BY runs_recent WHERE tenant = ?1 AND NOT turn_open AND NOT nested"
    " AND changed_at <= ?2 AND NOT (changed_at = ?2 AND name <= ?3)"
    " ORDER BY changed_at DESC, name LIMIT ?4"
)
# The names are in the table and in an index.
_PARTS = ("INDEXED BY sqlite_autoindex_runs_1", "NOT INDEXED")
_TENANTS = "SELECT DISTINCT tenant FROM runs {} ORDER BY tenant"
_NAMES = "SELECT name FROM runs {} WHERE tenant = ? ORDER BY name"
_ORPHANS = "SELECT COUNT(*) FROM records WHERE run NOT IN (SELECT id FROM runs)"
# JSON may escape non-ASCII letters, and LIKE does not know the escapes.
_HOLDING = (
    # CROSS JOIN reads the records of the range first, and then the run of each.
    "SELECT at, name, seq, key FROM records CROSS JOIN runs ON runs.id = run"  # noqa: S608  # REASON: names of our own
    f" WHERE records.id > ? AND records.id <= ? AND tenant = ? AND type IN {SAID}{{}}"  # REASON: names of our own
)
_LIKE = " AND event LIKE ? ESCAPE '!'"
_LIKE_OR_ESCAPED = " AND (event LIKE ? ESCAPE '!' OR INSTR(event, '\\u'))"
_REQUEST = (
    "SELECT name, key FROM requests JOIN runs ON runs.id = run"
    " WHERE requests.tenant = ? AND request = ?"
)


class RunHead(NamedTuple):
    """What identifies a run, and how many records it has.

    Args:
        id: its id; after a deletion, another run may have it.
        records: the number of its records.
        deletions: the number of deletions in this file.
    """

    id: int
    records: int
    deletions: int


def select_head(tenant: str, run: str, connection: sqlite3.Connection) -> RunHead | None:
    """Select the head of a run; None if it is unknown."""
    found = connection.execute(_HEAD, (tenant, run)).fetchone()
    return RunHead(*found) if found else None


def select_records(
    tenant: str,
    run: str,
    after: int,
    connection: sqlite3.Connection,
    *,
    limit: int = MOST_ROWS,
) -> tuple[list[Row], RunHead | None]:
    """Select the next rows of a run after a number, and its head.

    If the index of the numbers is damaged, that of the keys leads to the same rows.
    """
    head = select_head(tenant, run, connection)
    if head is None:
        return [], None
    values = (head.id, after, limit)
    rows = _select_undamaged(connection, (_BY_SEQ, _BY_KEY), values)
    return _put_media_back(rows, connection), head


def _put_media_back(rows: list[Row], connection: sqlite3.Connection) -> list[Row]:
    for index, row in enumerate(rows):
        event = row[_EVENT]
        if isinstance(event, str) and has_media(event):
            rows[index] = (*row[:_EVENT], put_media_back(event, connection), *row[_EVENT + 1 :])
    return rows


def select_next_runs(
    tenant: str, after: str | None, connection: sqlite3.Connection, *, turn_open: bool
) -> list[Row]:
    """Select the fields of `RunEntry` for at most `MOST_RUNS` runs after a name, sorted by name."""
    select = _NEXT_RUNS.format(">=" if after is None else ">", " AND turn_open" * turn_open)
    return connection.execute(select, (tenant, after or "", MOST_RUNS)).fetchall()


def select_runs_between(
    tenant: str, first: str, last: str, connection: sqlite3.Connection
) -> list[Row]:
    """Select the fields of `RunEntry` for the runs from one name to another, sorted by name."""
    return connection.execute(_RUNS_BETWEEN, (tenant, first, last)).fetchall()


def select_recent_runs(
    tenant: str, limit: int, before: tuple[float, str], connection: sqlite3.Connection
) -> tuple[list[Row], list[Row]]:
    """Select runs for `recent_runs`: those without an open turn, and the first with one.

    Both are of the same state, so a turn that opens or closes meanwhile hides no run.
    """
    closed = connection.execute(_RECENT_RUNS, (tenant, *before, limit)).fetchall()
    return closed, select_next_runs(tenant, None, connection, turn_open=True)


def select_tenants(connection: sqlite3.Connection) -> list[str]:
    """Select the names of the tenants that have runs."""
    rows = _select_undamaged(connection, [_TENANTS.format(part) for part in _PARTS], ())
    return [str(name) for (name,) in rows]


def select_names(tenant: str, connection: sqlite3.Connection) -> list[str]:
    """Select the names of the runs, sorted, also if a page of the table of runs is damaged."""
    rows = _select_undamaged(connection, [_NAMES.format(part) for part in _PARTS], (tenant,))
    return [str(name) for (name,) in rows]


def count_orphans(connection: sqlite3.Connection) -> int:
    """Count the records whose run is missing."""
    found: tuple[int] = connection.execute(_ORPHANS).fetchone()
    return found[0]


def _select_undamaged(
    connection: sqlite3.Connection, statements: Sequence[str], values: tuple[object, ...]
) -> list[Row]:
    """Return the rows of the first statement that finds no damaged page."""
    *others, last = statements
    for statement in others:
        try:
            return connection.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_CORRUPT:
                raise
    return connection.execute(last, values).fetchall()


def select_keys(tenant: str, run: str, connection: sqlite3.Connection) -> list[str]:
    """Select the keys of a run in order, from an index alone."""
    head = select_head(tenant, run, connection)
    return [str(key) for (key,) in connection.execute(_KEYS, head[:1])] if head else []


def select_by_keys(
    tenant: str, run: str, wanted: Sequence[str], connection: sqlite3.Connection
) -> list[Row]:
    """Select the rows of a run that have one of these keys, in order."""
    head = select_head(tenant, run, connection)
    if head is None:
        return []
    rows = connection.execute(_PICK, (head[0], json.dumps(wanted))).fetchall()
    return _put_media_back(rows, connection)


def find_words(
    tenant: str, words: Sequence[str], last: int | None, connection: sqlite3.Connection
) -> tuple[list[Row], int]:
    """Look for words in the next records, from the latest to the first.

    Args:
        tenant: the tenant.
        words: the words.
        last: the id of the last record to look at; None for the last one that there is.
        connection: the connection.

    Returns:
        Time, run, number and key of each record that may contain all of these words, and the id at
        which the next call continues; 0 after the first record.
    """
    if last is None:
        last = connection.execute("SELECT COALESCE(MAX(id), 0) FROM records").fetchone()[0]
    first = max(last - MOST_ROWS, 0)
    tests = "".join(_LIKE if word.isascii() else _LIKE_OR_ESCAPED for word in words)
    patterns = [f"%{_escape_like(word)}%" for word in words]
    values = (first, last, tenant, *patterns)
    return connection.execute(_HOLDING.format(tests), values).fetchall(), first


def _escape_like(word: str) -> str:
    return word.replace("!", "!!").replace("%", "!%").replace("_", "!_")


def select_request(
    tenant: str, request: str, connection: sqlite3.Connection
) -> tuple[str, str] | None:
    """Select run and key of the turn that has this request; None if there is none."""
    found: tuple[str, str] | None = connection.execute(_REQUEST, (tenant, request)).fetchone()
    return found


def select_snapshot(tenant: str, run: str, connection: sqlite3.Connection) -> bytes | None:
    """Select the snapshot of a run, if there is one."""
    head = select_head(tenant, run, connection)
    if head is None:
        return None
    found = connection.execute("SELECT state FROM snapshots WHERE run = ?", head[:1]).fetchone()
    if not found or not isinstance(found[0], bytes):
        return None
    text = found[0].decode(errors="surrogateescape")
    return put_media_back(text, connection).encode(errors="surrogateescape")
