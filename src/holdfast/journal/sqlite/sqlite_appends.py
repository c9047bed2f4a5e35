"""Appends to a SQLite journal: all that are committed together are inserted together.

The rows of a group of appends are one `executemany`, and each run of the group is updated once. The
writer thread calls these functions with its connection, in a transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from holdfast.core.acts import Act
from holdfast.core.errors import HoldfastError
from holdfast.core.events import Event, TurnOpened
from holdfast.core.run_fold import COUNTS, RunChange, RunState, join_changes
from holdfast.journal.journal_errors import RequestExistsError, conflict_error
from holdfast.journal.media_store import LEAST, move_media_out
from holdfast.journal.rows import EncodedRow, count_bytes, number_checksum
from holdfast.journal.run_summary import HISTORY_TYPES, RunSummary, recount_turns
from holdfast.journal.sqlite.run_heads import KnownHead, to_writer_connection
from holdfast.journal.sqlite.sqlite_acts import check_new_act, insert_act
from holdfast.journal.sqlite.sqlite_changes import (
    INSERT,
    INSERT_REQUEST,
    INSERT_RUN,
    get_id,
    make_run_values,
)

_CHANGES = (
    "records = records + ?, bytes = bytes + ?, opened_at = MIN(opened_at, ?),"
    " changed_at = MAX(changed_at, ?), messages = messages + ?"
)
_SUMS = (*COUNTS, "cost")
_ADD_SUMS = ", ".join(f"{name} = {name} + ?" for name in _SUMS)
_BEGIN_SUMS = ", ".join(f"{name} = ?" for name in _SUMS)
_get_sums: Callable[[RunChange], tuple[object, ...]] = attrgetter(*_SUMS)
_UPDATE_RUN = f"UPDATE runs SET {_CHANGES}, {_ADD_SUMS} WHERE id = ?"  # noqa: S608  # REASON: of constants only
# The state of a turn is also written to indexes, so only the statements that change it name it.
_BEGIN_TURN = (
    f"UPDATE runs SET {_CHANGES}, {_BEGIN_SUMS}, turn = ?,"  # noqa: S608  # REASON: of constants only
    " title = CASE WHEN turns THEN title ELSE ? END, turns = turns + 1, in_doubt = ?,"
    " questions = ?, agent = ?, turn_open = ?, status = ? WHERE id = ?"
)
_CLOSE_TURN = (
    f"UPDATE runs SET {_CHANGES}, {_ADD_SUMS}, turn_open = 0, questions = '', status = ?"  # noqa: S608  # REASON: of constants only
    " WHERE id = ?"
)
_SET_TITLE = "UPDATE runs SET title = ? WHERE id = ? AND NOT turns"
_SET_DOUBT = "UPDATE runs SET in_doubt = 1 WHERE id = ?"
_ADD_QUESTION = (
    "UPDATE runs SET questions = questions || ?,"
    " status = CASE WHEN turn_open THEN 'waiting' ELSE status END WHERE id = ?"
)
_REMOVE_QUESTION = (
    "UPDATE runs SET questions = REPLACE(questions, ?1, ''), status = CASE WHEN NOT turn_open"
    " THEN status WHEN REPLACE(questions, ?1, '') = '' THEN 'open' ELSE 'waiting' END WHERE id = ?2"
)
_SET_TURNS = "UPDATE runs SET title = ?, turns = ?, messages = ? WHERE id = ?"
# Not the records of later appends of the group, whose changes are added after this one.
_HISTORY = (
    "SELECT key, type, CASE WHEN type IN (?1, ?2) THEN event END FROM records WHERE run = ?3"
    " AND seq <= (SELECT records FROM runs WHERE id = ?3) ORDER BY seq"
)
_FIND_KEY = "SELECT 1 FROM records WHERE run = ? AND key = ?"
_KEY_IS_TAKEN = "UNIQUE constraint failed: records.run, records.key"
_FIND_REQUEST = "SELECT 1 FROM requests WHERE tenant = ? AND request = ?"


class Append:
    """An append: an event and perhaps its marker, with their rows.

    Args:
        tenant: the tenant.
        event: the event, which may open or close a turn.
        rows: the row of the event, and that of its marker.
        change: its changes in the row of its run.
        act: the act that writes it.
    """

    __slots__ = ("act", "change", "event", "request", "rows", "tenant")

    def __init__(
        self,
        tenant: str,
        event: Event,
        rows: Sequence[EncodedRow],
        change: RunChange,
        act: Act | None = None,
    ) -> None:
        self.tenant = tenant
        self.change = change
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
    """The changes of some appends of a group in the row of a run that has records already."""

    append: int
    """The number of the first of them."""
    records: int
    bytes: int
    first: float
    last: float
    change: RunChange


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
        self._changes: dict[int, list[_RunChange]] = {}

    def insert(self) -> None:
        """Insert the appends. After an error of SQLite, the transaction must be rolled back."""
        self._last_id = self._connection.begin_appends()
        rows = self._make_rows()
        while not self._insert_until_refusal(rows):
            continue
        for run, changes in self._changes.items():
            for change in changes:
                self.current = change.append
                _update_run(run, change, self._connection)
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
        name = append.rows[0].line.run
        times = [row.line.at for row in append.rows]
        state = RunState()
        state.apply(append.change)
        agent = append.change.agent or ""
        summary = RunSummary(len(times), min(times), max(times), agent, state)
        values = make_run_values(append.tenant, name, summary)
        return get_id(self._connection.execute(INSERT_RUN, (count_bytes(append.rows), *values)))

    def _note_change(self, run: int, append: Append) -> None:
        """Note the change of an append with those before it, if they are one change."""
        begin, end = append.rows[0].line.at, append.rows[-1].line.at
        first, last = (begin, end) if begin <= end else (end, begin)
        size = count_bytes(append.rows)
        new = _RunChange(
            append=self.current,
            records=len(append.rows),
            bytes=size,
            first=first,
            last=last,
            change=append.change,
        )
        noted = self._changes.get(run)
        if noted is None:
            self._changes[run] = [new]
        elif noted[-1].change.can_precede(append.change):
            old = noted[-1]
            noted[-1] = _RunChange(
                append=old.append,
                records=old.records + new.records,
                bytes=old.bytes + size,
                first=min(old.first, first),
                last=max(old.last, last),
                change=join_changes(old.change, append.change),
            )
        else:
            noted.append(new)


def _update_run(run: int, noted: _RunChange, connection: sqlite3.Connection) -> None:
    """Change the row of a run that has records already."""
    execute, change = connection.execute, noted.change
    values = (*noted[1:5], change.messages, *_get_sums(change))
    if change.turn is not None:
        opened = change.turn, change.title, change.in_doubt, change.asked, change.agent
        execute(_BEGIN_TURN, (*values, *opened, change.is_open, change.status, run))
        return
    if change.is_open is False:
        execute(_CLOSE_TURN, (*values, change.status, run))
    else:
        execute(_UPDATE_RUN, (*values, run))
    if change.in_doubt:
        execute(_SET_DOUBT, (run,))
    if change.answered:
        execute(_REMOVE_QUESTION, (change.answered, run))
    if change.asked:
        execute(_ADD_QUESTION, (change.asked, run))
    if change.title is not None:
        execute(_SET_TITLE, (change.title, run))
    if change.is_rewind:
        history = execute(_HISTORY, (*HISTORY_TYPES, run))
        execute(_SET_TURNS, (*recount_turns(history), run))
