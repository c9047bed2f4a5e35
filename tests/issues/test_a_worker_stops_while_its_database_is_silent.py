"""A run of the PostgreSQL engine never ended when the open connections heard nothing more.

A proxy between them keeps the connections alive, so that no sign of TCP tells of it. The service
whose worker it was could not be stopped.
"""

from __future__ import annotations

import asyncio

import pytest
from tests.postgres_server import PostgresServer, Proxy

from holdfast.journal.inbox.inbox_errors import EngineError
from holdfast.journal.inbox.job_slots import JobSlots
from holdfast.journal.postgres_failures import PostgresAddress
from holdfast.worker.engines import postgres_connector
from holdfast.worker.engines.postgres_engine import PostgresEngine

pytestmark = pytest.mark.anyio

MOST_SECONDS = 60.0
"""The driver asks the server for five seconds to cancel a statement; on a busy machine."""


async def do_nothing(_entry: int) -> None:
    """Do a job."""


async def test_runs_end_and_statements_fail(
    postgres: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_connector, "SECONDS_FOR_STATEMENT", 1.0)
    monkeypatch.setattr(postgres_connector, "_SECONDS_TO_STOP", 0.2)
    async with Proxy(postgres.port) as proxy, asyncio.timeout(MOST_SECONDS):
        engine = PostgresEngine(
            PostgresAddress(url.replace(f":{postgres.port}/", f":{proxy.port}/"))
        )
        await engine.open()
        delivering = asyncio.create_task(engine.run(do_nothing, ["q"], JobSlots(1)))
        while not postgres.rows(url, "SELECT 1 FROM procrastinate_workers"):
            await asyncio.sleep(0.01)
        known = proxy.connections
        beginning = asyncio.create_task(engine.run(do_nothing, ["q"], JobSlots(1)))
        while proxy.connections == known:
            await asyncio.sleep(0.001)
        proxy.silence()
        finding = asyncio.create_task(engine.find_lost([1]))
        await asyncio.sleep(0)
        for run in (delivering, beginning):
            run.cancel()
        await asyncio.wait([finding, delivering, beginning])
        assert delivering.cancelled()
        assert beginning.cancelled()
        with pytest.raises(EngineError, match="did not respond in time"):
            await finding
        await engine.close()
