"""A transaction of the inbox on a connection to PostgreSQL, and an end to those of stopped processes.

The server ends a transaction whose process says nothing, but not one that was stopped within a pipeline:
its locks stay for as long as its socket is open. So whoever waits too long for a lock ends such transactions.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from psycopg.pq import TransactionStatus

from holdfast.journal.postgres_migration import FIND_CONNECTIONS
from holdfast.journal.postgres_pool import Connection

_END_SILENT: Final = f"""
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE pid IN ({FIND_CONNECTIONS}) AND usename = current_user AND xact_start IS NOT NULL
  AND wait_event = 'ClientRead' AND state_change < clock_timestamp() - make_interval(secs => %s)
"""  # noqa: S608  # REASON: made of constants


@asynccontextmanager
async def in_transaction(connection: Connection, longest_wait: float) -> AsyncIterator[None]:
    """Commit what is executed in the block, or roll it back; statements without rows need no round trip.

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
