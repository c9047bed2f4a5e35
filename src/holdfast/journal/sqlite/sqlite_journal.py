"""A journal in one SQLite file, which one process at a time opens to write.

When `append` returns, the record is committed and the file synchronised to the disk.
"""

from __future__ import annotations

import asyncio
import math
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import msgspec

from holdfast.core.acts import Act
from holdfast.core.argument_checks import check_arguments
from holdfast.core.constraints import NonNegativeFloat
from holdfast.core.effects import Effect
from holdfast.core.events import Event
from holdfast.core.run_fold import make_change
from holdfast.journal.dropped_journals import close_now, end_when_dropped
from holdfast.journal.encoding import Line, check_time, corrupt_record
from holdfast.journal.inbox_schema import WAKING_EVENTS
from holdfast.journal.journal_errors import JournalCorruptError, JournalError, conflict_error
from holdfast.journal.journal_names import (
    DEFAULT_TENANT,
    check_name,
    check_unicode,
    resolve_path,
)
from holdfast.journal.open_questions import (
    RECORD,
    ListedQuestion,
    QuestionQuery,
    select_questions,
    to_questions,
)
from holdfast.journal.port import Record, RunEntry
from holdfast.journal.rows import (
    SEQ,
    EncodedRow,
    Row,
    RowReader,
    convert_rows,
    encode_append,
    encode_row,
)
from holdfast.journal.run_summary import select_recent
from holdfast.journal.session_rows import SessionQuery, SessionRow
from holdfast.journal.sqlite import (
    hidden_runs,
    sqlite_acts,
    sqlite_changes,
    sqlite_queries,
    sqlite_sessions,
)
from holdfast.journal.sqlite.sqlite_appends import Append
from holdfast.journal.sqlite.sqlite_queries import RunHead
from holdfast.journal.sqlite.writer import FileCheck, JobQueue, LogTruncation, Writer, WriterJob
from holdfast.journal.tenants import TenantViews

if TYPE_CHECKING:
    from holdfast.journal.sqlite.backup import JournalCopy

T = TypeVar("T")

_TRUNCATIONS = 50
_PAUSE = 0.1  # seconds between two attempts to empty the log


class SqliteJournal:
    """Saves records in an SQLite file; agents, threads and event loops of a process may share it.

    Appends that wait at the same time are committed together. The object locks the file until
    `close`, or until the object is deleted or the process ends. Other processes may read it
    meanwhile with `ReadOnlySqliteJournal`. A forked child must open another file. The lock file `<path>.lock` is never deleted. The lock is tested on Linux and implemented
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
        self.path = resolve_path(path)
        self._use(Writer(self.path, wait))

    def _use(self, writer: JobQueue) -> None:
        self._writer = writer
        # Also when the interpreter exits, so that queued records are not lost.
        self._finalizer = end_when_dropped(self, writer)
        self._views: TenantViews[SqliteJournal] = TenantViews(DEFAULT_TENANT, self)
        self._opener: SqliteJournal | None = None
        self._set_tenant(DEFAULT_TENANT)

    def _set_tenant(self, tenant: str) -> None:
        self.tenant = tenant
        self._tasks: set[asyncio.Task[None]] = set()
        self._reader = RowReader(self.path, tenant)

    def for_tenant(self, tenant: str) -> SqliteJournal:
        """Return the journal of another tenant in this file; closing one closes all of them."""
        return self._views.get(tenant, partial(self._make_view, tenant))

    def _make_view(self, tenant: str) -> SqliteJournal:
        view = object.__new__(type(self))
        view.path, view._writer, view._finalizer = self.path, self._writer, self._finalizer
        view._views = self._views
        view._opener = self  # the file is open as long as a view is used
        view._set_tenant(tenant)
        return view

    async def append(
        self,
        run: str,
        event: Event,
        effect: Effect | None = None,
        *,
        marker: Event | None = None,
        act: Act | None = None,
    ) -> None:
        """Save one event, or an event and its marker; returns when they are on the disk.

        Raises:
            ConflictError: the run has an outcome for one of these keys already.
            RequestExistsError: another turn has the request of this one, or another act the id.
            JournalError: it could not be saved, for instance because the disk is full.
        """
        check_unicode(run)
        rows = [encode_append(self.tenant, run, event, effect)]
        if marker is not None:
            rows.append(encode_append(self.tenant, run, marker, None))
            if marker.key == event.key:
                raise conflict_error(run, marker.key)
        change = make_change(event, marker)
        await self._writer.submit(
            WriterJob(Append(self.tenant, event, rows, change, act), writes=True)
        )
        if self._writer.on_answer is not None and (
            isinstance(event, WAKING_EVENTS) or isinstance(marker, WAKING_EVENTS)
        ):
            self._writer.on_answer()

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        """Return the records of one run in order, without the first `after`; none if it is unknown."""
        return await self._reader.to_records(await self._select_rows(run, after))

    async def read_lines(self, run: str, after: int = 0) -> Sequence[Line]:
        """Return the records as lines, for an export; unknown types of events raise no error."""
        return await convert_rows(self._reader.to_line, await self._select_rows(run, after))

    async def _select_rows(self, run: str, after: int) -> list[Row]:
        check_unicode(run)
        rows: list[Row] = []
        first: RunHead | None = None
        while True:  # in pieces, so that no append waits for a long run
            position = _last_number(rows, after)
            select = partial(sqlite_queries.select_records, self.tenant, run, position)
            piece = await self._read(select, run)
            if piece is None:
                return []
            head = piece.head
            if first is not None and (head.id, head.deletions) != (first.id, first.deletions):
                rows, first = [], None  # the run may have been deleted meanwhile
                continue
            first = head
            rows += piece.rows
            if piece.is_end:
                self._reader.check_sequence(rows, run, after, head.records)
                return rows

    async def _read(self, select: Callable[[sqlite3.Connection], T], run: str | None = None) -> T:
        """Read with the connection. An error of a damaged page names the run."""
        try:
            return await self._writer.submit(WriterJob(select, writes=False))
        except JournalCorruptError as error:
            if run is None:
                raise
            place = self._reader.format_location(run)
            raise JournalCorruptError(place, error.problem, fix=error.fix) from error

    async def runs(self, *, turn_open: bool = False) -> Sequence[RunEntry]:
        """Return all runs sorted by name, or only those whose last turn has not ended.

        They are read in pieces, so a change that is made meanwhile may be in the list or not.
        """
        return await self._list_runs(turn_open=turn_open)

    async def _list_runs(self, *, turn_open: bool, found: Sequence[Row] = ()) -> list[RunEntry]:
        """List runs, beginning with the piece that was found before."""
        entries, piece = self._to_entries(found), found
        while not entries or len(piece) == sqlite_queries.MOST_RUNS:
            last = entries[-1].run if entries else None
            select = partial(
                sqlite_queries.select_next_runs, self.tenant, last, turn_open=turn_open
            )
            piece = await self._read(select)
            if not piece:
                break
            entries += self._to_entries(piece)
        return entries

    def _to_entries(self, rows: Sequence[Row]) -> list[RunEntry]:
        return [_to_entry(row, self.path) for row in rows]

    async def find_runs(self, first: str, last: str) -> Sequence[RunEntry]:
        """Return the runs from one name to another, both included, sorted by name."""
        names = check_unicode(first), check_unicode(last)
        select = partial(sqlite_queries.select_runs_between, self.tenant, *names)
        return self._to_entries(await self._read(select))

    async def recent_runs(
        self, limit: int, before: tuple[float, str] | None = None
    ) -> Sequence[RunEntry]:
        """Return the runs that changed last, without those of subagents; the latest first."""
        position = before or (math.inf, "")
        select = partial(sqlite_queries.select_recent_runs, self.tenant, limit, position)
        closed, opened = await self._read(select)
        listed = await self._list_runs(turn_open=True, found=opened) if opened else []
        entries = {entry.run: entry for entry in [*self._to_entries(closed), *listed]}
        return select_recent(entries.values(), limit, before)

    async def tenants(self, *, turn_open: bool = False) -> Sequence[str]:
        """Return the tenants that have runs, or only those with an open turn, sorted."""
        select = sqlite_queries.select_tenants
        return await self._read(partial(select, turn_open=turn_open))

    async def names(self) -> Sequence[str]:
        """Return the names of all runs, sorted, also if a page of the table of runs is damaged."""
        return await self._read(partial(sqlite_queries.select_names, self.tenant))

    async def count_orphans(self) -> int:
        """Count the records, of any tenant, whose run is missing: it was damaged or removed."""
        return await self._read(sqlite_queries.count_orphans)

    async def delete(self, *runs: str, act: Act | None = None) -> int:
        """Delete runs from the file and its log; return the number of their records.

        The deleted data is overwritten. If a reader in another process still needs the log, this
        waits for up to five seconds; after that, the log is emptied later.
        """
        for run in runs:
            check_unicode(run)
        hide = partial(hidden_runs.hide_runs, self.tenant, runs, act=act)
        count, left = await self._writer.submit(WriterJob(hide, writes=True))
        await self._delete_hidden(left)
        await self._truncate_log()
        return count

    async def _delete_hidden(self, runs: Sequence[int]) -> None:
        while runs:  # in pieces, so that no append waits for a long run
            delete = partial(hidden_runs.delete_hidden, runs)
            runs = await self._writer.submit(WriterJob(delete, writes=True))

    async def _truncate_log(self) -> None:
        for _ in range(_TRUNCATIONS):
            if await self._writer.submit(LogTruncation()):
                return
            await asyncio.sleep(_PAUSE)

    async def list_sessions(self, wanted: SessionQuery) -> Sequence[SessionRow]:
        """Return the sessions of a page, with one statement; see `SessionIndex`."""
        select = partial(sqlite_sessions.select_sessions, self.tenant, wanted)
        return [sqlite_sessions.to_row(row, self.path) for row in await self._read(select)]

    async def list_questions(self, wanted: QuestionQuery) -> Sequence[ListedQuestion]:
        """Return the open questions of a page, with one read; see `SessionIndex`."""
        put_back = sqlite_queries.restore_row_media
        rows = await self._read(partial(select_questions, self.tenant, wanted, put_back))
        return to_questions(rows, await self._reader.to_records([row[:RECORD] for row in rows]))

    async def sizes(self) -> Mapping[str, int]:
        """Return the bytes of the events, the media and the snapshot of each run. No turn waits."""
        return await self._read_beside(partial(sqlite_queries.select_sizes, self.tenant))

    async def count_bytes(self, run: str = "") -> int:
        """Return the bytes of the events of all runs and queued turns, or of one run."""
        if run:
            select = partial(sqlite_queries.select_bytes_of_run, self.tenant, check_unicode(run))
            return await self._read(select, run)
        return await self._read_beside(partial(sqlite_queries.select_bytes, self.tenant))

    async def _read_beside(self, select: Callable[[sqlite3.Connection], T]) -> T:
        """Read with a connection of its own in another thread, so that no append waits."""
        from holdfast.journal.sqlite.file_reading import read_beside

        await self.check_files()
        found = await asyncio.to_thread(read_beside, self.path, select)
        await self.check_files()  # another file may have taken its place meanwhile
        return found

    async def check_files(self) -> None:
        """Raise JournalError if the file, its log or its lock is not the one that was opened."""
        await self._writer.submit(FileCheck())

    async def release_space(self) -> None:
        """Give the space of deleted runs back to the file system. Turns continue meanwhile."""
        while await self._writer.submit(WriterJob(sqlite_queries.vacuum_pages, writes=True)):
            continue
        await self._truncate_log()

    async def keys(self, run: str) -> Sequence[str]:
        """Return the keys of a run, in order of the records."""
        find = partial(sqlite_queries.select_keys, self.tenant, check_unicode(run))
        return await self._read(find, run)

    async def read_by_keys(self, run: str, keys: Sequence[str]) -> Sequence[Record]:
        """Return the records of a run that have one of these keys, in order."""
        check_unicode(run)
        rows: list[Row] = []
        is_end = False
        while not is_end:
            after = _last_number(rows, 0)
            find = partial(sqlite_queries.select_by_keys, self.tenant, run, keys, after)
            piece, is_end = await self._read(find, run)
            rows += piece
        return await self._reader.to_records(rows)

    async def find_words(self, words: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Return run and key of each record that may contain all of these words, newest first."""
        found: list[Row] = []
        last: int | None = None
        while last != 0:
            rows, last = await self._read_beside(
                partial(sqlite_queries.find_words, self.tenant, words, last)
            )
            found += rows
        return _sort_newest_first(found)

    async def find_request(self, request: str) -> tuple[str, str] | None:
        """Return run and key of the turn that was opened with this request; None if none was."""
        check_name("request", request)
        return await self._read(partial(sqlite_queries.select_request, self.tenant, request))

    async def find_requests(self, first: str, last: str) -> Sequence[str]:
        """Return the requests from one to another that turns were opened with, sorted."""
        names = check_name("first", first), check_name("last", last)
        return await self._read(partial(sqlite_queries.select_requests, self.tenant, *names))

    async def save_act(self, act: Act) -> None:
        """Save an act. Raises RequestExistsError if its id is taken."""
        insert = partial(sqlite_acts.insert_new_act, self.tenant, act)
        await self._writer.submit(WriterJob(insert, writes=True))

    async def find_act(self, act_id: str) -> Act | None:
        """Return the act with this id."""
        return await self._read(partial(sqlite_acts.select_act, self.tenant, act_id))

    async def list_acts(self, session: str, limit: int = 100) -> Sequence[Act]:
        """Return the latest acts on a session, the oldest of them first."""
        check_unicode(session)
        return await self._read(partial(sqlite_acts.select_acts, self.tenant, session, limit))

    async def restore(
        self, runs: Mapping[str, Sequence[Record]], *, act: Act | None = None
    ) -> None:
        """Save these runs with exactly these records: either all of them or, on failure, none.

        Raises:
            ConflictError: one of the runs already has records.
            JournalError: they could not be saved.
        """
        runs = {check_unicode(run): records for run, records in runs.items() if records}
        if sum(map(len, runs.values())) > hidden_runs.SHORT_RUN:
            await self._restore_in_pieces(runs, act)
            return
        rows = {run: (records, self._encode_run(run, records)) for run, records in runs.items()}
        insert = partial(sqlite_changes.insert_runs, self.tenant, rows, act=act)
        await self._writer.submit(WriterJob(insert, writes=True))

    def _encode_run(self, run: str, records: Sequence[Record]) -> list[EncodedRow]:
        return [encode_row(self.tenant, run, seq, one) for seq, one in enumerate(records, 1)]

    async def _restore_in_pieces(
        self, runs: Mapping[str, Sequence[Record]], act: Act | None
    ) -> None:
        """Insert hidden runs, so that no append waits for all of it; then show them at once."""
        inserted: dict[str, tuple[int, Sequence[Record]]] = {}
        try:
            for run, records in runs.items():
                rows = await asyncio.to_thread(self._encode_run, run, records)
                begin = WriterJob(hidden_runs.begin_insertion, writes=True)
                number = await self._writer.submit(begin)
                inserted[run] = number, records
                while rows:
                    insert = partial(hidden_runs.insert_piece, number, rows)
                    count = await self._writer.submit(WriterJob(insert, writes=True))
                    rows = rows[count:]
            show = partial(hidden_runs.show_runs, self.tenant, inserted, act=act)
            await self._writer.submit(WriterJob(show, writes=True))
        except BaseException:
            # If the loop ends before, the next process that opens the file deletes the rest.
            discarding = self._discard([run for run, _ in inserted.values()])
            self._tasks = {task for task in self._tasks if not task.done()}
            self._tasks.add(asyncio.create_task(discarding))
            raise

    async def _discard(self, runs: Sequence[int]) -> None:
        with suppress(JournalError):
            await self._delete_hidden(runs)

    async def load_snapshot(self, run: str) -> bytes | None:
        """Return the last snapshot of a run, if there is one."""
        find = partial(sqlite_queries.select_snapshot, self.tenant, check_unicode(run))
        return await self._read(find, run)

    async def save_snapshot(self, run: str, records: int, state: bytes) -> None:
        """Save the state after the first records of a run, until the run is deleted.

        Args:
            run: the run.
            records: the number of records.
            state: the encoded state.
        """
        check_unicode(run)
        keep = partial(sqlite_changes.insert_snapshot, self.tenant, run, records, state)
        await self._writer.submit(WriterJob(keep, writes=True))

    async def backup(self, destination: str | os.PathLike[str]) -> JournalCopy:
        """Copy the journal to a new file while it is used, and verify the copy. No turn waits.

        The copy has the runs of all tenants.

        Raises:
            ConfigurationError: the destination exists.
            JournalError: the copy cannot be written.
        """
        from holdfast.journal.sqlite.backup import backup_file

        return await asyncio.to_thread(backup_file, self.path, destination)

    def close(self) -> None:
        """Wait until all queued records are saved, and close the file. A second call does nothing."""
        close_now(self._finalizer)

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
        tenant = f", tenant={self.tenant!r}" if getattr(self, "tenant", "") else ""
        return f"SqliteJournal({getattr(self, 'path', 'not open')!r}{tenant})"


def _last_number(rows: Sequence[Row], after: int) -> int:
    """Return the number of the last row; without rows, the number after which they begin."""
    return int(str(rows[-1][SEQ])) if rows else after


def _sort_newest_first(rows: list[Row]) -> list[tuple[str, str]]:
    rows.sort(key=lambda row: (-_to_number(row[0]), str(row[1]), -_to_number(row[2])))
    return [(str(run), str(key)) for _, run, _, key in rows]


def _to_number(value: object) -> float:
    # Not a number: the record is damaged, and reading it raises the error.
    return value if isinstance(value, int | float) else 0.0


def _to_entry(row: tuple[object, ...], path: str) -> RunEntry:
    # Not strict: a file has no column for `leased`.
    fields = dict(zip(RunEntry.__struct_fields__, row, strict=False))
    place = f"{path}, run {row[0]!r}"
    try:
        entry = msgspec.convert(fields, RunEntry, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        raise corrupt_record(place, str(error)) from error
    check_time(entry.opened_at, place)
    check_time(entry.changed_at, place)
    return entry
