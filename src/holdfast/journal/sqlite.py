"""The journal in one SQLite file: durable before it is acknowledged, for one process at a time.

A record is safe when `append` returns: it was committed with the file synchronised. This module
must never lose an acknowledged record, and never touch a file that it does not understand.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import weakref
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from holdfast.core.effects import Effect, digest
from holdfast.core.errors import ConfigurationError, ConflictError
from holdfast.core.events import Event
from holdfast.journal.encoding import (
    Line,
    check_schema,
    damaged,
    from_json,
    line_of,
    record_of,
    to_json,
)
from holdfast.journal.port import Record, RunEntry
from holdfast.journal.writer import Act, Writer

T = TypeVar("T")

_MANY = 500  # records that take longer to decode than an event loop should wait

_INSERT = (
    "INSERT INTO records (run, seq, key, digest, type, at, schema, event) VALUES"
    " (?1, (SELECT COALESCE(MAX(seq), 0) + 1 FROM records WHERE run = ?1), ?2, ?3, ?4, ?5, ?6, ?7)"
)
_SELECT = (
    "SELECT schema, run, seq, key, digest, type, at, event FROM records"
    " WHERE run = ? AND seq > ? ORDER BY seq"
)
_RUNS = "SELECT run, COUNT(*), MIN(at), MAX(at) FROM records GROUP BY run ORDER BY run"


class SqliteJournal:
    """Keeps records in a SQLite file; any number of agents, threads and event loops may share it.

    Appends that wait at the same time are committed together. The file belongs to this object until
    `close`, or until the object or the process is gone; a forked child must open another file.

    Args:
        path: the file; it is made, readable by this user only, when it does not exist.
        wait: seconds to wait while another process has the file open.

    Raises:
        JournalError: the file cannot be used; the kind, the path and the fix say why.

    >>> import asyncio, tempfile
    >>> from holdfast import Agent
    >>> from holdfast.testing import ScriptedModel
    >>> folder = tempfile.TemporaryDirectory()
    >>> with SqliteJournal(f"{folder.name}/talk.db") as journal:
    ...     agent = Agent(ScriptedModel("Hello, Ada!"), journal=journal)
    ...     _ = asyncio.run(agent.run("I am Ada.", session="ada"))
    ...     [entry.run for entry in asyncio.run(journal.runs())]
    ['ada']
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str], *, wait: float = 1.0) -> None:
        name = os.fspath(path)
        if not name or name.startswith(("file:", ":")):
            raise ConfigurationError(
                "path", f"must name a file, got {name!r}", fix="For memory use MemoryJournal()"
            )
        if not 0 <= wait < float("inf"):
            raise ConfigurationError("wait", f"must be at least 0 seconds, got {wait}")
        self.path = str(Path(name).resolve())
        self._writer = Writer(self.path, wait)
        # Also at the end of the interpreter, so that what is queued is never lost.
        self._finalizer = weakref.finalize(self, self._writer.close)

    async def append(self, run: str, event: Event, effect: Effect | None = None) -> None:
        """Keep one event; returns when it is on the disk.

        Raises:
            ConflictError: the run has an outcome for this key already.
            JournalError: it could not be kept, for instance because the disk is full.
        """
        _checked(event.key, "event.key")
        record = Record(event, digest(effect) if effect else "")
        line, body = _written(_checked(run), record)
        await _settled(self._writer.submit(Act(partial(_insert, line, body), writes=True)))

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        """The records of one run in order, without the first `after`; empty for an unknown run."""
        lines = await self.lines(run, after)
        if len(lines) < _MANY:
            return self._records(lines)
        return await asyncio.to_thread(self._records, lines)

    def _records(self, lines: Sequence[Line]) -> list[Record]:
        return [record_of(line, self._place(line.run, line.seq)) for line in lines]

    async def lines(self, run: str, after: int = 0) -> Sequence[Line]:
        """The same as lines, for export; an unknown type of event is no error here."""
        select = partial(_rows, _SELECT, (_checked(run), after))
        rows = await _settled(self._writer.submit(Act(select, writes=False)))
        return [self._line(row) for row in rows]

    async def runs(self) -> Sequence[RunEntry]:
        """All runs, by name."""
        rows = await _settled(self._writer.submit(Act(partial(_rows, _RUNS, ()), writes=False)))
        return [msgspec.convert(row, RunEntry) for row in map(_named, rows)]

    async def delete(self, run: str) -> int:
        """Forget a run for good, in the file and in its log; returns how many records it had."""
        gone = await _settled(
            self._writer.submit(Act(partial(_delete, _checked(run)), writes=True))
        )
        await _settled(self._writer.submit(Act(_truncate_log, writes=False)))
        return gone

    def close(self) -> None:
        """Wait until everything is kept, and let go of the file. May be repeated."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SqliteJournal({self.path!r})"

    def _place(self, run: object, seq: object) -> str:
        return f"{self.path}, run {run!r}, record {seq}"

    def _line(self, row: tuple[object, ...]) -> Line:
        columns = dict(zip(Line.__struct_fields__, row, strict=True))
        place = self._place(columns["run"], columns["seq"])
        check_schema(columns["schema"], place)
        columns["event"] = from_json(str(columns["event"]), place)
        try:
            return msgspec.convert(columns, Line)
        except msgspec.ValidationError as error:
            raise damaged(place, str(error)) from error


def _checked(name: str, argument: str = "session") -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(argument, "is no valid Unicode text") from None
    return name


def _written(run: str, record: Record) -> tuple[Line, str]:
    """The row of a record: its columns, and its event as text. The number is given at the insert."""
    try:
        line = line_of(run, 0, record)
        return line, to_json(line.event).decode()
    except (TypeError, ValueError) as error:
        problem = f"{record.event.key} cannot be written as JSON: {error}"
        raise ConfigurationError("event", problem) from error


def _named(row: tuple[object, ...]) -> dict[str, object]:
    return dict(zip(RunEntry.__struct_fields__, row, strict=True))


def _insert(line: Line, body: str, connection: sqlite3.Connection) -> None:
    values = (line.run, line.key, line.digest, line.type, line.at, line.schema, body)
    try:
        connection.execute(_INSERT, values)
    except sqlite3.IntegrityError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_UNIQUE:
            raise
        raise ConflictError(
            f"the run {line.run!r} has an outcome for {line.key!r} already"
        ) from error


def _rows(
    query: str, values: tuple[object, ...], connection: sqlite3.Connection
) -> list[tuple[object, ...]]:
    return connection.execute(query, values).fetchall()


def _delete(run: str, connection: sqlite3.Connection) -> int:
    return connection.execute("DELETE FROM records WHERE run = ?", (run,)).rowcount


def _truncate_log(connection: sqlite3.Connection) -> None:
    # The log still holds the pages as they were before the deletion.
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


async def _settled(future: Future[T]) -> T:
    """The outcome. A caller that is cancelled leaves only when it is certain what happened."""
    waiting = asyncio.wrap_future(future)
    try:
        return await waiting
    except asyncio.CancelledError:
        if not future.cancel():
            await _ended(future)
        raise


async def _ended(future: Future[T]) -> None:
    """Wait for an act that has begun, whoever else cancels meanwhile: it takes milliseconds."""
    waiting = asyncio.wrap_future(future)
    while not waiting.done():
        try:
            await asyncio.wait([waiting])
        except asyncio.CancelledError:
            continue
    waiting.exception()  # was looked at
