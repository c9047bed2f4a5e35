"""The database: transactions in threads, on SQLite or PostgreSQL, with the same SQL and numbered files of its schema.

Transactions that wait for the same writer are saved by one commit, since a commit waits for the disk, and a file has
one writer. This module must never save a part of a transaction.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import unquote

from msgspec import Struct

from registration.store.connection import Connection, Opener
from registration.store.errors import (
    ConnectionLost,
    DatabaseUnavailable,
    SchemaRefused,
    StoreError,
    TransactionConflict,
)
from registration.store.sqlite import SqliteOpener
from registration.store.transaction import Transaction

_VERSIONS = """
CREATE TABLE IF NOT EXISTS schema_files (
    number BIGINT PRIMARY KEY,
    name TEXT NOT NULL,
    digest TEXT NOT NULL
)"""


class SchemaFile(NamedTuple):
    """One file of the schema."""

    number: int
    name: str
    digest: str
    statements: tuple[str, ...]


def migrate(tx: Transaction) -> None:
    """Apply the files that this database lacks, under a lock, all or none.

    Raises:
        SchemaRefused: the database has a file that this program does not know, or an edited one.
    """
    tx.lock_schema()
    tx.execute(_VERSIONS)
    applied = {row["number"]: row["digest"] for row in tx.execute("SELECT * FROM schema_files")}
    known = read_schema()
    if set(applied) - {file.number for file in known}:
        raise SchemaRefused(
            f"the database has schema {max(applied)}, and this program knows {known[-1].number}: "
            "install the newer version of the program"
        )
    for file in known:
        if file.number not in applied:
            _apply(tx, file)
        elif applied[file.number] != file.digest:
            raise SchemaRefused(
                f"{file.name} was edited after it was applied to this database: put the change "
                "into a file with the next number"
            )


def read_schema() -> list[SchemaFile]:
    """Return the files of the schema by their numbers."""
    found = []
    for entry in files("registration.store").joinpath("schema").iterdir():
        if entry.name.endswith(".sql"):
            text = entry.read_text("utf-8")
            digest = sha256(text.encode()).hexdigest()
            found.append(SchemaFile(int(entry.name[:4]), entry.name, digest, _split(text)))
    return sorted(found)


def _split(text: str) -> tuple[str, ...]:
    lines = [line.partition("--")[0].rstrip() for line in text.splitlines()]
    statements = "\n".join(line for line in lines if line).split(";")
    return tuple(statement.strip() for statement in statements if statement.strip())


def _apply(tx: Transaction, file: SchemaFile) -> None:
    for statement in file.statements:
        tx.execute(statement)
    row = (file.number, file.name, file.digest)
    tx.execute("INSERT INTO schema_files (number, name, digest) VALUES (?, ?, ?)", *row)


MOST: Final = 32  # transactions in one commit
_OF_ALL: Final = (DatabaseUnavailable, TransactionConflict, ConnectionLost)


class Waiting(Struct, eq=False):
    """A transaction that waits for the writer.

    Args:
        work: as of `Database.transact`.
        running: names the connection while the work is done.
        future: takes the result.
    """

    work: Callable[[Transaction], Any]
    running: list[Connection]
    future: Future[Any]


def perform_together(connection: Connection, group: Sequence[Waiting]) -> bool:
    """Do some transactions in one commit; whether that was possible.

    If it was not, nothing is saved, and each is to be done by itself.

    Args:
        connection: of the writer.
        group: the transactions. Those that were done have their results.
    """
    outcomes: list[Any] = []
    for one in group:
        one.running[:] = [connection]
    try:
        connection.begin(write=True)
        outcomes += [_perform_one(connection, one) for one in group]
        connection.commit()
    except StoreError as error:
        connection.rollback()
        if getattr(error, "landed", "no") == "no":
            return False
        outcomes = [error] * len(group)
    finally:
        for one in group:
            one.running.clear()
    for one, outcome in zip(group, outcomes, strict=True):
        if isinstance(outcome, Exception):
            one.future.set_exception(outcome)
        else:
            one.future.set_result(outcome)
    return True


def _perform_one(connection: Connection, one: Waiting) -> object:
    """Return the result of a transaction, or the exception that undid it."""
    connection.execute("SAVEPOINT one", ())
    try:
        result: object = one.work(Transaction(connection))
    except _OF_ALL:
        raise
    except Exception as error:  # noqa: BLE001 -- whoever asked for this transaction gets it
        result = error
        connection.execute("ROLLBACK TO one", ())
    connection.execute("RELEASE one", ())
    return result


T = TypeVar("T")

TRIES: Final = 8  # of a transaction that the database asks to repeat
FORMS: Final = "sqlite:///folder/file.db or postgresql://user@host:5432/database"


Work = Callable[[Transaction], T]


class _Workers:
    """Threads that each own a connection."""

    def __init__(self, opener: Opener, size: int, *, write: bool) -> None:
        self._opener = opener
        self._write = write  # whether the connections can write
        self._own = threading.local()
        self._open: set[Connection] = set()
        # A single writer saves all waiting work together.
        self._waiting: deque[Waiting] | None = deque() if write and size == 1 else None
        self.executor = ThreadPoolExecutor(size, thread_name_prefix="registration-database")

    def submit(self, work: Work[T], running: list[Connection], *, write: bool) -> Future[T]:
        """Let a thread do the work in a transaction."""
        if self._waiting is None:
            return self.executor.submit(self.perform, work, running, write=write)
        waiting = Waiting(work, running, Future())
        self._waiting.append(waiting)
        self.executor.submit(self._perform_waiting)
        return waiting.future

    def perform(self, work: Work[T], running: list[Connection], *, write: bool) -> T:
        """Do the work in a transaction, again if the database asks for it. Runs in a thread."""
        reason = ""
        for attempt in range(TRIES):
            if attempt:
                time.sleep(random.uniform(0, 0.01 * 2**attempt))
            try:
                return self._perform_once(work, running, write)
            except TransactionConflict:
                reason = "too many write at the same time"
            except ConnectionLost:
                reason = "the connection was lost"
        raise DatabaseUnavailable(reason)

    def _perform_waiting(self) -> None:
        """Do the waiting work of the writer; nothing, if a call before this one did it."""
        group: list[Waiting] = []
        while self._waiting and len(group) < MOST:
            one = self._waiting.popleft()
            if one.future.set_running_or_notify_cancel():
                group.append(one)
        if len(group) > 1 and self._perform_together(group):
            return
        for one in group:
            try:
                one.future.set_result(self.perform(one.work, one.running, write=True))
            except BaseException as error:  # noqa: BLE001 -- it belongs to whoever waits
                one.future.set_exception(error)

    def _perform_together(self, group: list[Waiting]) -> bool:
        try:
            connection = self._connection()
        except StoreError:
            return False
        return perform_together(connection, group)

    def compact(self) -> None:
        """Remove deleted rows from the files. Runs in a thread."""
        self._connection().compact()

    def close(self) -> None:
        """Close the connections when their work is done."""
        self.executor.shutdown(wait=True)
        for connection in self._open:
            connection.close()

    def _perform_once(self, work: Work[T], running: list[Connection], write: bool) -> T:
        connection = self._connection()
        running[:] = [connection]
        try:
            connection.begin(write=write)
            result = work(Transaction(connection))
            connection.commit()
        except BaseException:
            connection.rollback()
            raise
        finally:
            running.clear()
        return result

    def _connection(self) -> Connection:
        connection: Connection | None = getattr(self._own, "connection", None)
        if connection is not None and connection.is_usable:
            return connection
        if connection is not None:
            connection.close()
            self._open.discard(connection)
        connection = self._own.connection = self._opener.open(write=self._write)
        self._open.add(connection)
        return connection


class Database:
    """The database of the service; made by `open_database`.

    Args:
        opener: opens its connections.
        limit: seconds after which a transaction is given up.
    """

    def __init__(self, opener: Opener, limit: float) -> None:
        self._limit = limit
        self._writers = _Workers(opener, opener.writers, write=True)
        self._readers = (
            _Workers(opener, opener.readers, write=False) if opener.readers else self._writers
        )
        self._closed = False

    async def transact(self, work: Work[T]) -> T:
        """Do the work in one transaction, in a thread, and return its result when it is saved.

        Args:
            work: a plain function. It may be called again, each time in a new transaction, so it
                changes nothing but the database. An exception that it raises undoes the transaction.

        Raises:
            DatabaseUnavailable: the database is busy, full or away. Nothing is half done.
        """
        return await self._run(self._writers, work, write=True)

    async def read(self, work: Work[T]) -> T:
        """Do work that only reads; it delays nobody who writes. As `transact` otherwise."""
        return await self._run(self._readers, work, write=False)

    async def compact(self) -> None:
        """Remove deleted rows from the database's files; takes as long as copying them.

        A write-ahead log of PostgreSQL, and backups, still hold it until they are recycled.

        Raises:
            DatabaseUnavailable: somebody else uses the database.
        """
        self._check_open()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._writers.executor, self._writers.compact)

    async def close(self) -> None:
        """Wait for the transactions under way, and close the connections."""
        self._closed = True
        for workers in {self._writers, self._readers}:
            await asyncio.to_thread(workers.close)

    async def _run(self, workers: _Workers, work: Work[T], *, write: bool) -> T:
        self._check_open()
        running: list[Connection] = []
        future = workers.submit(work, running, write=write)
        done = asyncio.wrap_future(future)
        _, late = await asyncio.wait({done}, timeout=self._limit)
        if not late:
            return done.result()
        done.add_done_callback(_forget)
        if future.cancel():
            raise DatabaseUnavailable("too many transactions wait for it")
        # The driver waits for a silent server without end. Ended here, it reports the loss.
        _abort(running)
        raise DatabaseUnavailable("it does not answer", landed="unknown")

    def _check_open(self) -> None:
        if self._closed:
            raise DatabaseUnavailable("it was closed")


def _abort(running: list[Connection]) -> None:
    for connection in tuple(running):
        connection.abort()


def _forget(done: asyncio.Future[T]) -> None:
    if not done.cancelled():
        done.exception()


async def open_database(url: str, *, patience: float = 5.0, connections: int = 8) -> Database:
    """Open the database and bring its schema up to date.

    Args:
        url: `sqlite:///folder/file.db` or `postgresql://user@host:5432/database`.
        patience: seconds to wait for a lock, a statement or a connection.
        connections: the greatest number of connections to PostgreSQL.

    Raises:
        ValueError: the address has another form.
        SchemaRefused: the database was made by a newer version of this program.
        DatabaseUnavailable: the database cannot be opened.
    """
    database = Database(_choose_opener(url, patience, connections), limit=patience * 3)
    try:
        await database.transact(migrate)
    except (StoreError, asyncio.CancelledError):
        await database.close()
        raise
    return database


def _choose_opener(url: str, patience: float, connections: int) -> Opener:
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        return SqliteOpener(Path(unquote(rest[1:])), patience)
    if scheme in {"postgresql", "postgres"} and rest:
        from registration.store.postgres import PostgresOpener  # noqa: PLC0415 -- an extra

        return PostgresOpener(url, patience, connections)
    # The address may contain a password: only its scheme is shown.
    raise ValueError(f"the database's address ({scheme[:20]}) is not of the form {FORMS}")
