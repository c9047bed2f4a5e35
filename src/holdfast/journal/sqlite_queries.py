"""Queries of a SQLite journal: runs, their records, snapshots and requests.

The writer thread calls these functions with its connection. Each query is of one tenant.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from holdfast.journal.media_store import has_media, put_media_back
from holdfast.journal.rows import SAID, Row

_HEAD = "SELECT id, records FROM runs WHERE tenant = ? AND name = ?"
_COLUMNS = "schema, name, seq, key, digest, type, at, event, checksum"
_EVENT = 7
_JOINED = "FROM records{} JOIN runs ON runs.id = run"
_LINES = f"SELECT {_COLUMNS} {_JOINED} WHERE run = ? AND seq > ? ORDER BY seq"  # REASON: names of our own
_BY_SEQ = _LINES.format(" INDEXED BY records_by_seq")
_BY_KEY = _LINES.format(" INDEXED BY records_by_key")
_KEYS = "SELECT key FROM (SELECT key, id FROM records INDEXED BY records_by_key WHERE run = ?) ORDER BY id"
_PICK = (
    f"SELECT {_COLUMNS} {_JOINED.format(' INDEXED BY records_by_key')}"  # noqa: S608  # REASON: names of our own
    " WHERE run = ? AND key IN (SELECT value FROM json_each(?)) ORDER BY seq"
)
_RUNS = (
    "SELECT name, records, opened_at, changed_at, turn_open, agent FROM runs"
    " WHERE tenant = ?{} ORDER BY name"
)
# The names are in the table and in an index.
_PARTS = ("INDEXED BY sqlite_autoindex_runs_1", "NOT INDEXED")
_TENANTS = "SELECT DISTINCT tenant FROM runs {} ORDER BY tenant"
_NAMES = "SELECT name FROM runs {} WHERE tenant = ? ORDER BY name"
_ORPHANS = "SELECT COUNT(*) FROM records WHERE run NOT IN (SELECT id FROM runs)"
# JSON may escape non-ASCII letters, and LIKE does not know the escapes.
_HOLDING = (
    f"SELECT name, key {_JOINED.format('')} WHERE tenant = ? AND type IN {SAID}{{}}"  # REASON: names of our own
    " ORDER BY at DESC, name, seq DESC"
)
_LIKE = " AND event LIKE ? ESCAPE '!'"
_LIKE_OR_ESCAPED = " AND (event LIKE ? ESCAPE '!' OR INSTR(event, '\\u'))"
_REQUEST = (
    "SELECT name, key FROM requests JOIN runs ON runs.id = run"
    " WHERE requests.tenant = ? AND request = ?"
)


def select_head(tenant: str, run: str, connection: sqlite3.Connection) -> tuple[int, int] | None:
    """Select the id of a run and the number of its records; None if it is unknown."""
    found: tuple[int, int] | None = connection.execute(_HEAD, (tenant, run)).fetchone()
    return found


def select_records(
    tenant: str, run: str, after: int, connection: sqlite3.Connection
) -> tuple[list[Row], int]:
    """Select the rows of a run after a number, and the number of records that the run must have.

    If the index of the numbers is damaged, that of the keys leads to the same rows.
    """
    head = select_head(tenant, run, connection)
    if head is None:
        return [], 0
    rows = _select_undamaged(connection, (_BY_SEQ, _BY_KEY), (head[0], after))
    return _put_media_back(rows, connection), head[1]


def _put_media_back(rows: list[Row], connection: sqlite3.Connection) -> list[Row]:
    for index, row in enumerate(rows):
        event = row[_EVENT]
        if isinstance(event, str) and has_media(event):
            rows[index] = (*row[:_EVENT], put_media_back(event, connection), *row[_EVENT + 1 :])
    return rows


def select_runs(tenant: str, connection: sqlite3.Connection, *, turn_open: bool) -> list[Row]:
    """Select the fields of `RunEntry` for each run, sorted by name."""
    return connection.execute(
        _RUNS.format(" AND turn_open" if turn_open else ""), (tenant,)
    ).fetchall()


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
    tenant: str, words: Sequence[str], connection: sqlite3.Connection
) -> list[tuple[str, str]]:
    """Select run and key of each record that may contain all of these words, the newest first."""
    tests = "".join(_LIKE if word.isascii() else _LIKE_OR_ESCAPED for word in words)
    patterns = [f"%{_escape_like(word)}%" for word in words]
    return connection.execute(_HOLDING.format(tests), (tenant, *patterns)).fetchall()


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
