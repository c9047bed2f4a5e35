"""The engine in the PostgreSQL database of the journal: procrastinate, which wakes workers by NOTIFY.

Its tables are created in the schema of the journal. Jobs that are done are deleted, so the tables
stay as small as the number of jobs that wait or run. It must never use procrastinate's locks and
periodic tasks: the inbox decides which turns may run.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Collection, Sequence
from typing import TYPE_CHECKING, TypeVar

from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import PositiveFloat
from holdfast.core.errors import ConfigurationError
from holdfast.core.import_part import install_command
from holdfast.journal.inbox.dispatch_engine import HandleJob, Job
from holdfast.journal.inbox.inbox_errors import EngineError
from holdfast.journal.inbox.job_slots import JobSlots
from holdfast.journal.inbox.statements import Statement
from holdfast.worker.engines import procrastinate_statements as sql
from holdfast.worker.engines.handler_waits import await_handlers
from holdfast.worker.engines.queue_names import encode_queue

if TYPE_CHECKING:
    from procrastinate import PsycopgConnector

    from holdfast.journal.postgres.postgres_failures import PostgresAddress

SCHEMA_LOCK = 0x48464A32
"""`HFJ2`: the advisory lock of the tables of the engine."""

_CONNECTIONS = 4
"""The largest number of connections of a run, without the one that listens."""

_SECONDS_TO_PREPARE = 60.0
"""For the tables; other workers may be about to create them."""

_FUNCTION = re.compile(r"procrastinate_\w+_v\d+(?=\()")
_PUT_ALONE = sql.PUT.replace(":jobs", "%(jobs)s")

T = TypeVar("T")


class PostgresEngine:
    """Carries jobs in the database of a PostgreSQL journal.

    Args:
        address: the address of the database of the journal.
        stall: seconds without a heartbeat after which a worker counts as dead, and its jobs are
            delivered again.

    Raises:
        ConfigurationError: an argument is invalid, or procrastinate is not installed.
    """

    name = "postgres"

    def __init__(self, address: PostgresAddress, *, stall: float = 20.0) -> None:
        check_value("stall", stall, PositiveFloat)
        try:
            from holdfast.worker.engines.postgres_connector import make_connector
        except ImportError as error:
            raise ConfigurationError(
                "engine",
                "postgres needs the package procrastinate, which is not installed",
                fix=install_command("worker"),
            ) from error
        self._address = address
        self._stall = stall
        self._make_connector = make_connector
        self._connector: PsycopgConnector | None = None

    async def open(self) -> None:
        """Create the tables in the schema of the journal, unless they are there.

        Raises:
            EngineError: the server cannot be reached, or has tables of another procrastinate.
        """
        if self._connector is None:
            self._connector = self._make_connector(self._address, 2)
        await self._perform(self._prepare_schema(self._connector), _SECONDS_TO_PREPARE)

    async def _perform(self, work: Awaitable[T], seconds: float = 0.0) -> T:
        """Await statements, for some seconds. Raises EngineError, which shows no password."""
        from procrastinate.exceptions import ConnectorException, ProcrastinateException

        from holdfast.worker.engines.postgres_connector import (
            SECONDS_FOR_STATEMENT,
            heed_cancellation,
            to_engine_error,
        )

        try:
            async with asyncio.timeout(seconds or SECONDS_FOR_STATEMENT):
                return await heed_cancellation(work)
        except ProcrastinateException as error:
            failure = to_engine_error(self._address, error)
        except TimeoutError as error:
            lost = ConnectorException()
            lost.__cause__ = error
            failure = to_engine_error(self._address, lost)
        raise failure  # outside the `except`: the driver's exception may hold the password

    async def _prepare_schema(self, connector: PsycopgConnector) -> None:
        from procrastinate.psycopg_connector import wrap_exceptions
        from procrastinate.schema import SchemaManager

        from holdfast.journal.postgres.postgres_migration import take_lock

        await connector.open_async()
        async with wrap_exceptions(), connector.pool.connection() as connection:
            # The lock of the session: a transaction that waits might not see the tables afterwards.
            await take_lock(connection, SCHEMA_LOCK)
            try:
                row = await (await connection.execute(sql.HAS_TABLES)).fetchone()
                if row is not None and row[0] is True:
                    await self._check_functions(connector)
                else:
                    async with connection.transaction():
                        await connection.execute(SchemaManager.get_schema())
            finally:
                await connection.execute(sql.SCHEMA_UNLOCK, {"key": SCHEMA_LOCK})

    async def _check_functions(self, connector: PsycopgConnector) -> None:
        import procrastinate
        from procrastinate.sql import queries

        names = sorted({name for text in queries.values() for name in _FUNCTION.findall(text)})
        missing = await connector.execute_query_all_async(sql.MISSING_FUNCTIONS, names=names)
        if missing:
            raise EngineError(
                self.name,
                f"{self._address.location}: the tables are of another procrastinate than "
                f"{procrastinate.__version__}: {missing[0]['name']} is missing",
                fix="Stop the workers and drop the tables, types and functions whose names begin "
                "with procrastinate_, or apply the migrations of procrastinate; no turn is lost",
            )

    def make_put(self, jobs: Sequence[Job]) -> Statement:
        """Return the statement that puts jobs, for the transaction of the inbox."""
        return Statement(sql.PUT, {"jobs": _encode_jobs(jobs)})

    async def put(self, jobs: Sequence[Job]) -> None:
        """Put jobs in a transaction of their own."""
        if jobs:
            execute = self._get_connector().execute_query_async
            await self._perform(execute(_PUT_ALONE, jobs=_encode_jobs(jobs)))

    async def run(self, handle: HandleJob, queues: Sequence[str], slots: JobSlots) -> None:
        """Deliver jobs until cancelled; see `DispatchEngine.run`."""
        from holdfast.worker.engines.postgres_connector import PatientConnector
        from holdfast.worker.engines.postgres_delivery import DeliverySettings, PostgresDelivery

        settings = DeliverySettings(tuple(queues), slots.count, self._stall)
        connector = PatientConnector(self._address, _CONNECTIONS, slots, self._stall)
        delivery = PostgresDelivery(connector, handle, settings)
        task = asyncio.create_task(delivery.run(), name="holdfast-engine")
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            delivery.stop()
            await await_handlers([task])
            raise

    async def find_lost(self, ids: Collection[int]) -> Collection[int]:
        """Return those of these entries that have no job, or one of a worker that died."""
        if not ids:
            return []
        execute = self._get_connector().execute_query_all_async
        values = {"ids": [str(entry) for entry in ids], "stall": self._stall}
        live = {row["id"] for row in await self._perform(execute(sql.FIND_LIVE, **values))}
        return [entry for entry in ids if entry not in live]

    def _get_connector(self) -> PsycopgConnector:
        if self._connector is None:
            raise EngineError(self.name, "is not open", fix="Await open() first")
        return self._connector

    async def close(self) -> None:
        """Close the connections. A second call does nothing."""
        connector, self._connector = self._connector, None
        if connector is not None:
            await self._perform(connector.close_async())


def _encode_jobs(jobs: Sequence[Job]) -> str:
    return json.dumps([{"id": job.id, "queue": encode_queue(job.queue)} for job in jobs])
