"""Appends to a SQLite journal: all that are committed together are inserted together.

The rows of a group of appends are one `executemany`, and each run of the group is updated once. The
writer thread calls these functions with its connection, in a transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from holdfast.core.acts import Act
from holdfast.core.effects import is_nested_run
from holdfast.core.errors import HoldfastError
from holdfast.core.events import Event, TurnClosed, TurnOpened
from holdfast.journal.journal_errors import RequestExistsError, conflict_error
from holdfast.journal.media_store import LEAST, move_media_out
from holdfast.journal.rows import EncodedRow, count_bytes, number_checksum
from holdfast.journal.run_heads import KnownHead, to_writer_connection
from holdfast.journal.sqlite_acts import check_new_act, insert_act
from holdfast.journal.sqlite_changes import INSERT, INSERT_REQUEST, INSERT_RUN, get_id

_UPDATE_RUN = (
    "UPDATE runs SET records = records + ?, bytes = bytes + ?, opened_at = MIN(opened_at, ?),"
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


class Append:
    """An append: an event and perhaps its marker, with their rows.

    Args:
        tenant: the tenant.
        event: the event, which may open or close a turn.
        rows: the row of the event, and that of its marker.
        act: the act that writes it.
    """

    __slots__ = ("act", "event", "request", "rows", "tenant")

    def __init__(
        self, tenant: str, event: Event, rows: Sequence[EncodedRow], act: Act | None = None
    ) -> None:
        self.tenant = tenant
        self.act = act
        self.event = event
        self.rows = rows
        self.request = event.request if isinstance(event, TurnOpened) else ""

    def __call__(self, connection: sqlite3.Connection) -> None:
        """Insert the rows. Raises ConflictError, RequestExistsError."""
        group = AppendGroup((self,), connection)
        group.insert()
        if group.refused:
            raise group.refused[0]


class _RunChange(NamedTuple):
    """What a group changes in the row of a run that has records already."""

    append: int
    """The number of the first append of the run."""
    records: int
    bytes: int
    first: float
    last: float

    def add(self, records: int, size: int, first: float, last: float) -> _RunChange:
        """Add those of another append."""
        times = min(self.first, first), max(self.last, last)
        return _RunChange(self.append, self.records + records, self.bytes + size, *times)


class _TurnChange(NamedTuple):
    """Which turn of a run a group opens last, and whether it is open after the group."""

    append: int
    opened: TurnOpened | None
    is_open: bool


class AppendGroup:
    """Appends that are inserted together, in their order.

    Args:
        appends: the appends.
        connection: a connection of a journal that writes, in a transaction.

    Attributes:
        current: the number of the append that an error of SQLite belongs to.
        refused: the errors of the appends that were refused, by their numbers; the others are inserted.
    """

    def __init__(self, appends: Sequence[Append], connection: sqlite3.Connection) -> None:
        self.current = 0
        self.refused: dict[int, HoldfastError] = {}
        self._appends = appends
        self._connection = to_writer_connection(connection)
        self._last_id = 0
        self._changes: dict[int, _RunChange] = {}
        self._turns: dict[int, _TurnChange] = {}

    def insert(self) -> None:
        """Insert the appends. After an error of SQLite, the transaction must be rolled back."""
        self._last_id = self._connection.begin_appends()
        rows = self._make_rows()
        while not self._insert_until_refusal(rows):
            continue
        if self._changes:
            self._update_runs()
        self._connection.end_appends(self._last_id)

    def _insert_until_refusal(self, rows: Iterator[tuple[object, ...]]) -> bool:
        """Insert rows until one has the key of another record; return whether none had."""
        try:
            self._connection.executemany(INSERT, rows)
        except sqlite3.IntegrityError as error:
            if _KEY_IS_TAKEN not in str(error):
                raise
            line = self._appends[self.current].rows[0].line
            self.refused[self.current] = conflict_error(line.run, line.key)
            return False
        return True

    def _make_rows(self) -> Iterator[tuple[object, ...]]:
        """Yield the values of each row when those before it are inserted."""
        connection, refused = self._connection, self.refused
        for number, append in enumerate(self._appends):
            self.current = number
            name = append.rows[0].line.run
            head = connection.find_head(append.tenant, name)
            try:
                self._check(append, head)
            except HoldfastError as error:
                refused[number] = error
                continue
            run, seq = head or (self._insert_run(append), 0)
            record = self._last_id
            for line, text, checksum in append.rows:
                record, seq = record + 1, seq + 1
                event = text if len(text) < LEAST else move_media_out(text, run, connection)
                numbered = number_checksum(checksum, seq)
                columns = line.key, line.digest, line.type, line.at, line.schema
                yield (record, run, seq, *columns, event, numbered)
            if number in refused:
                continue
            self._last_id = record
            connection.remember(append.tenant, name, (run, seq))
            if head is not None:
                self._note_change(run, append)
            if append.request:
                values = append.tenant, append.request, run, append.event.key
                connection.execute(INSERT_REQUEST, values)
            if append.act is not None:
                insert_act(append.tenant, append.act, connection)

    def _check(self, append: Append, head: KnownHead | None) -> None:
        """Refuse an append that inserts more than one short row, before it inserts anything.

        A single short row inserts nothing else, so the index of the keys is enough to refuse it.
        """
        rows, request, execute = append.rows, append.request, self._connection.execute
        if len(rows) == 1 and len(rows[0].event) < LEAST and not request and append.act is None:
            return
        if head is not None:
            for row in rows:
                if execute(_FIND_KEY, (head[0], row.line.key)).fetchone():
                    raise conflict_error(row.line.run, row.line.key)
        if request and execute(_FIND_REQUEST, (append.tenant, request)).fetchone():
            raise RequestExistsError(request)
        check_new_act(append.tenant, append.act, self._connection)

    def _insert_run(self, append: Append) -> int:
        event, name = append.event, append.rows[0].line.run
        times = [row.line.at for row in append.rows]
        is_open = isinstance(event, TurnOpened)
        agent = event.agent if isinstance(event, TurnOpened) else ""
        summary = (len(times), min(times), max(times), is_open, agent)
        head = (append.tenant, name, is_nested_run(name), count_bytes(append.rows))
        return get_id(self._connection.execute(INSERT_RUN, (*head, *summary)))

    def _note_change(self, run: int, append: Append) -> None:
        event, rows = append.event, append.rows
        begin, end = rows[0].line, rows[-1].line
        times = (begin.at, end.at) if begin.at <= end.at else (end.at, begin.at)
        change, added = self._changes.get(run), (len(rows), count_bytes(rows), *times)
        self._changes[run] = (
            _RunChange(self.current, *added) if change is None else change.add(*added)
        )
        is_closed = _CLOSED in (begin.type, end.type)
        if isinstance(event, TurnOpened):
            self._turns[run] = _TurnChange(self.current, event, not is_closed)
        elif is_closed:
            turn = self._turns.get(run)
            self._turns[run] = _TurnChange(self.current, turn and turn.opened, is_open=False)

    def _update_runs(self) -> None:
        # In this order, so that the time changes while the run is not in the index of recent runs.
        execute = self._connection.execute
        for run, turn in self._turns.items():
            if turn.opened is not None:
                self.current = turn.append
                execute(_OPEN_TURN, (run,))
                execute(_SET_AGENT, (turn.opened.agent, run))
        self._connection.executemany(_UPDATE_RUN, self._make_updates())
        for run, turn in self._turns.items():
            if not turn.is_open:
                self.current = turn.append
                execute(_CLOSE_TURN, (run,))

    def _make_updates(self) -> Iterator[tuple[object, ...]]:
        for run, (append, *values) in self._changes.items():
            self.current = append
            yield (*values, run)
