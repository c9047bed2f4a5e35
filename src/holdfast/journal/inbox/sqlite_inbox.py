"""The inbox beside the records of a SQLite journal, or in memory: for the processes of one machine.

One process owns the journal's file, so its inbox has one process too. The transactions are those that
many processes perform on PostgreSQL.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar
from weakref import WeakKeyDictionary

from holdfast.journal.inbox.inbox_statements import LOCK, NOTIFY, NOTIFY_END
from holdfast.journal.inbox.statements import Now, Row, Statement, Transaction
from holdfast.journal.inbox.steering import note_answer
from holdfast.journal.inbox.submitting import RepeatError
from holdfast.journal.inbox_schema import MEMORY_TABLES
from holdfast.journal.sqlite.sqlite_journal import SqliteJournal
from holdfast.journal.sqlite.writer import WriterJob

T = TypeVar("T")


class _Watchers:
    """The functions to call when the inbox may have changed."""

    def __init__(self) -> None:
        self._functions: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def add(self, notify: Callable[[], None]) -> Callable[[], None]:
        with self._lock:
            self._functions.append(notify)
        return lambda: self._remove(notify)

    def _remove(self, notify: Callable[[], None]) -> None:
        with self._lock:
            if notify in self._functions:
                self._functions.remove(notify)

    def notify(self) -> None:
        for function in tuple(self._functions):
            function()


_of_writers: WeakKeyDictionary[object, _Watchers] = WeakKeyDictionary()
"""The watchers of each journal's file, whichever journal object they were given to."""


class SqliteInboxStore:
    """Performs transactions of the inbox in the file of a journal; see `InboxStore`.

    Args:
        journal: the journal, whose writer thread is used.
        now: returns the time.
    """

    def __init__(self, journal: SqliteJournal, now: Now = time.time) -> None:
        self._writer = journal._writer  # noqa: SLF001  # REASON: one thread uses the file
        self._now = now
        self._watchers = _of_writers.setdefault(self._writer, _Watchers())
        self._writer.on_answer = self._watchers.notify

    async def perform(self, make: Callable[[], Transaction[T]]) -> T:
        """Perform a transaction: all of it or, if it raises, nothing."""

        def work(connection: sqlite3.Connection) -> tuple[T, bool]:
            return perform_all(connection, make, self._now)

        result, is_changed = await self._writer.submit(WriterJob(work, writes=True))
        if is_changed:
            self._watchers.notify()
        return result

    def watch(self, notify: Callable[[], None], *, of_ends: bool = True) -> Callable[[], None]:
        """Call a function whenever the inbox may have changed; returns a function that ends that."""
        del of_ends  # one process has one worker mostly: nothing is gained
        return self._watchers.add(notify)

    def close(self) -> None:
        """Do nothing: the file is that of the journal."""


class MemoryInboxStore:
    """Performs transactions of the inbox in memory; see `InboxStore`.

    Args:
        now: returns the time.
    """

    def __init__(self, now: Now = time.time) -> None:
        self._connection = sqlite3.connect(
            ":memory:", check_same_thread=False, isolation_level=None
        )
        for text in MEMORY_TABLES:
            self._connection.execute(text)
        self._now = now
        self._lock = threading.Lock()
        self._watchers = _Watchers()

    async def perform(self, make: Callable[[], Transaction[T]]) -> T:
        """Perform a transaction: all of it or, if it raises, nothing."""
        with self._lock:
            result, is_changed = perform_all(self._connection, make, self._now)
        if is_changed:
            self._watchers.notify()
        return result

    def watch(self, notify: Callable[[], None], *, of_ends: bool = True) -> Callable[[], None]:
        """Call a function whenever the inbox may have changed; returns a function that ends that."""
        del of_ends  # one process has one worker mostly: nothing is gained
        return self._watchers.add(notify)

    def note_answer(self, tenant: str, run: str, end: str) -> None:
        """Let the turn go on that waits in a run; called by the journal."""
        with self._lock:
            make = partial(note_answer, tenant, run, end=end)
            _, is_changed = perform_all(self._connection, make, self._now)
        if is_changed:
            self._watchers.notify()

    def close(self) -> None:
        """Do nothing: the object may be used further."""


def perform_all(
    connection: sqlite3.Connection, make: Callable[[], Transaction[T]], now: Now
) -> tuple[T, bool]:
    """Perform a transaction; return its result, and whether to wake workers.

    Args:
        connection: the connection, which may be in a transaction.
        make: makes the transaction.
        now: returns the time.
    """
    while True:
        connection.execute("SAVEPOINT inbox")
        try:
            found = _drive(connection, make(), now)
        except RepeatError:
            connection.execute("ROLLBACK TO inbox")
            connection.execute("RELEASE inbox")
        except BaseException:
            connection.execute("ROLLBACK TO inbox")
            connection.execute("RELEASE inbox")
            raise
        else:
            connection.execute("RELEASE inbox")
            return found


def _drive(connection: sqlite3.Connection, transaction: Transaction[T], now: Now) -> tuple[T, bool]:
    is_changed = False
    try:
        statement = next(transaction)
        while True:
            is_changed = is_changed or statement in (NOTIFY, NOTIFY_END)
            statement = transaction.send(_execute(connection, statement, now))
    except StopIteration as end:
        return end.value, is_changed


def _execute(connection: sqlite3.Connection, statement: Statement, now: Now) -> Sequence[Row]:
    if statement in (LOCK, NOTIFY, NOTIFY_END):
        return ()
    values = dict(statement.values)
    if ":now" in statement.text:
        values["now"] = now()
    return connection.execute(statement.text, values).fetchall()
