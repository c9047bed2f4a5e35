"""Changes of a SQLite journal: appends, whole runs and snapshots; see `hidden_runs` for deletions.

The writer thread calls these functions with its connection, in a transaction that also has other
changes. So a function that raises a HoldfastError must not have changed anything yet.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from holdfast.core.effects import is_nested_run
from holdfast.core.errors import ConflictError
from holdfast.core.events import Event, TurnClosed, TurnOpened
from holdfast.journal.journal_errors import RequestExistsError, conflict_error
from holdfast.journal.media_store import LEAST, move_media_out
from holdfast.journal.port import Record
from holdfast.journal.rows import EncodedRow, number_checksum
from holdfast.journal.run_heads import KnownHead, to_writer_connection
from holdfast.journal.run_summary import summarize_run
from holdfast.journal.sqlite_queries import select_head

_INSERT = (
    "INSERT INTO records (id, run, seq, key, digest, type, at, schema, event, checksum)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_RUN = (
    "INSERT INTO runs (tenant, name, nested, records, opened_at, changed_at, turn_open, agent)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_UPDATE_RUN = (
    "UPDATE runs SET records = records + ?, opened_at = MIN(opened_at, ?),"
    " changed_at = MAX(changed_at, ?) WHERE id = ?"
)
# Separate, because a changed `turn_open` is also written to an index.
_OPEN_TURN = "UPDATE runs SET turn_open = 1 WHERE id = ? AND NOT turn_open"
_CLOSE_TURN = "UPDATE runs SET turn_open = 0 WHERE id = ? AND turn_open"
_SET_AGENT = "UPDATE runs SET agent = ?1 WHERE id = ?2 AND agent <> ?1"
_CLOSED = str(TurnClosed.__struct_config__.tag)
_FIND_KEY = "SELECT 1 FROM records WHERE run = ? AND key = ?"
_KEY_IS_TAKEN = "UNIQUE constraint failed: records.run, records.key"
_FIND_REQUEST = "SELECT 1 FROM requests WHERE tenant = ? AND request = ?"
_INSERT_REQUEST = "INSERT OR IGNORE INTO requests (tenant, request, run, key) VALUES (?, ?, ?, ?)"


class Append:
    """An append: an event and perhaps its marker, with their rows.

    Args:
        tenant: the tenant.
        event: the event, which may open or close a turn.
        rows: the row of the event, and that of its marker.
    """

    __slots__ = ("_event", "_rows", "_tenant")

    def __init__(self, tenant: str, event: Event, rows: Sequence[EncodedRow]) -> None:
        self._tenant = tenant
        self._event = event
        self._rows = rows

    def __call__(self, connection: sqlite3.Connection) -> None:
        """Insert the rows. Raises ConflictError."""
        own = to_writer_connection(connection)
        name = self._rows[0].line.run
        head = own.find_head(self._tenant, name)
        request = self._event.request if isinstance(self._event, TurnOpened) else ""
        # A single short row inserts nothing else, so the index of the keys is enough to refuse it.
        is_single = len(self._rows) == 1 and len(self._rows[0].event) < LEAST and not request
        if head is not None and not is_single:
            self._check_keys(head.id, own)
        if request and own.execute(_FIND_REQUEST, (self._tenant, request)).fetchone():
            raise RequestExistsError(request)
        record = own.get_last_id()
        run, records = head or (self._insert_run(name, own), 0)
        for row in self._rows:
            record += 1
            records += 1
            try:
                _insert_as(record, run, records, row, own)
            except sqlite3.IntegrityError as error:
                raise _to_conflict(error, row) from None
        if head is not None:
            self._update_run(run, own)
        if request:
            own.execute(_INSERT_REQUEST, (self._tenant, request, run, self._event.key))
        own.remember(self._tenant, name, KnownHead(run, records), record)

    def _check_keys(self, run: int, connection: sqlite3.Connection) -> None:
        for row in self._rows:
            if connection.execute(_FIND_KEY, (run, row.line.key)).fetchone():
                raise conflict_error(row.line.run, row.line.key)

    def _insert_run(self, name: str, connection: sqlite3.Connection) -> int:
        times = [row.line.at for row in self._rows]
        is_open = isinstance(self._event, TurnOpened)
        agent = self._event.agent if isinstance(self._event, TurnOpened) else ""
        summary = (len(times), min(times), max(times), is_open, agent)
        values = (self._tenant, name, is_nested_run(name), *summary)
        return get_id(connection.execute(_INSERT_RUN, values))

    def _update_run(self, run: int, connection: sqlite3.Connection) -> None:
        # In this order, so that the time changes while the run is not in the index of recent runs.
        if isinstance(self._event, TurnOpened):
            connection.execute(_OPEN_TURN, (run,))
            connection.execute(_SET_AGENT, (self._event.agent, run))
        first, last = self._rows[0].line, self._rows[-1].line
        times = (first.at, last.at) if first.at <= last.at else (last.at, first.at)
        connection.execute(_UPDATE_RUN, (len(self._rows), *times, run))
        if _CLOSED in (first.type, last.type):
            connection.execute(_CLOSE_TURN, (run,))


def _to_conflict(error: sqlite3.IntegrityError, row: EncodedRow) -> Exception:
    """Return ConflictError if the key of a row is taken; otherwise the error."""
    return conflict_error(row.line.run, row.line.key) if _KEY_IS_TAKEN in str(error) else error


def get_id(cursor: sqlite3.Cursor) -> int:
    """Return the id of the row that a statement inserted."""
    if cursor.lastrowid is None:
        raise sqlite3.InternalError("an insert has no row")
    return cursor.lastrowid


def insert_row(run: int, seq: int, row: EncodedRow, connection: sqlite3.Connection) -> None:
    """Insert a record with its number."""
    _insert_as(to_writer_connection(connection).get_last_id() + 1, run, seq, row, connection)


def _insert_as(
    record: int, run: int, seq: int, row: EncodedRow, connection: sqlite3.Connection
) -> None:
    """Insert a record with this id and this number."""
    line, event, checksum = row
    if len(event) >= LEAST:
        event = move_media_out(event, run, connection)
    checksum = number_checksum(checksum, seq)
    connection.execute(
        _INSERT,
        (record, run, seq, line.key, line.digest, line.type, line.at, line.schema, event, checksum),
    )


def insert_runs(
    tenant: str,
    runs: Mapping[str, tuple[Sequence[Record], Sequence[EncodedRow]]],
    connection: sqlite3.Connection,
) -> None:
    """Insert whole runs. Raises ConflictError if one of them exists.

    A request that another turn has stays with that turn.
    """
    check_new(tenant, runs, connection)
    for run, (records, rows) in runs.items():
        summary = (tenant, run, is_nested_run(run), *summarize_run(records))
        number = get_id(connection.execute(_INSERT_RUN, summary))
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
            connection.execute(_INSERT_REQUEST, (tenant, event.request, run, event.key))


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
