"""Queries of a SQLite journal: runs, their records, snapshots and requests.

The writer thread calls these functions with its connection. Each query is of one tenant.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from holdfast.journal.journal_names import DELETED, UNFINISHED
from holdfast.journal.media_store import has_media, put_media_back
from holdfast.journal.pieces import PIECE, fetch_piece
from holdfast.journal.port import MOST_REQUESTS
from holdfast.journal.rows import SAID, Row

T = TypeVar("T")

_HEAD = (
    "SELECT id, records, (SELECT deletions FROM identity) FROM runs WHERE tenant = ? AND name = ?"
)
_SEARCHING = 0.02  # seconds; no append waits for a search, but an emptying of the log does
MOST_RUNS = 200
"""The maximum number of runs that are listed at once."""

# If its page in the table is damaged: its id is also in the index of the names.
_HEAD_OF_INDEX = (
    "SELECT id, (SELECT COALESCE(MAX(seq), 0) FROM records WHERE run = runs.id),"
    " (SELECT deletions FROM identity)"
    " FROM runs INDEXED BY sqlite_autoindex_runs_1 WHERE tenant = ? AND name = ?"
)
# The name of the run is a value: its checksum says whether a record belongs to it.
_COLUMNS = "schema, ? AS name, seq, key, digest, type, at, event, checksum FROM records"
_EVENT = 7
_LINES = f"SELECT {_COLUMNS}{{}} WHERE run = ? AND seq > ? ORDER BY seq"  # REASON: names of our own
_BY_SEQ = _LINES.format(" INDEXED BY records_by_seq")
_BY_KEY = _LINES.format(" INDEXED BY records_by_key")
_KEYS = "SELECT key FROM (SELECT key, id FROM records INDEXED BY records_by_key WHERE run = ?) ORDER BY id"
_PICK = (
    f"SELECT {_COLUMNS} INDEXED BY records_by_key"  # noqa: S608  # REASON: names of our own
    " WHERE run = ? AND seq > ? AND key IN (SELECT value FROM json_each(?)) ORDER BY seq"
)
_RUNS = "SELECT name, records, opened_at, changed_at, turn_open, agent FROM runs"
_NEXT_RUNS = f"{_RUNS} WHERE tenant = ?1 AND name {{}} ?2{{}} ORDER BY name LIMIT ?3"
_RUNS_BETWEEN = f"{_RUNS} WHERE tenant = ? AND name BETWEEN ? AND ? ORDER BY name"
_RECENT_RUNS = (
    f"{_RUNS} INDEXED BY runs_recent WHERE tenant = ?1 AND status <> 'open' AND NOT nested"
    " AND changed_at <= ?2 AND NOT (changed_at = ?2 AND name <= ?3)"
    " ORDER BY changed_at DESC, name LIMIT ?4"
)
# The names are in the table and in an index.
_PARTS = ("INDEXED BY sqlite_autoindex_runs_1", "NOT INDEXED")
_TENANTS = "SELECT DISTINCT tenant FROM runs {} WHERE tenant NOT IN (?, ?) ORDER BY tenant"
_TENANTS_WITH_OPEN_TURNS = (
    "SELECT DISTINCT tenant FROM runs WHERE turn_open AND tenant NOT IN (?, ?) ORDER BY tenant"
)
_NAMES = "SELECT name FROM runs {} WHERE tenant = ? ORDER BY name"
_ORPHANS = (
    "SELECT COUNT(*) FROM records"
    " WHERE run NOT IN (SELECT +id FROM runs INDEXED BY sqlite_autoindex_runs_1)"
)
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
_REQUESTS = (
    "SELECT request FROM requests WHERE tenant = ? AND request BETWEEN ? AND ?"
    " ORDER BY request LIMIT ?"
)


class RunHead(NamedTuple):
    """The identity of a run, and how many records it has.

    Args:
        id: its id; after a deletion, another run may have it.
        records: the number of its records.
        deletions: the number of deletions in this file.
    """

    id: int
    records: int
    deletions: int


class RunPiece(NamedTuple):
    """Some rows of a run.

    Args:
        head: the head of the run.
        rows: the rows.
        is_end: whether there are no more after them.
    """

    head: RunHead
    rows: list[Row]
    is_end: bool


def select_head(tenant: str, run: str, connection: sqlite3.Connection) -> RunHead | None:
    """Select the head of a run; None if it is unknown."""
    try:
        found = connection.execute(_HEAD, (tenant, run)).fetchone()
    except sqlite3.DatabaseError as error:
        if not _is_damage(error):
            raise
        found = connection.execute(_HEAD_OF_INDEX, (tenant, run)).fetchone()
    return RunHead(*found) if found else None


def select_records(
    tenant: str,
    run: str,
    after: int,
    connection: sqlite3.Connection,
    *,
    seconds: float = PIECE,
) -> RunPiece | None:
    """Select a piece of the rows of a run after a number; None if the run is unknown.

    If the index of the numbers is damaged, that of the keys leads to the same rows.
    """
    head = select_head(tenant, run, connection)
    if head is None:
        return None
    read = partial(_fetch_records, connection, values=(run, head.id, after), seconds=seconds)
    return RunPiece(head, *_select_undamaged(read, (_BY_SEQ, _BY_KEY)))


def _fetch_records(
    connection: sqlite3.Connection,
    statement: str,
    values: tuple[object, ...],
    seconds: float = PIECE,
) -> tuple[list[Row], bool]:
    cursor = connection.execute(statement, values)
    return fetch_piece(cursor, partial(restore_row_media, connection), seconds)


def restore_row_media(connection: sqlite3.Connection, row: Row) -> Row:
    """Return the row of a record with the bytes that are stored beside it."""
    event = row[_EVENT]
    if not isinstance(event, str) or not has_media(event):
        return row
    return (*row[:_EVENT], put_media_back(event, connection), *row[_EVENT + 1 :])


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
    """Select runs for `recent_runs`: those that wait or have ended, and the first with an open turn.

    Both are of the same state, so a turn that opens or closes meanwhile hides no run.
    """
    closed = connection.execute(_RECENT_RUNS, (tenant, *before, limit)).fetchall()
    return closed, select_next_runs(tenant, None, connection, turn_open=True)


def select_tenants(connection: sqlite3.Connection, *, turn_open: bool) -> list[str]:
    """Select the names of the tenants that have runs, or only those with an open turn."""
    read = partial(_fetch_all, connection, values=(DELETED, UNFINISHED))
    if turn_open:
        rows = read(_TENANTS_WITH_OPEN_TURNS)
    else:
        rows = _select_undamaged(read, [_TENANTS.format(part) for part in _PARTS])
    return [str(name) for (name,) in rows]


def select_names(tenant: str, connection: sqlite3.Connection) -> list[str]:
    """Select the names of the runs, sorted, also if a page of the table of runs is damaged."""
    read = partial(_fetch_all, connection, values=(tenant,))
    rows = _select_undamaged(read, [_NAMES.format(part) for part in _PARTS])
    return [str(name) for (name,) in rows]


def _fetch_all(
    connection: sqlite3.Connection, statement: str, values: tuple[object, ...]
) -> list[Row]:
    return connection.execute(statement, values).fetchall()


def count_orphans(connection: sqlite3.Connection) -> int:
    """Count the records whose run is missing."""
    found: tuple[int] = connection.execute(_ORPHANS).fetchone()
    return found[0]


def _select_undamaged(read: Callable[[str], T], statements: Sequence[str]) -> T:
    """Read with the first statement that finds no damaged page."""
    *others, last = statements
    for statement in others:
        try:
            return read(statement)
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise
    return read(last)


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT


def select_keys(tenant: str, run: str, connection: sqlite3.Connection) -> list[str]:
    """Select the keys of a run in order, from an index alone."""
    head = select_head(tenant, run, connection)
    return [str(key) for (key,) in connection.execute(_KEYS, head[:1])] if head else []


def select_by_keys(
    tenant: str, run: str, wanted: Sequence[str], after: int, connection: sqlite3.Connection
) -> tuple[list[Row], bool]:
    """Select the rows of a run after a number that have one of these keys, in order.

    Returns:
        A piece of the rows, and whether there are no more.
    """
    head = select_head(tenant, run, connection)
    if head is None:
        return [], True
    return _fetch_records(connection, _PICK, (run, head.id, after, json.dumps(wanted)))


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
        last = int(connection.execute("SELECT COALESCE(MAX(id), 0) FROM records").fetchone()[0])
    tests = "".join(_LIKE if word.isascii() else _LIKE_OR_ESCAPED for word in words)
    patterns = [f"%{_escape_like(word)}%" for word in words]
    statement = _HOLDING.format(tests)
    rows: list[Row] = []
    end, count = time.monotonic() + _SEARCHING, 1
    while last > 0 and time.monotonic() < end:
        first = max(last - count, 0)
        rows += connection.execute(statement, (first, last, tenant, *patterns)).fetchall()
        # Twice as many as before, so that a piece takes at most about three times its time.
        last, count = first, 2 * count
    return rows, last


def _escape_like(word: str) -> str:
    return word.replace("!", "!!").replace("%", "!%").replace("_", "!_")


def select_request(
    tenant: str, request: str, connection: sqlite3.Connection
) -> tuple[str, str] | None:
    """Select run and key of the turn that has this request; None if there is none."""
    found: tuple[str, str] | None = connection.execute(_REQUEST, (tenant, request)).fetchone()
    return found


def select_requests(
    tenant: str, first: str, last: str, connection: sqlite3.Connection
) -> list[str]:
    """Select the requests from one to another, sorted."""
    values = (tenant, first, last, MOST_REQUESTS)
    return [str(row[0]) for row in connection.execute(_REQUESTS, values)]


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
    """Select the bytes of the events of a tenant, with their media, and of its queued turns.

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
