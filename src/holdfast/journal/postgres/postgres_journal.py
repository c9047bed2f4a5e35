"""A journal in a PostgreSQL database that many processes share; each run has one driver at a time.

When `append` returns, the transaction of the record was committed. All communication with the server
runs in one thread of the journal. The database driver is imported when a journal is created. No
password appears in a message.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Self, TypeAlias

import msgspec

from holdfast.core.acts import Act
from holdfast.core.argument_checks import check_arguments
from holdfast.core.constraints import between
from holdfast.core.effects import Effect, is_nested_run
from holdfast.core.errors import ConfigurationError, SessionBusyError
from holdfast.core.events import Event
from holdfast.core.import_part import install_command
from holdfast.journal import open_questions
from holdfast.journal.dropped_journals import close_now, end_when_dropped
from holdfast.journal.encoding import Line
from holdfast.journal.journal_errors import RunChangedError, lease_lost_error
from holdfast.journal.journal_names import (
    DEFAULT_TENANT,
    check_name,
    check_text,
    digest_name,
)
from holdfast.journal.open_questions import ListedQuestion, QuestionQuery
from holdfast.journal.port import MOST_REQUESTS, Record, RunEntry
from holdfast.journal.postgres import postgres_statements as sql
from holdfast.journal.postgres.postgres_renewal import LeaseState
from holdfast.journal.rows import SEQ, Row, RowReader
from holdfast.journal.run_summary import select_recent
from holdfast.journal.session_rows import SessionQuery, SessionRow
from holdfast.journal.tenants import TenantViews

if TYPE_CHECKING:
    from holdfast.journal.postgres.postgres_live import PostgresLink

DAY = 86_400

_EntryRow: TypeAlias = tuple[str, int, float, float, bool, str, bool]
"""The fields of a RunEntry; rows are converted four times as fast as dicts."""


class PostgresJournal:
    """Saves records in a PostgreSQL database; any number of processes may share it.

    Its tables, whose names begin with `holdfast_`, are created on first use in the first schema of
    the search path. Any number of agents, threads and event loops may share one object. It connects
    on first use.

    Args:
        url: `postgresql://user:password@host:5432/database`, as in libpq. Missing parts come from
            PGUSER, PGPASSWORD, ~/.pgpass and so on.
        connections: the maximum number of appends and reads at the same time.
        timeout: seconds for one statement.
        wait: seconds for which appends and reads are retried while the server is unreachable.
        lease: seconds without renewal after which another process may take over a run.
        create: whether to create missing tables.

    Raises:
        ConfigurationError: an argument is invalid, or the driver is not installed.

    >>> PostgresJournal("postgresql://ada:secret@db.example/talk")
    PostgresJournal('postgresql://ada@db.example/talk')
    """

    @check_arguments
    def __init__(
        self,
        url: str,
        *,
        connections: Annotated[int, between(1, 1000)] = 10,
        timeout: Annotated[float, between(0.001, DAY)] = 30.0,
        wait: Annotated[float, between(0, DAY)] = 10.0,
        lease: Annotated[float, between(0.1, DAY)] = 30.0,
        create: bool = True,
    ) -> None:
        try:
            from holdfast.journal.postgres.postgres_failures import PostgresAddress
            from holdfast.journal.postgres.postgres_pool import ConnectionPolicy
            from holdfast.journal.postgres.postgres_server import PostgresServer
        except ImportError as error:
            raise ConfigurationError(
                "journal",
                "PostgreSQL needs the package psycopg, which is not installed",
                fix=install_command("postgres"),
            ) from error
        address = PostgresAddress(url)
        self.path = address.location
        policy = ConnectionPolicy(timeout, wait, create)
        self._server = PostgresServer(address, connections, policy, lease)
        self._thread = self._server.thread
        # Also when the interpreter exits, so that leases end at once.
        self._finalizer = end_when_dropped(self, self._thread)
        self._views: TenantViews[PostgresJournal] = TenantViews(DEFAULT_TENANT, self)
        self._opener: PostgresJournal | None = None
        self._set_tenant(DEFAULT_TENANT)

    @property
    def lease_seconds(self) -> float:
        """Seconds without renewal after which another process may take over a run."""
        return self._server.lease_seconds

    @property
    def process(self) -> str:
        """Names this process for others, once `show_process` was called."""
        return self._server.presence.process

    def show_process(self) -> None:
        """Let other processes see from now on that this one is there, by a connection of its own.

        Should it die, they take over its runs within seconds, and need not wait for the end of a lease.
        """
        self._server.show_process()

    async def end_departed(self) -> bool:
        """End the leases of processes that have ended; called about each second.

        Returns:
            Whether there was one.

        Raises:
            JournalError: the server cannot be used.
        """
        return await self._thread.submit(self._server.end_departed)

    def _set_tenant(self, tenant: str) -> None:
        self.tenant = tenant
        self._reader = RowReader(self.path, tenant)

    def for_tenant(self, tenant: str) -> PostgresJournal:
        """Return the journal of another tenant in this database; closing one closes all of them."""
        return self._views.get(tenant, partial(self._make_view, tenant))

    def _make_view(self, tenant: str) -> PostgresJournal:
        view = object.__new__(type(self))
        view.path, view._server, view._thread = self.path, self._server, self._thread
        view._finalizer = self._finalizer
        view._views = self._views
        view._opener = self  # the connections are open as long as a view is used
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
        """Save one event, or an event and its marker; returns when they are committed.

        When the connection is lost meanwhile, the append is sent again, and saved once.

        Raises:
            ConflictError: the run has an outcome for one of these keys already.
            RequestExistsError: another turn has the request of this one, or another act the id.
            SessionBusyError: another driver has a lease of the run.
            JournalUnreachableError: the server is gone, and it is unknown whether it was saved.
            JournalError: it could not be saved.
        """
        await self._append_event(run, event, effect, marker, lease=None, act=act)

    async def _append_event(
        self,
        run: str,
        event: Event,
        effect: Effect | None,
        marker: Event | None,
        *,
        lease: LeaseState | None,
        act: Act | None,
    ) -> None:
        from holdfast.journal.postgres.postgres_inserts import Outcome, make_insert

        insert = make_insert(
            self._run_values(run),
            (event, marker),
            effect,
            lease=lease,
            act=act,
        )
        outcome = Outcome.UNSAVED
        if lease is not None:
            begins = not lease.token
            if begins and insert.is_alone:
                await self._begin_lease(insert.names, lease)
                begins = False
            if not insert.is_alone:
                outcome = await self._server.save(insert)
            if outcome is Outcome.SAVED:
                return
            if begins:
                raise RunChangedError(run)
        is_unknown = outcome is Outcome.UNKNOWN
        await self._thread.submit(
            lambda begin: self._server.append_alone(insert, begin, is_unknown=is_unknown)
        )

    async def _begin_lease(self, names: Mapping[str, object], lease: LeaseState) -> None:
        """Begin a prepared lease before an append that is too large for a group."""
        version = lease.run_id, lease.records
        if not await self._server.claim(names, lease):
            raise RunChangedError(lease.run)
        if version != (lease.run_id if version[1] else version[0], lease.records):
            await self._release_lease(lease)
            lease.is_lost = True
            raise RunChangedError(lease.run)

    def _run_values(self, run: str) -> dict[str, object]:
        nested = is_nested_run(run)
        return {"tenant": self.tenant, "name": digest_name(run), "run": run, "nested": nested}

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        """Return the records of one run in order, without the first `after`; none if it is unknown."""
        return await self._reader.to_records(await self._select_rows(run, after))

    async def read_lines(self, run: str, after: int = 0) -> Sequence[Line]:
        """Return the records as lines, for an export; unknown types of events raise no error."""
        return [self._reader.to_line(row) for row in await self._select_rows(run, after)]

    async def _select_rows(self, run: str, after: int) -> list[Row]:
        values = {**self._run_values(run), "after": after}
        found = await self._fetch_events(self._fetch_lines, values)
        total = int(str(found[0][-1])) if found else 0
        rows = [row[:-1] for row in found if row[SEQ] is not None]
        self._reader.check_sequence(rows, run, after, total)
        return rows

    async def _fetch_lines(self, values: Mapping[str, object]) -> list[Row]:
        rows = await self._server.reads.fetch_lines(values)
        return await self._fetch_rows(sql.LINES, values) if rows is None else rows

    async def _fetch_events(
        self,
        fetch: Callable[[Mapping[str, object]], Awaitable[list[Row]]],
        values: Mapping[str, object],
    ) -> list[Row]:
        from holdfast.journal.postgres.postgres_media import fetch_events

        return await fetch_events(partial(fetch, values), self._fetch_rows)

    async def _fetch_rows(self, statement: str, values: Mapping[str, object]) -> list[Row]:
        return await self._thread.submit(lambda _: self._server.fetch_rows(statement, values))

    async def runs(self, *, turn_open: bool = False) -> Sequence[RunEntry]:
        """Return all runs sorted by name, or only those whose last turn has not ended."""
        if turn_open:
            entries = _to_entries(await self._fetch_rows(sql.OPEN_RUNS, {"tenant": self.tenant}))
            return sorted(entries, key=attrgetter("run"))
        return _to_entries(await self._fetch_rows(sql.RUNS, {"tenant": self.tenant}))

    async def find_runs(self, first: str, last: str) -> Sequence[RunEntry]:
        """Return the runs from one name to another, both included, sorted by name."""
        names = {"first": check_text(first, "session"), "last": check_text(last, "session")}
        return _to_entries(
            await self._fetch_rows(sql.RUNS_BETWEEN, {"tenant": self.tenant, **names})
        )

    async def recent_runs(
        self, limit: int, before: tuple[float, str] | None = None
    ) -> Sequence[RunEntry]:
        """Return the runs that changed last, without those of subagents; the latest first."""
        at, run = before or (math.inf, "")
        values = {"tenant": self.tenant, "limit": limit, "at": at, "run": run}
        entries = _to_entries(await self._fetch_rows(sql.RECENT_RUNS, values))
        return select_recent(entries, limit, before)

    async def list_sessions(self, wanted: SessionQuery) -> Sequence[SessionRow]:
        """Return the sessions of a page, with one statement; see `SessionIndex`."""
        from holdfast.journal.postgres import postgres_sessions

        statement, values = postgres_sessions.make_list(self.tenant, wanted)
        return postgres_sessions.to_rows(await self._fetch_rows(statement, values))

    async def list_questions(self, wanted: QuestionQuery) -> Sequence[ListedQuestion]:
        """Return the open questions of a page, with one statement; see `SessionIndex`."""
        fetch = partial(self._fetch_rows, open_questions.POSTGRES)
        rows = await self._fetch_events(fetch, wanted.make_values(self.tenant))
        records = await self._reader.to_records([row[: open_questions.RECORD] for row in rows])
        return open_questions.to_questions(rows, records)

    async def sizes(self) -> Mapping[str, int]:
        """Return the bytes of the events and of the snapshot of each run."""
        rows = await self._fetch_rows(sql.SIZES, {"tenant": self.tenant})
        return {str(run): int(str(size)) for run, size in rows}

    async def count_bytes(self, run: str = "") -> int:
        """Return the bytes of the events of all runs and queued turns, or of one run."""
        if run:
            rows = await self._fetch_rows(sql.BYTES_OF_RUN, dict(self._run_values(run)))
        else:
            rows = await self._fetch_rows(sql.BYTES, {"tenant": self.tenant})
        return int(str(rows[0][0])) if rows else 0

    async def tenants(self, *, turn_open: bool = False) -> Sequence[str]:
        """Return the tenants that have runs, or only those with an open turn, sorted."""
        statement = sql.TENANTS_WITH_OPEN_TURNS if turn_open else sql.TENANTS
        return [str(tenant) for (tenant,) in await self._fetch_rows(statement, {})]

    async def names(self) -> Sequence[str]:
        """Return the names of all runs, sorted."""
        return [entry.run for entry in await self.runs()]

    async def count_orphans(self) -> int:
        """Count the records, of any tenant, whose run is missing: it was damaged or removed."""
        return int(str((await self._fetch_rows(sql.ORPHANS, {}))[0][0]))

    async def delete(self, *runs: str, act: Act | None = None) -> int:
        """Delete runs permanently, all or none; return the number of their records.

        Leases of the runs are lost. The server frees the space when it vacuums. Backups and the
        write-ahead log of the server may still contain the records.
        """
        names = [self._run_values(run) for run in sorted(runs)]  # locked in the same order by all
        done = None
        if act is not None:
            from holdfast.journal.postgres.postgres_acts import make_act_values

            done = make_act_values(self.tenant, act)
        return await self._thread.submit(lambda begin: self._server.delete(names, done, begin))

    async def save_act(self, act: Act) -> None:
        """Save an act. Raises RequestExistsError if its id is taken."""
        from holdfast.journal.postgres.postgres_acts import make_save_act

        work = make_save_act(self.tenant, act)
        await self._thread.submit(lambda begin: self._server.apply_change(work, begin))

    async def find_act(self, act_id: str) -> Act | None:
        """Return the act with this id."""
        from holdfast.journal.postgres.postgres_acts import FIND_ACT, to_acts

        values = {"tenant": self.tenant, "id": check_text(act_id, "act.id")}
        found = to_acts(await self._fetch_rows(FIND_ACT, values))
        return found[0] if found else None

    async def list_acts(self, session: str, limit: int = 100) -> Sequence[Act]:
        """Return the latest acts on a session, the oldest of them first."""
        from holdfast.journal.postgres.postgres_acts import LIST_ACTS, to_acts

        names = {"tenant": self.tenant, "name": digest_name(session), "limit": max(limit, 0)}
        return to_acts(await self._fetch_rows(LIST_ACTS, names))[::-1]

    async def keys(self, run: str) -> Sequence[str]:
        """Return the keys of a run, in order of the records."""
        rows = await self._server.reads.fetch_keys(self._run_values(run))
        return [str(key) for (key,) in rows]

    async def read_by_keys(self, run: str, keys: Sequence[str]) -> Sequence[Record]:
        """Return the records of a run that have one of these keys, in order."""
        if not keys:
            return []
        values = {**self._run_values(run), "keys": keys}
        rows = await self._fetch_events(self._server.reads.fetch_picked, values)
        return await self._reader.to_records(rows)

    async def find_words(self, words: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Return run and key of each record that may contain all of these words, newest first."""
        from holdfast.journal.postgres.postgres_queries import make_word_values

        values = {"tenant": self.tenant, **make_word_values(words)}
        rows = await self._fetch_rows(sql.HOLDING, values)
        return [(str(run), str(key)) for run, key in rows]

    async def find_request(self, request: str) -> tuple[str, str] | None:
        """Return run and key of the turn that was opened with this request; None if none was."""
        values = {"tenant": self.tenant, "request": check_name("request", request)}
        rows = await self._fetch_rows(sql.REQUEST, values)
        return (str(rows[0][0]), str(rows[0][1])) if rows else None

    async def find_requests(self, first: str, last: str) -> Sequence[str]:
        """Return the requests from one to another that turns were opened with, sorted."""
        names = {"first": check_name("first", first), "last": check_name("last", last)}
        values = {"tenant": self.tenant, **names, "most": MOST_REQUESTS}
        return [str(row[0]) for row in await self._fetch_rows(sql.REQUESTS, values)]

    async def restore(
        self, runs: Mapping[str, Sequence[Record]], *, act: Act | None = None
    ) -> None:
        """Save these runs with exactly these records: either all of them or, on failure, none.

        Raises:
            ConflictError: one of the runs already has records.
            JournalError: they could not be saved.
        """
        from holdfast.journal.postgres.postgres_queries import make_restore

        wanted = {run: records for run, records in runs.items() if records}
        work = make_restore(self.tenant, wanted, act)
        await self._thread.submit(lambda begin: self._server.apply_change(work, begin))

    async def load_snapshot(self, run: str) -> bytes | None:
        """Return the last snapshot of a run, if there is one."""
        from holdfast.journal.postgres.postgres_media import fetch_snapshot

        rows = await self._fetch_rows(sql.SNAPSHOT, self._run_values(run))
        if not rows or not isinstance(rows[0][0], bytes):
            return None
        return await fetch_snapshot(rows[0][0], self._fetch_rows)

    async def save_snapshot(self, run: str, records: int, state: bytes) -> None:
        """Save the state after the first records of a run, until the run is deleted.

        Args:
            run: the run.
            records: the number of records.
            state: the encoded state.
        """
        from holdfast.journal.postgres.postgres_queries import make_save_snapshot

        work = make_save_snapshot(self._run_values(run), records, state)
        await self._thread.submit(lambda begin: self._server.apply_change(work, begin))

    async def claim(self, run: str) -> PostgresLease:
        """Claim a run for one driver; see `holdfast.journal.port.SharedJournal`.

        Raises:
            SessionBusyError: another driver has a lease of the run.
            JournalError: the server cannot be reached.
        """
        state = LeaseState(run, owner=self._server.presence.make_owner())
        try:
            is_claimed = await self._server.claim(self._run_values(run), state)
        except BaseException:
            if state.token:
                await self._release_lease(state)  # cancelled after the claim succeeded
            raise
        if not is_claimed:
            raise SessionBusyError(run, "another process has a lease of it")
        return PostgresLease(self, state)

    def prepare_lease(self, run: str, version: tuple[int, int]) -> PostgresLease:
        """Return a lease that begins and ends with a turn; see `SharedJournal.prepare_lease`."""
        owner = self._server.presence.make_owner()
        return PostgresLease(self, LeaseState(run, version, owner=owner, ends_with_turn=True))

    async def _release_lease(self, state: LeaseState) -> None:
        await self._server.release(state)

    def open_link(
        self, receive: Callable[[str], None], changed: Callable[[bool], None]
    ) -> PostgresLink:
        """Open a live link to the other processes; see `holdfast.journal.live_link`."""
        from holdfast.journal.postgres.postgres_live import PostgresLink

        return PostgresLink(self._server, receive, changed)

    async def identify(self) -> str:
        """Return a text that is equal for all processes of this journal, and for no other journal.

        Only a copy of the files of a whole server has the same one.
        """
        return str((await self._fetch_rows(sql.IDENTITY, {}))[0][0])

    def close(self) -> None:
        """Wait until all records are saved, end all leases, and close all connections.

        A second call does nothing.
        """
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
        return f"PostgresJournal({getattr(self, 'path', 'not open')!r}{tenant})"


class PostgresLease:
    """A lease of one run; see `holdfast.journal.port.Lease`. `PostgresJournal` creates it.

    Args:
        journal: the journal of the run.
        state: the state of the lease.
    """

    __slots__ = ("_is_released", "_journal", "_state")

    def __init__(self, journal: PostgresJournal, state: LeaseState) -> None:
        self._journal = journal
        self._state = state
        self._is_released = False

    @property
    def run(self) -> str:
        """The claimed run."""
        return self._state.run

    @property
    def token(self) -> int:
        """The fencing token; 0 before a prepared lease begins."""
        return self._state.token

    @property
    def version(self) -> tuple[int, int]:
        """The id of the run, which no other run ever has, and its records when the lease began."""
        return self._state.run_id, self._state.records

    async def append(
        self,
        run: str,
        event: Event,
        effect: Effect | None = None,
        *,
        marker: Event | None = None,
        act: Act | None = None,
    ) -> None:
        """Save as `PostgresJournal.append`; LeaseLostError when another driver has taken over."""
        self._check_run(run)
        if self._state.is_lost or self._is_released:
            raise lease_lost_error(self._journal.path, run)
        await self._journal._append_event(  # noqa: SLF001  # REASON: a part of the journal
            run, event, effect, marker, lease=self._state, act=act
        )

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        """Return the records of the run in order, without the first `after`."""
        self._check_run(run)
        return await self._journal.read(run, after)

    async def release(self) -> None:
        """End the lease. A second call does nothing."""
        if not self._is_released:
            self._is_released = True
            if self._state.token and not self._state.is_lost:
                await self._journal._release_lease(self._state)  # noqa: SLF001  # REASON: a part of the journal

    def _check_run(self, run: str) -> None:
        if run != self.run:
            raise ConfigurationError("run", f"the lease is for {self.run!r}, not for {run!r}")

    def __repr__(self) -> str:
        return f"PostgresLease({self.run!r}, token={self.token})"


def _to_entries(rows: Sequence[Row]) -> list[RunEntry]:
    return [RunEntry(*row) for row in msgspec.convert(rows, list[_EntryRow])]
