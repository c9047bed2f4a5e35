"""A service store in the database of a PostgreSQL journal, which any number of processes share."""

from __future__ import annotations

import re

from holdfast.journal import service_statements as sql
from holdfast.journal.postgres.loop_thread import Begin
from holdfast.journal.postgres.postgres_journal import PostgresJournal
from holdfast.journal.postgres.postgres_pool import Connection
from holdfast.journal.rows import Row
from holdfast.journal.service_store.service_store_sql import SqlServiceStore, Step

_PARAMETER = re.compile(r":(\w+)")


class PostgresServiceStore(SqlServiceStore):
    """Stores keys, sign-ins, requests and uploads in tables beside those of the journal.

    Args:
        journal: the journal, whose connections are used. The store is open as long as the journal is.
        owns_journal: whether `close` closes the journal too.
    """

    def __init__(self, journal: PostgresJournal, *, owns_journal: bool = False) -> None:
        self.path = journal.path
        self._journal = journal
        self._owns_journal = owns_journal
        self._server = journal._server  # noqa: SLF001  # REASON: one pool for both

    async def perform(self, *steps: Step) -> list[Row]:
        """Execute statements in one transaction, which is repeated if the connection is lost."""

        async def work(connection: Connection) -> list[Row]:
            if len(steps) == 1:
                return await _execute(connection, steps[0])
            async with connection.transaction():
                rows: list[Row] = []
                for step in steps:
                    rows = await _execute(connection, step)
                return rows

        async def job(begin: Begin) -> list[Row]:
            return await self._server.apply_change(work, begin)

        return await self._server.thread.submit(job)

    async def probe(self, at: float) -> None:
        """Write one row, and a temporary file: a row may fit into space that its table has."""
        await self.perform((sql.LITTLE_MEMORY, {}), (sql.NEED_SPACE, {}), (sql.PROBE, {"at": at}))

    def close(self) -> None:
        """Close the journal if it belongs to the store; else its connections stay open."""
        if self._owns_journal:
            self._journal.close()


async def _execute(connection: Connection, step: Step) -> list[Row]:
    statement, values = step
    text = _PARAMETER.sub(r"%(\1)s", statement).encode()
    cursor = await connection.execute(text, values, binary=True)
    return await cursor.fetchall() if cursor.description else []
