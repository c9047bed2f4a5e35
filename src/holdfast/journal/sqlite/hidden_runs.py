"""Runs of a SQLite journal that nobody sees: those that are being deleted, and those that are being made.

A long run is deleted, or inserted, in many short transactions, so that no append waits for all of it.
Yet each is one change: a deletion first hides the run, and an insertion shows its runs at the end. A
hidden run belongs to a tenant whose name no program can choose. If the process is killed in between,
the next one removes the rest.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence

from holdfast.core.acts import Act
from holdfast.journal.journal_names import DELETED, UNFINISHED
from holdfast.journal.media_store import delete_one_medium
from holdfast.journal.pieces import PIECE
from holdfast.journal.port import Record
from holdfast.journal.rows import EncodedRow, count_bytes
from holdfast.journal.run_summary import summarize_run
from holdfast.journal.sqlite.sqlite_acts import check_new_act, delete_acts, insert_act
from holdfast.journal.sqlite.sqlite_changes import (
    RUN_COLUMNS,
    check_new,
    get_id,
    insert_requests,
    insert_row,
    make_run_values,
)
from holdfast.journal.sqlite.sqlite_queries import select_head

SHORT_RUN = 100
"""The maximum number of records that are deleted or inserted with the run itself."""

_ROWS_AT_ONCE = 16

_COUNT_DELETION = (
    "UPDATE identity SET deletions = deletions + ?,"
    " last_id = MAX(last_id, COALESCE((SELECT MAX(id) FROM records), 0))"
)
_HIDE = (
    "UPDATE runs SET tenant = ?, name = 'r' || id, agent = '', turn_open = 0, status = 'idle',"
    " title = '', questions = '', cost = NULL WHERE id = ?"
)
_FIND = "SELECT id FROM runs WHERE tenant IN (?, ?)"
# From the end, so that the numbers of the rest have no gap.
_DELETE_ROWS = (
    "DELETE FROM records WHERE id IN"
    " (SELECT id FROM records WHERE run = ? ORDER BY seq DESC LIMIT ?)"
)
_COUNT_ROWS = "UPDATE runs SET records = records + ?, bytes = bytes + ? WHERE id = ?"
_BEGIN = (
    "INSERT INTO runs"
    " (tenant, name, nested, bytes, records, opened_at, changed_at, turn_open, agent)"
    " VALUES (?, hex(randomblob(16)), 1, 0, 0, 0, 0, 0, '')"
)
_SHOW = (
    f"UPDATE runs SET ({', '.join(RUN_COLUMNS)}) = (?{', ?' * (len(RUN_COLUMNS) - 1)}) WHERE id = ?"  # noqa: S608  # REASON: names of our own
)


def hide_runs(
    tenant: str, runs: Sequence[str], connection: sqlite3.Connection, act: Act | None = None
) -> tuple[int, list[int]]:
    """Hide runs for ever, and delete the short ones as long as the time of one piece allows.

    The acts on them are deleted, and the act that does it is inserted.

    Returns:
        The number of all their records, and the ids of the runs of which records are left.
    """
    check_new_act(tenant, act, connection)
    connection.execute(_COUNT_DELETION, (1,))
    delete_acts(tenant, runs, connection)
    insert_act(tenant, act, connection)
    count, left = 0, []
    end = time.monotonic() + PIECE
    for run in runs:
        head = select_head(tenant, run, connection)
        if head is None:
            continue
        count += head.records
        connection.execute("DELETE FROM requests WHERE run = ?", (head.id,))
        connection.execute(_HIDE, (DELETED, head.id))
        is_later = head.records > SHORT_RUN or time.monotonic() > end
        if is_later or not _delete_hidden(connection, head.id, end):
            left.append(head.id)
    return count, left


def delete_hidden(runs: Sequence[int], connection: sqlite3.Connection) -> Sequence[int]:
    """Delete a piece of some hidden runs; return those of which records are left."""
    end = time.monotonic() + PIECE
    connection.execute(_COUNT_DELETION, (0,))
    for number, run in enumerate(runs):
        if not _delete_hidden(connection, run, end):
            return runs[number:]
    return ()


def find_hidden(connection: sqlite3.Connection) -> Sequence[int]:
    """Find the hidden runs, which a killed process left when a file is opened; none if it is damaged."""
    try:
        found = connection.execute(_FIND, (DELETED, UNFINISHED)).fetchall()
    except sqlite3.Error:
        return ()
    return [run for (run,) in found]


def _delete_hidden(connection: sqlite3.Connection, run: int, end: float) -> bool:
    """Delete a hidden run, or a part of it when the time is over; return whether all of it."""
    while (count := connection.execute(_DELETE_ROWS, (run, _ROWS_AT_ONCE)).rowcount) > 0:
        connection.execute(_COUNT_ROWS, (-count, 0, run))
        if time.monotonic() > end:
            return False
    connection.execute("DELETE FROM snapshots WHERE run = ?", (run,))
    while delete_one_medium(run, connection):
        if time.monotonic() > end:
            return False
    connection.execute("DELETE FROM runs WHERE id = ?", (run,))
    return True


def begin_insertion(connection: sqlite3.Connection) -> int:
    """Make a hidden run without records; return its id."""
    return get_id(connection.execute(_BEGIN, (UNFINISHED,)))


def insert_piece(run: int, rows: Sequence[EncodedRow], connection: sqlite3.Connection) -> int:
    """Insert the first rows into a hidden run; return how many were inserted."""
    end = time.monotonic() + PIECE
    count = 0
    while count < len(rows) and (count == 0 or time.monotonic() < end):
        row = rows[count]
        insert_row(run, row.line.seq, row, connection)
        count += 1
    connection.execute(_COUNT_ROWS, (count, count_bytes(rows[:count]), run))
    return count


def show_runs(
    tenant: str,
    runs: Mapping[str, tuple[int, Sequence[Record]]],
    connection: sqlite3.Connection,
    act: Act | None = None,
) -> None:
    """Show runs that were inserted. Raises ConflictError if one of them exists."""
    check_new(tenant, runs, connection)
    check_new_act(tenant, act, connection)
    insert_act(tenant, act, connection)
    for run, (number, records) in runs.items():
        values = make_run_values(tenant, run, summarize_run(records))
        connection.execute(_SHOW, (*values, number))
        insert_requests(tenant, number, records, connection)
