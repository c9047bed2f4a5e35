"""The inbox in the database of a PostgreSQL journal, which any number of processes share.

A transaction that meets another one, waits too long for a lock, or whose connection is lost, is performed
again from its beginning. The server ends a transaction whose process is silent, but not one that was
stopped within a pipeline: its locks stay for as long as its socket is open. So a process that waits too
long for a lock ends such transactions.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from psycopg import errors
from psycopg.pq import TransactionStatus

from holdfast.journal.inbox.inbox_statements import LOCK, NOTIFY, NOTIFY_END
from holdfast.journal.inbox.statements import Now, Row, Statement, Transaction
from holdfast.journal.inbox.submitting import RepeatError
from holdfast.journal.postgres.loop_thread import Begin
from holdfast.journal.postgres.postgres_journal import PostgresJournal
from holdfast.journal.postgres.postgres_migration import FIND_CONNECTIONS
from holdfast.journal.postgres.postgres_pool import Connection

MESSAGE_OF_END: Final = "inbox end"
"""The message when a turn has ended or waits."""

MESSAGE: Final = "inbox"
"""The message to the processes of the journal when the inbox may have changed."""

_LOCK: Final = (
    "SELECT pg_advisory_xact_lock(hashtextextended('holdfast_inbox.' || current_schema(), 0))"
)
_NOTIFY_END: Final = f"SELECT pg_notify('holdfast_' || md5(current_schema()), '{MESSAGE_OF_END}')"  # REASON: made of constants
_NOTIFY: Final = f"SELECT pg_notify('holdfast_' || md5(current_schema()), '{MESSAGE}')"  # REASON: made of constants
_NOW: Final = "extract(epoch FROM clock_timestamp())::float8"
_PARAMETER: Final = re.compile(r":(\w+)")
_MOST_TRIES: Final = 20
_LONGEST_WAIT: Final = 5.0  # seconds for a lock, after which its owner may be a stopped process

T = TypeVar("T")


class PostgresInboxStore:
    """Performs transactions of the inbox; see `InboxStore`.

    Args:
        journal: the journal, whose connections are used.
        now: returns the time in seconds since the epoch; by default the server does, so that the clocks
            of the processes do not matter.
    """

    def __init__(self, journal: PostgresJournal, now: Now | None = None) -> None:
        self._journal = journal
        self._now = now
        self._server = journal._server  # noqa: SLF001  # REASON: one pool for both
        # Shorter than the time limit of a statement, which ends the work.
        self._longest_wait = min(_LONGEST_WAIT, self._server.statement_seconds / 2)

    async def perform(self, make: Callable[[], Transaction[T]]) -> T:
        """Perform a transaction: all of it or, if it raises, nothing."""

        async def work(connection: Connection) -> T:
            for _ in range(_MOST_TRIES):
                try:
                    return await self._perform_once(connection, make())
                except (RepeatError, errors.UniqueViolation, errors.DeadlockDetected):
                    continue  # another transaction was faster, and this one sees it now
                except errors.LockNotAvailable:
                    await end_silent_transactions(connection, self._longest_wait)
            return await self._perform_once(connection, make())

        async def job(begin: Begin) -> T:
            return await self._server.apply_change(work, begin)

        return await self._server.thread.submit(job)

    async def _perform_once(self, connection: Connection, transaction: Transaction[T]) -> T:
        async with in_transaction(connection, self._longest_wait):
            return await self._drive(connection, transaction)

    async def _drive(self, connection: Connection, transaction: Transaction[T]) -> T:
        try:
            statement = next(transaction)
            while True:
                statement = transaction.send(await self._execute(connection, statement))
        except StopIteration as end:
            result: T = end.value
            return result

    async def _execute(self, connection: Connection, statement: Statement) -> Sequence[Row]:
        text, values = translate(statement), dict(statement.values)
        if self._now is not None:
            text, values["now"] = text.replace(_NOW, "%(now)s::float8"), self._now()
        cursor = await connection.execute(text.encode(), values, binary=True)
        return await cursor.fetchall() if gives_rows(statement) else []

    def watch(self, notify: Callable[[], None], *, of_ends: bool = True) -> Callable[[], None]:
        """Call a function whenever the inbox may have changed; return a function that stops this."""

        def receive(message: str) -> None:
            if message == MESSAGE or (of_ends and message == MESSAGE_OF_END):
                notify()

        def receive_state(_is_up: bool) -> None:  # REASON: a callback
            notify()  # a message may have been lost

        return self._journal.open_link(receive, receive_state).close

    def close(self) -> None:
        """Do nothing: the connections are those of the journal."""


def gives_rows(statement: Statement) -> bool:
    """Whether a statement has rows that its transaction reads.

    >>> gives_rows(LOCK), gives_rows(Statement("SELECT 1")), gives_rows(Statement("DELETE FROM t"))
    (False, True, False)
    """
    if statement in (LOCK, NOTIFY, NOTIFY_END):
        return False
    is_query = statement.text.lstrip().startswith(("SELECT", "WITH"))
    return is_query or "RETURNING" in statement.text


def translate(statement: Statement) -> str:
    """Return the text of a statement for the database driver.

    >>> translate(Statement("SELECT id FROM holdfast_inbox WHERE due_at < :now AND id = :id"))
    'SELECT id FROM holdfast_inbox WHERE due_at < extract(epoch FROM clock_timestamp())::float8 AND id = %(id)s'
    """
    if statement is LOCK:
        return _LOCK
    if statement is NOTIFY:
        return _NOTIFY
    if statement is NOTIFY_END:
        return _NOTIFY_END
    return _PARAMETER.sub(_name_parameter, statement.text)


def _name_parameter(found: re.Match[str]) -> str:
    return _NOW if found[1] == "now" else f"%({found[1]})s"


_END_SILENT: Final = f"""
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE pid IN ({FIND_CONNECTIONS}) AND usename = current_user AND xact_start IS NOT NULL
  AND wait_event = 'ClientRead' AND state_change < clock_timestamp() - make_interval(secs => %s)
"""  # noqa: S608  # REASON: made of constants


@asynccontextmanager
async def in_transaction(connection: Connection, longest_wait: float) -> AsyncIterator[None]:
    """Commit the statements of the block, or roll them back; statements without rows need no round trip.

    The driver's own transaction in a pipeline waits for the server five times more often.

    Args:
        connection: the connection.
        longest_wait: seconds for a lock, after which `LockNotAvailable` is raised.
    """
    try:
        async with connection.pipeline():
            await connection.execute("BEGIN")
            await connection.execute(
                f"SET LOCAL lock_timeout = {max(1, round(longest_wait * 1000))}"
            )
            yield
            await connection.execute("COMMIT")
    except Exception:
        if connection.info.transaction_status in (
            TransactionStatus.INTRANS,
            TransactionStatus.INERROR,
        ):
            await connection.execute("ROLLBACK")
        raise


async def end_silent_transactions(connection: Connection, silence: float) -> None:
    """End the transactions of processes that have said nothing for so many seconds.

    Args:
        connection: a connection without a transaction.
        silence: the seconds.
    """
    await connection.execute(_END_SILENT, (silence,))
