"""The connections of procrastinate to the database of a journal, and errors without a password.

procrastinate opens its connections itself, since only the journal imports the driver. A worker of
procrastinate ends at the first lost connection; `PatientConnector` waits for the server instead.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from procrastinate import PsycopgConnector
from procrastinate.exceptions import ConnectorException, ProcrastinateException
from procrastinate.sql import queries

from holdfast.journal.inbox.inbox_errors import EngineError
from holdfast.journal.inbox.job_slots import JobSlots
from holdfast.journal.postgres.postgres_failures import PostgresAddress, is_transient
from holdfast.worker.engines.procrastinate_statements import BEAT

if TYPE_CHECKING:
    from procrastinate.connector import Notify

T = TypeVar("T")

NAME = "postgres"

SECONDS_TO_CONNECT = 5.0
SECONDS_FOR_STATEMENT = 15.0
"""A server that is silent, behind a proxy that is not, is lost by no other sign."""

_SECONDS_TO_STOP = 5.0
_LONGEST_PAUSE = 1.0
_OPTIONS = {
    "application_name": "holdfast engine",
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "tcp_user_timeout": "20000",
}
_FETCH_JOB = queries["fetch_job"]
_NO_JOB: dict[str, Any] = {"id": None}
_JOB_IS_GONE = "P0001"
"""The error of procrastinate when it ends a job that is not there any more."""

_WORKER_IS_GONE = "23503"
"""A job cannot refer to this worker until its next heartbeat."""

_log = logging.getLogger("holdfast.worker")


def make_connector(address: PostgresAddress, size: int) -> PsycopgConnector:
    """Return a connector that opens up to `size` connections, none before they are needed."""
    return PsycopgConnector(**_pool_arguments(address, size))


def _pool_arguments(address: PostgresAddress, size: int) -> dict[str, Any]:
    return {
        "conninfo": "",
        "kwargs": {**_OPTIONS, **{k: v for k, v in address.parts.items() if v is not None}},
        "min_size": 0,
        "max_size": size,
        "timeout": SECONDS_TO_CONNECT,
        "configure": _commit_each_statement,
        "name": "holdfast-engine",
    }


async def _commit_each_statement(connection: Any) -> None:
    await connection.set_autocommit(True)


def to_engine_error(address: PostgresAddress, error: ProcrastinateException) -> EngineError:
    """Translate an error of procrastinate. Raise it outside the `except` block.

    The exception of the driver does not become its context then.
    """
    cause = error.__cause__
    if not isinstance(cause, Exception):
        return EngineError(NAME, f"{address.location}: {type(error).__name__}")
    journal_error = address.to_journal_error(cause)
    failure = EngineError(NAME, str(journal_error))
    failure.__cause__ = journal_error.__cause__
    return failure


async def heed_cancellation(work: Awaitable[T]) -> T:
    """Await statements, and end with `CancelledError` if the task was cancelled meanwhile.

    The pool of the driver waits for a connection by `asyncio.wait_for`. Before Python 3.12 this
    swallows a cancellation that comes when a connection has just been returned.

    Raises:
        asyncio.CancelledError: the task was cancelled, also if the work ended nevertheless.
    """
    before = _count_cancellations()
    try:
        result = await work
    except Exception:
        if _count_cancellations() == before:
            raise
    else:
        if _count_cancellations() == before:
            return result
    raise asyncio.CancelledError  # outside the `except`: the driver's exception may hold the password


def _count_cancellations() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


class PatientConnector(PsycopgConnector):
    """Repeats each statement until the server answers; for a worker of procrastinate alone.

    Args:
        address: the address of the server.
        size: the largest number of connections, without the one that listens.
        slots: a job is fetched only once it has one of these.
        stall: seconds without a heartbeat after which others count this worker as dead.
    """

    def __init__(
        self, address: PostgresAddress, size: int, slots: JobSlots, stall: float = 20.0
    ) -> None:
        super().__init__(**_pool_arguments(address, size))
        self._address = address
        self._stall = stall
        self._beat_at = -math.inf
        self.slots = slots
        """Whoever has done a job releases its slot."""
        self._ends_at: float | None = None
        self._is_stopping = asyncio.Event()
        self._limits: set[asyncio.Timeout] = set()
        self.ending: set[int | None] = set()
        """The jobs of procrastinate whose end is being saved."""

    def stop_soon(self) -> None:
        """Repeat statements for a few seconds only from now on, as the worker stops."""
        if self._ends_at is None:
            self._is_stopping.set()
            self._ends_at = ends_at = asyncio.get_running_loop().time() + _SECONDS_TO_STOP
            for limit in self._limits:
                if not limit.expired():
                    limit.reschedule(min(limit.when() or ends_at, ends_at))

    async def execute_query_async(self, query: Any, **arguments: Any) -> None:
        """Execute a statement that ends a job or a worker, or beats.

        One that fails is no error: a job whose end was not saved is delivered again.
        """
        job = arguments.get("job_id")
        self.ending.add(job)
        try:
            await self._repeat(super().execute_query_async, query, arguments)
        except ConnectorException as error:
            if _code_of(error) != _JOB_IS_GONE:
                _log.warning("%s; a job may come again", to_engine_error(self._address, error))
        finally:
            self.ending.discard(job)

    async def execute_query_one_async(self, query: Any, **arguments: Any) -> dict[str, Any]:
        """Execute a statement, and return its row; fetch a job once there is a slot for it."""
        execute = super().execute_query_one_async
        if query is not _FETCH_JOB:
            return await self._repeat(execute, query, arguments)
        if not await self._take_slot():
            return _NO_JOB
        row = _NO_JOB
        try:
            await self._beat_before_fetching(arguments["worker_id"])
            row = await self._repeat(execute, query, arguments)
        finally:
            if row["id"] is None:
                self.slots.release()
        return row

    async def beat(self, worker: int) -> None:
        """Show the others that this worker is alive. One that they removed is there again."""
        began = asyncio.get_running_loop().time()
        await self.execute_query_async(BEAT, worker=worker)
        self._beat_at = began

    async def _beat_before_fetching(self, worker: int) -> None:
        """Beat if the loop was too busy to do so: a job must not begin with a worker that counts as dead."""
        if asyncio.get_running_loop().time() - self._beat_at > self._stall / 2:
            await self.beat(worker)

    async def _take_slot(self) -> bool:
        """Wait for a free slot; return False if the worker stops meanwhile."""
        if self.slots.take(1):
            return True
        taking = asyncio.create_task(self.slots.acquire())
        stopping = asyncio.create_task(self._is_stopping.wait())
        try:
            await asyncio.wait([taking, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            is_taken = taking.done()
            taking.cancel()
        return is_taken

    async def execute_query_all_async(self, query: Any, **arguments: Any) -> list[dict[str, Any]]:
        """Execute a statement, and return its rows."""
        return await self._repeat(super().execute_query_all_async, query, arguments)

    async def listen_notify(self, on_notification: Notify, channels: Iterable[str]) -> None:
        """Listen until cancelled. Polling finds the messages that were missed meanwhile."""
        names = list(channels)
        pause = 0.05
        while True:
            try:
                await super().listen_notify(on_notification, names)
            except (ConnectorException, OSError) as error:
                _log.info("engine %s does not listen: %s", NAME, type(error).__name__)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _repeat(
        self, execute: Callable[..., Awaitable[T]], query: Any, arguments: dict[str, Any]
    ) -> T:
        pause = 0.05
        while True:
            try:
                return await heed_cancellation(self._execute(execute, query, arguments))
            except ConnectorException as error:
                if not self._is_worth_waiting(error):
                    raise
                if pause <= 0.05:
                    failure = to_engine_error(self._address, error)
                    _log.warning("%s; its jobs wait", failure)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _execute(
        self, execute: Callable[..., Awaitable[T]], query: Any, arguments: dict[str, Any]
    ) -> T:
        """Execute a statement once, within its time."""
        try:
            async with asyncio.timeout(SECONDS_FOR_STATEMENT) as limit:
                self._limits.add(limit)
                try:
                    return await execute(query, **arguments)
                finally:
                    self._limits.discard(limit)
        except TimeoutError as error:
            raise ConnectorException from error

    def _is_worth_waiting(self, error: ConnectorException) -> bool:
        if self._ends_at is not None and asyncio.get_running_loop().time() >= self._ends_at:
            return False
        cause = error.__cause__
        if not isinstance(cause, Exception):
            return False
        return _code_of(error) == _WORKER_IS_GONE or is_transient(cause)


def _code_of(error: ConnectorException) -> object:
    return getattr(error.__cause__, "sqlstate", None)
