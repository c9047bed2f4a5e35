"""A journal in one SQLite file, for one process at a time.

When `append` returns, the record is committed and the file synchronised to the disk.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from holdfast.core.argument_checks import check_arguments, check_value
from holdfast.core.constraints import NonNegativeFloat
from holdfast.core.effects import Effect
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import Event
from holdfast.core.redaction import quote_setting
from holdfast.journal import sqlite_queries
from holdfast.journal.encoding import Line, corrupt_record
from holdfast.journal.journal_errors import conflict_error
from holdfast.journal.port import Record, RunEntry
from holdfast.journal.rows import check_unicode, encode_record, line_from, records_from, row_of
from holdfast.journal.writer import Writer, WriterJob

_INSERT = (
    "INSERT INTO records (id, run, seq, key, digest, type, at, schema, event) VALUES"  # noqa: S608  # REASON: a text of our own
    f" (({sqlite_queries.NEXT_ID}), ?, (SELECT COALESCE(MAX(seq), 0) + 1 FROM records WHERE run = ?),"
    " ?, ?, ?, ?, ?, ?)"
)
_SELECT = (
    "SELECT schema, run, seq, key, digest, type, at, event FROM records"
    " WHERE run = ? AND seq > ? ORDER BY seq"
)
_FIND = "SELECT 1 FROM records WHERE run = ? AND key = ?"
_RUNS = (
    "WITH turns AS ("
    "SELECT run, MAX(CASE type WHEN 'turn_opened' THEN seq END) AS opened,"
    " MAX(CASE type WHEN 'turn_closed' THEN seq END) AS closed"
    " FROM records WHERE type IN ('turn_opened', 'turn_closed') GROUP BY run)"
    " SELECT run, COUNT(*) AS records, MIN(at) AS opened_at, MAX(at) AS changed_at,"
    " COALESCE(opened > COALESCE(closed, 0), 0) AS turn_open,"
    " COALESCE((SELECT CASE WHEN json_valid(event) THEN json_extract(event, '$.agent') END"
    " FROM records AS r WHERE r.run = records.run AND r.seq = opened), '') AS agent"
    " FROM records LEFT JOIN turns USING (run){where} GROUP BY run ORDER BY run"
)
_EVERY = _RUNS.format(where="")
_OPEN = _RUNS.format(
    where=" WHERE run IN (SELECT run FROM turns WHERE opened > COALESCE(closed, 0))"
)


class SqliteJournal:
    """Saves records in an SQLite file; agents, threads and event loops of a process may share it.

    Appends that wait at the same time are committed together. The object locks the file until
    `close`, or until the object is deleted or the process ends. A forked child must open another
    file. The lock file `<path>.lock` is never deleted. The lock is tested on Linux and implemented
    but not tested on macOS and Windows; other systems are refused. If the file, its log or its lock
    file is deleted, replaced or truncated, every append fails until the journal is opened again.

    Args:
        path: the file; if it does not exist it is created, readable by this user only.
        wait: seconds to wait while another process has the file open.

    Raises:
        JournalError: the file cannot be used; `problem` and `fix` say why and what to do.

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

    @check_arguments
    def __init__(self, path: str | os.PathLike[str], *, wait: NonNegativeFloat = 1.0) -> None:
        name = os.fspath(path)
        check_value("path", name, str)
        if not name or name.startswith(("file:", ":")):
            raise ConfigurationError(
                "path",
                f"must name a file, got {quote_setting(name)}",
                fix="For memory use MemoryJournal()",
            )
        self.path = str(Path(name).resolve())
        self._writer = Writer(self.path, wait)
        # Also runs when the interpreter exits, so that queued records are not lost.
        self._finalizer = weakref.finalize(self, self._writer.close)

    async def append(
        self,
        run: str,
        event: Event,
        effect: Effect | None = None,
        *,
        marker: Event | None = None,
    ) -> None:
        """Save one event, or an event and its marker; returns when they are on the disk.

        Raises:
            ConflictError: the run has an outcome for one of these keys already.
            JournalError: it could not be saved, for instance because the disk is full.
        """
        line, body = encode_record(check_unicode(run), event, effect)
        if marker is None:
            insert = partial(_insert_record, line, body)
        else:
            insert = partial(_insert_pair, (line, body), encode_record(run, marker, None))
        await self._writer.submit(WriterJob(insert, writes=True))

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        """Return the records of one run in order, without the first `after`; none if it is unknown."""
        return await records_from(await self._select_lines(run, after), self.path)

    async def read_lines(self, run: str, after: int = 0) -> Sequence[Line]:
        """Return the records as lines, for an export; unknown types of events raise no error."""
        return [line_from(row, self.path) for row in await self._select_lines(run, after)]

    async def _select_lines(self, run: str, after: int) -> list[tuple[object, ...]]:
        select = partial(_fetch_rows, _SELECT, (check_unicode(run), after))
        return await self._writer.submit(WriterJob(select, writes=False))

    async def runs(self, *, turn_open: bool = False) -> Sequence[RunEntry]:
        """Return all runs sorted by name, or only those whose last turn has not ended."""
        select = partial(_fetch_rows, _OPEN if turn_open else _EVERY, ())
        rows = await self._writer.submit(WriterJob(select, writes=False))
        return [_to_entry(row, self.path) for row in rows]

    async def delete(self, run: str) -> int:
        """Delete a run from the file and its log; return the number of its records."""
        count = await self._writer.submit(
            WriterJob(partial(_delete_run, check_unicode(run)), writes=True)
        )
        await self._writer.submit(WriterJob(_truncate_log, writes=False))
        return count

    async def heads(self) -> Sequence[RunEntry]:
        """Return all runs in no order, without reading all records."""
        rows = await self._writer.submit(WriterJob(sqlite_queries.select_heads, writes=False))
        return [_to_entry(row, self.path) for row in rows]

    async def keys(self, run: str) -> Sequence[str]:
        """Return the keys of a run, in order of the records."""
        find = partial(sqlite_queries.select_keys, check_unicode(run))
        return await self._writer.submit(WriterJob(find, writes=False))

    async def read_by_keys(self, run: str, keys: Sequence[str]) -> Sequence[Record]:
        """Return the records of a run that have one of these keys, in order."""
        find = partial(sqlite_queries.select_by_keys, check_unicode(run), keys)
        rows = await self._writer.submit(WriterJob(find, writes=False))
        return await records_from(rows, self.path)

    async def find_words(self, words: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Return run and key of each record that may contain all of these words, newest first."""
        find = partial(sqlite_queries.find_words, words)
        return await self._writer.submit(WriterJob(find, writes=False))

    async def restore(self, runs: Mapping[str, Sequence[Record]]) -> None:
        """Save these runs with exactly these records: either all of them or, on failure, none.

        Raises:
            ConflictError: one of the runs already has records.
            JournalError: they could not be saved.
        """
        rows = {
            check_unicode(run): [row_of(run, seq, one) for seq, one in enumerate(records, 1)]
            for run, records in runs.items()
        }
        insert = partial(sqlite_queries.insert_runs, rows)
        await self._writer.submit(WriterJob(insert, writes=True))

    async def load_snapshot(self, run: str) -> bytes | None:
        """Return the last snapshot of a run, if there is one."""
        find = partial(sqlite_queries.select_snapshot, check_unicode(run))
        return await self._writer.submit(WriterJob(find, writes=False))

    async def save_snapshot(self, run: str, records: int, state: bytes) -> None:
        """Save the state after the first records of a run, until the run is deleted.

        Args:
            run: the run.
            records: the number of records.
            state: the encoded state.
        """
        keep = partial(sqlite_queries.insert_snapshot, check_unicode(run), records, state)
        await self._writer.submit(WriterJob(keep, writes=True))

    def close(self) -> None:
        """Wait until all queued records are saved, and close the file. A second call does nothing."""
        self._finalizer()

    @property
    def closed(self) -> bool:
        """Whether the journal was closed."""
        return not self._finalizer.alive

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
        return f"SqliteJournal({getattr(self, 'path', 'not open')!r})"


def _to_entry(row: tuple[object, ...], path: str) -> RunEntry:
    # Not strict: a file has no column for `leased`.
    fields = dict(zip(RunEntry.__struct_fields__, row, strict=False))
    try:
        return msgspec.convert(fields, RunEntry, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        raise corrupt_record(f"{path}, run {row[0]!r}", str(error)) from error


def _insert_record(line: Line, body: str, connection: sqlite3.Connection) -> None:
    run = line.run
    values = (run, run, line.key, line.digest, line.type, line.at, line.schema, body)
    try:
        connection.execute(_INSERT, values)
    except sqlite3.IntegrityError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_UNIQUE:
            raise
        raise conflict_error(run, line.key) from error


def _insert_pair(
    first: tuple[Line, str], second: tuple[Line, str], connection: sqlite3.Connection
) -> None:
    line = second[0]
    # Looked at first: the transaction has other jobs, so what raises here must leave nothing to undo.
    if line.key == first[0].key or connection.execute(_FIND, (line.run, line.key)).fetchone():
        raise conflict_error(line.run, line.key)
    _insert_record(*first, connection)
    _insert_record(*second, connection)


def _fetch_rows(
    query: str, values: tuple[object, ...], connection: sqlite3.Connection
) -> list[tuple[object, ...]]:
    return connection.execute(query, values).fetchall()


def _delete_run(run: str, connection: sqlite3.Connection) -> int:
    connection.execute(
        "UPDATE identity SET deletions = deletions + 1,"
        " last_id = MAX(last_id, COALESCE((SELECT MAX(id) FROM records), 0))"
    )
    connection.execute("DELETE FROM snapshots WHERE run = ?", (run,))
    return connection.execute("DELETE FROM records WHERE run = ?", (run,)).rowcount


def _truncate_log(connection: sqlite3.Connection) -> None:
    # The log still contains the deleted data.
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
