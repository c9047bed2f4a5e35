"""Each engine against the public suite: in process, in a real PostgreSQL, and over a real NATS server."""

from __future__ import annotations

from itertools import count

import pytest
from tests.nats_server import NatsServer, delete_streams
from tests.postgres_server import PostgresServer

from holdfast.journal.postgres.postgres_failures import PostgresAddress
from holdfast.testing import EngineCarrier, EngineConformance
from holdfast.worker.engines import asyncio_engine, nats_stream, postgres_delivery
from holdfast.worker.engines.asyncio_engine import AsyncioEngine
from holdfast.worker.engines.nats_engine import NatsEngine
from holdfast.worker.engines.postgres_engine import PostgresEngine

_journals = count(1)

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job is delivered again soon, and a server asked often, and not after a second."""
    for module in (asyncio_engine, nats_stream, postgres_delivery):
        monkeypatch.setattr(module, "redelivery_delay", lambda _attempts: 0.05)
    for module in (nats_stream, postgres_delivery):
        monkeypatch.setattr(module, "_SECONDS_BETWEEN_POLLS", 0.1)


class Suite(EngineConformance):
    """The public suite, with its lanes."""

    @pytest.mark.slow  # waits for longer than an engine waits for a silent worker
    async def test_a_long_job_is_not_lost(self, carrier: EngineCarrier) -> None:
        await super().test_a_long_job_is_not_lost(carrier)


class TestAsyncioEngine(Suite):
    @pytest.fixture
    def carrier(self) -> EngineCarrier:
        engine = AsyncioEngine()

        async def lose_jobs() -> None:
            engine._ready.clear()
            engine._ready_ids.clear()
            engine._delayed.clear()

        return EngineCarrier(make=lambda: engine, lose_jobs=lose_jobs)


class TestPostgresEngine(Suite):
    @pytest.fixture
    def carrier(self, postgres: PostgresServer, url: str) -> EngineCarrier:
        address = PostgresAddress(url)

        async def lose_jobs() -> None:
            postgres.rows(url, "TRUNCATE procrastinate_jobs CASCADE")

        return EngineCarrier(make=lambda: PostgresEngine(address, stall=2.0), lose_jobs=lose_jobs)


class TestNatsEngine(Suite):
    @pytest.fixture
    def carrier(self, nats_server: NatsServer) -> EngineCarrier:
        journal = f"journal {next(_journals)}"

        async def identify() -> str:
            return journal

        return EngineCarrier(
            make=lambda: NatsEngine(nats_server.url, identify, stall=2.0),
            lose_jobs=lambda: delete_streams(nats_server.url),
        )
