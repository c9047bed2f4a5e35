"""Changes of a SQLite journal: whole runs and snapshots. See also `sqlite_appends` and `hidden_runs`.

The writer thread calls these functions with its connection, in a transaction that also has other
changes. So a function that raises a HoldfastError must not have changed anything yet.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import astuple

from holdfast.core.acts import Act
from holdfast.core.effects import is_nested_run
from holdfast.core.errors import ConflictError
from holdfast.core.events import TurnOpened
from holdfast.core.run_fold import RunState
from holdfast.journal.media_store import LEAST, move_media_out
from holdfast.journal.port import Record
from holdfast.journal.rows import EncodedRow, count_bytes, number_checksum
from holdfast.journal.run_summary import RunSummary, summarize_run
from holdfast.journal.sqlite.run_heads import to_writer_connection
from holdfast.journal.sqlite.sqlite_acts import check_new_act, insert_act
from holdfast.journal.sqlite.sqlite_queries import select_head

INSERT = (
    "INSERT INTO records (id, run, seq, key, digest, type, at, schema, event, checksum)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
RUN_COLUMNS = (
    *("tenant", "name", "nested", "records", "opened_at", "changed_at", "agent"),
    *RunState.__struct_fields__,
)
INSERT_RUN = (
    f"INSERT INTO runs (bytes, {', '.join(RUN_COLUMNS)}) VALUES (?{', ?' * len(RUN_COLUMNS)})"  # noqa: S608  # REASON: names of our own
)
INSERT_REQUEST = "INSERT OR IGNORE INTO requests (tenant, request, run, key) VALUES (?, ?, ?, ?)"


def get_id(cursor: sqlite3.Cursor) -> int:
    """Return the id of the row that a statement inserted."""
    if cursor.lastrowid is None:
        raise sqlite3.InternalError("an insert has no row")
    return cursor.lastrowid


def make_run_values(tenant: str, name: str, summary: RunSummary) -> tuple[object, ...]:
    """Make the values of `RUN_COLUMNS`."""
    *columns, state = summary
    return (tenant, name, is_nested_run(name), *columns, *astuple(state))


def insert_row(run: int, seq: int, row: EncodedRow, connection: sqlite3.Connection) -> None:
    """Insert a record with its number."""
    record = to_writer_connection(connection).get_last_id() + 1
    line, event, checksum = row
    if len(event) >= LEAST:
        event = move_media_out(event, run, connection)
    checksum = number_checksum(checksum, seq)
    connection.execute(
        INSERT,
        (record, run, seq, line.key, line.digest, line.type, line.at, line.schema, event, checksum),
    )


def insert_runs(
    tenant: str,
    runs: Mapping[str, tuple[Sequence[Record], Sequence[EncodedRow]]],
    connection: sqlite3.Connection,
    act: Act | None = None,
) -> None:
    """Insert whole runs, and the act that makes them. Raises ConflictError if one of them exists.

    A request that another turn has stays with that turn.
    """
    check_new(tenant, runs, connection)
    check_new_act(tenant, act, connection)
    insert_act(tenant, act, connection)
    for run, (records, rows) in runs.items():
        values = make_run_values(tenant, run, summarize_run(records))
        number = get_id(connection.execute(INSERT_RUN, (count_bytes(rows), *values)))
        for row in rows:
            insert_row(number, row.line.seq, row, connection)
        insert_requests(tenant, number, records, connection)


def check_new(tenant: str, runs: Iterable[str], connection: sqlite3.Connection) -> None:
    """Raise ConflictError if one of these runs exists."""
    for run in runs:
        if select_head(tenant, run, connection) is not None:
            raise ConflictError(f"the journal already has a run {run!r}")


def insert_requests(
    tenant: str, run: int, records: Sequence[Record], connection: sqlite3.Connection
) -> None:
    """Insert the requests of the turns of a run, without those that another turn has."""
    for record in records:
        event = record.event
        if isinstance(event, TurnOpened) and event.request:
            connection.execute(INSERT_REQUEST, (tenant, event.request, run, event.key))


def insert_snapshot(
    tenant: str, run: str, records: int, state: bytes, connection: sqlite3.Connection
) -> None:
    """Replace the snapshot of a run, unless the run was deleted meanwhile."""
    head = select_head(tenant, run, connection)
    if head is not None and head[1] >= records:
        text = state.decode(errors="surrogateescape")  # JSON, if Holdfast made it
        small = move_media_out(text, head[0], connection).encode(errors="surrogateescape")
        connection.execute(
            "INSERT OR REPLACE INTO snapshots (run, state) VALUES (?, ?)", (head[0], small)
        )
