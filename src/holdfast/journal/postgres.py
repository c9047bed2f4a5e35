"""The journal in a PostgreSQL database, which many processes share: each run has one driver at a time.

A record is safe when `append` returns: its transaction was committed. All talk with the server runs
on one thread of the journal's own. This module must never import the driver before a journal is
made, and must never show a password.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeAlias

import msgspec

from holdfast.core.argument_checks import check_flag, check_type
from holdfast.core.effects import Effect
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import Event, TurnClosed, TurnOpened
from holdfast.journal import postgres_statements as sql
from holdfast.journal.encoding import Line
from holdfast.journal.journal_errors import lease_lost_error
from holdfast.journal.loop_thread import LoopThread
from holdfast.journal.port import Record, RunEntry
from holdfast.journal.rows import check_unicode, encode_record, line_from, records_from

if TYPE_CHECKING:
    from holdfast.journal.postgres_renewal import LeaseState

Row = tuple[object, ...]
Append: TypeAlias = Callable[[str, Event, Effect | None, int | None], Awaitable[None]]
Release: TypeAlias = Callable[[int], Awaitable[None]]

_LONGEST_KEY = 2000  # bytes; an index of the server takes little more


class PostgresJournal:
    """Saves records in a PostgreSQL database; any number of processes may share it.

    Its tables, which begin with `holdfast_`, are made when they are first needed, in the first
    schema of the search path. Any number of agents, threads and event loops may share one object.
    Nothing is connected before the first use.

    Args:
        url: `postgresql://user:password@host:5432/database`, as libpq reads it. What is missing
            comes from PGUSER, PGPASSWORD, ~/.pgpass and the like.
        connections: how many appends and reads run at once.
        timeout: seconds for one statement.
        wait: seconds for which an append or a read is tried again while the server is gone.
        lease: seconds after which another process may take over a run whose process shows no life.
        create: whether to make the tables when they are missing.

    Raises:
        ConfigurationError: an argument is wrong, or the driver is not installed.

    >>> PostgresJournal("postgresql://ada:secret@db.example/talk")
    PostgresJournal('postgresql://ada@db.example/talk')
    """

    def __init__(
        self,
        url: str,
        *,
        connections: int = 10,
        timeout: float = 30.0,
        wait: float = 10.0,
        lease: float = 30.0,
        create: bool = True,
    ) -> None:
        if not isinstance(url, str):
            raise ConfigurationError("url", f"must be a text, got {type(url).__name__}")
        check_flag("create", create)
        check_type("connections", connections, int)
        _check_number("connections", connections, 1, 1000)
        _check_number("timeout", timeout, 0.001, 86_400)
        _check_number("wait", wait, 0, 86_400)
        _check_number("lease", lease, 0.1, 86_400)
        try:
            from holdfast.journal.postgres_failures import PostgresAddress
            from holdfast.journal.postgres_pool import ConnectionPolicy
            from holdfast.journal.postgres_server import PostgresServer
        except ImportError as error:
            raise ConfigurationError(
                "journal",
                "PostgreSQL needs the package psycopg, which is not installed",
                fix="pip install 'holdfast[postgres]'",
            ) from error
        address = PostgresAddress(url)
        self.path = address.location
        self._server = PostgresServer(
            address, connections, ConnectionPolicy(timeout, wait, create), lease
        )
        self._thread = LoopThread(self.path, self._server.close)
        # Also at the end of the interpreter, so that leases are given back at once.
        self._finalizer = weakref.finalize(self, self._thread.close)

    async def append(self, run: str, event: Event, effect: Effect | None = None) -> None:
        """Keep one event; returns when it is committed.

        When the connection is lost meanwhile, the append is sent again, and kept once.

        Raises:
            ConflictError: the run has an outcome for this key already.
            SessionBusyError: another driver has a lease of the run.
            JournalUnreachableError: nobody knows whether it was kept: the server is gone.
            JournalError: it could not be kept.
        """
        await self._append_event(run, event, effect, None)

    async def _append_event(
        self, run: str, event: Event, effect: Effect | None, token: int | None
    ) -> None:
        from holdfast.journal.postgres_server import Insert

        name = _digest_name(run)
        line, body = encode_record(run, event, effect)
        if len(_check_text(event.key, "event.key").encode()) > _LONGEST_KEY:
            raise ConfigurationError("event.key", f"is longer than {_LONGEST_KEY} bytes")
        opens = isinstance(event, TurnOpened)
        insert = Insert(
            line=line,
            event=body,
            name=name,
            ticket=os.urandom(16),
            open=True if opens else False if isinstance(event, TurnClosed) else None,
            agent=_check_text(event.agent, "name") if isinstance(event, TurnOpened) else None,
            token=token,
        )
        await self._thread.submit(lambda begin: self._server.append(insert, begin))

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        """The records of one run in order, without the first `after`; empty for an unknown run."""
        return await records_from(await self._select_lines(run, after), self.path)

    async def read_lines(self, run: str, after: int = 0) -> Sequence[Line]:
        """The same as lines, for export; an unknown type of event is no error here."""
        return [line_from(row, self.path) for row in await self._select_lines(run, after)]

    async def _select_lines(self, run: str, after: int) -> list[Row]:
        name = _digest_name(run)
        return await self._fetch_rows(sql.LINES, {"name": name, "run": run, "after": after})

    async def _fetch_rows(self, statement: str, values: Mapping[str, object]) -> list[Row]:
        return await self._thread.submit(lambda _: self._server.fetch_rows(statement, values))

    async def runs(self, *, turn_open: bool = False) -> Sequence[RunEntry]:
        """All runs, by name; or those whose last turn has no end."""
        rows = await self._fetch_rows(sql.OPEN_RUNS if turn_open else sql.RUNS, {})
        return [
            msgspec.convert(dict(zip(RunEntry.__struct_fields__, row, strict=True)), RunEntry)
            for row in rows
        ]

    async def delete(self, run: str) -> int:
        """Forget a run for good; returns how many records it had.

        Whoever works on it has lost its lease. The server takes the space back when it vacuums;
        what its backups and its log keep is up to them.
        """
        name = _digest_name(run)
        return await self._thread.submit(lambda begin: self._server.delete(name, begin))

    async def keys(self, run: str) -> Sequence[str]:
        """The keys of a run, in order of the records."""
        return [
            str(key) for (key,) in await self._fetch_rows(sql.KEYS, {"name": _digest_name(run)})
        ]

    async def read_by_keys(self, run: str, keys: Sequence[str]) -> Sequence[Record]:
        """Those records of a run that have one of these keys, in order."""
        wanted = [key for key in keys if "\x00" not in key]
        rows = await self._fetch_rows(
            sql.PICK, {"name": _digest_name(run), "run": run, "keys": wanted}
        )
        return await records_from(rows, self.path)

    async def find_words(self, words: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Run and key of every record whose text may hold all of these words, the newest first."""
        from holdfast.journal.postgres_queries import make_word_values

        rows = await self._fetch_rows(sql.HOLDING, make_word_values(words))
        return [(str(run), str(key)) for run, key in rows]

    async def restore(self, runs: Mapping[str, Sequence[Record]]) -> None:
        """Keep these runs with exactly these records: all of them or, on failure, nothing.

        Raises:
            ConflictError: one of the runs has records already.
            JournalError: they could not be kept.
        """
        from holdfast.journal.postgres_queries import make_restore

        wanted = {_digest_name(run): (run, records) for run, records in runs.items() if records}
        work = make_restore(wanted, os.urandom(16))
        await self._thread.submit(lambda begin: self._server.apply_change(work, begin))

    async def load_snapshot(self, run: str) -> bytes | None:
        """What `save_snapshot` kept last."""
        rows = await self._fetch_rows(sql.SNAPSHOT, {"name": _digest_name(run)})
        return bytes(rows[0][0]) if rows and isinstance(rows[0][0], bytes) else None

    async def save_snapshot(self, run: str, records: int, state: bytes) -> None:
        """Keep what was folded of the first records of a run, until the run is deleted.

        Args:
            run: the run.
            records: how many.
            state: what they come to.
        """
        from holdfast.journal.postgres_queries import make_save_snapshot

        work = make_save_snapshot(_digest_name(run), records, state)
        await self._thread.submit(lambda begin: self._server.apply_change(work, begin))

    async def claim(self, run: str) -> PostgresLease:
        """Take the run for one driver; see `holdfast.journal.port.SharedJournal`.

        Raises:
            SessionBusyError: a living driver has it.
            JournalError: the server cannot be reached.
        """
        from holdfast.journal.postgres_renewal import LeaseState

        name, owner, held = _digest_name(run), os.urandom(16), LeaseState(run)
        way = self._thread.submit(lambda begin: self._server.claim(name, held, owner, begin))
        try:
            token = await way
        except BaseException:
            if way.value is not None:
                await self._release_token(way.value)  # cancelled when it was claimed already
            raise
        return PostgresLease(self, held, token, self._append_event, self._release_token)

    async def _release_token(self, token: int) -> None:
        await self._thread.submit(lambda _: self._server.release([token]))

    def close(self) -> None:
        """Wait until everything is kept, give back all leases, and close all connections.

        May be repeated.
        """
        self._finalizer()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
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
        return f"PostgresJournal({self.path!r})"


class PostgresLease:
    """One run for one driver; see `holdfast.journal.port.Lease`. Made by `PostgresJournal.claim`."""

    __slots__ = ("_append", "_is_released", "_journal", "_release", "_state", "token")

    def __init__(
        self,
        journal: PostgresJournal,
        state: LeaseState,
        token: int,
        append: Append,
        release: Release,
    ) -> None:
        self._journal = journal
        self._state = state
        self._append = append
        self._release = release
        self._is_released = False
        self.token = token

    @property
    def run(self) -> str:
        """The run that was claimed."""
        return self._state.run

    async def append(self, run: str, event: Event, effect: Effect | None = None) -> None:
        """Keep one event, unless another driver has taken over: then LeaseLostError."""
        self._check_run(run)
        if self._state.is_lost or self._is_released:
            raise lease_lost_error(self._journal.path, run)
        await self._append(run, event, effect, self.token)

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        """The records of the run in order, without the first `after`."""
        self._check_run(run)
        return await self._journal.read(run, after)

    async def release(self) -> None:
        """Let others have the run. May be repeated."""
        if not self._is_released:
            self._is_released = True
            await self._release(self.token)

    def _check_run(self, run: str) -> None:
        if run != self.run:
            raise ConfigurationError("run", f"the lease is of {self.run!r}, and not of {run!r}")

    def __repr__(self) -> str:
        return f"PostgresLease({self.run!r}, token={self.token})"


def _check_number(name: str, value: float, least: float, most: float) -> None:
    check_type(name, value, float)
    if not least <= value <= most:
        raise ConfigurationError(name, f"must be from {least:g} to {most:g}, got {value!r}")


def _digest_name(run: str) -> bytes:
    return sha256(_check_text(run, "session").encode()).digest()


def _check_text(text: str, argument: str) -> str:
    """A text that the server can keep as it is."""
    if "\x00" in check_unicode(text, argument):
        raise ConfigurationError(argument, "contains a NUL character, which PostgreSQL cannot keep")
    return text
