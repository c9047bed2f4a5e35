"""A run of the PostgreSQL engine that was told to stop went on for ever now and then.

The pool of the driver swallows a cancellation that comes when a connection has just been returned.
A stop that came while the connections were opened reached no worker.
"""

from __future__ import annotations

import asyncio

import pytest
from tests.postgres_server import PostgresServer

from holdfast.journal.inbox.job_slots import JobSlots
from holdfast.journal.postgres_failures import PostgresAddress
from holdfast.worker.engines.postgres_connector import PatientConnector
from holdfast.worker.engines.postgres_engine import PostgresEngine

pytestmark = pytest.mark.anyio


async def _pass_turns(turns: int) -> None:
    """Let the loop turn so many times: whatever is in between happens."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def test_a_statement_that_is_cancelled_as_it_gets_a_connection_is_cancelled(
    postgres: PostgresServer, url: str
) -> None:
    connector = PatientConnector(PostgresAddress(url), 1, JobSlots(1))
    await connector.open_async()
    cancelled = 0
    for turns in range(16):
        async with connector.pool.connection():
            waiting = asyncio.create_task(connector.execute_query_all_async("SELECT 1 AS one"))
            await _pass_turns(16)
        await _pass_turns(turns)
        if waiting.cancel():
            cancelled += 1
            await asyncio.wait([waiting], timeout=20)
            assert waiting.cancelled(), turns
    assert cancelled > 0
    await connector.close_async()


async def test_a_run_that_is_cancelled_as_it_begins_ends(
    postgres: PostgresServer, url: str
) -> None:
    engine = PostgresEngine(PostgresAddress(url), stall=1.0)
    await engine.open()

    async def handle(entry: int) -> None:
        raise AssertionError(entry)

    runs = []
    for turns in range(16):
        run = asyncio.create_task(engine.run(handle, ["q"], JobSlots(1)))
        await _pass_turns(turns)
        run.cancel()
        runs.append(run)
    _, going = await asyncio.wait(runs, timeout=20)
    assert [turns for turns, run in enumerate(runs) if run in going] == []
    await engine.close()
