"""Each engine against the public suite: in process, in a real PostgreSQL, and over a real NATS server."""

from __future__ import annotations

from itertools import count

import pytest
from tests.nats_server import NatsServer, delete_streams
from tests.postgres_server import PostgresServer

from holdfast.journal.postgres.postgres_failures import PostgresAddress
from holdfast.testing import EngineCarrier, EngineConformance
from holdfast.worker.engines.asyncio_engine import AsyncioEngine
from holdfast.worker.engines.nats_engine import NatsEngine
from holdfast.worker.engines.postgres_engine import PostgresEngine

_journals = count(1)

pytestmark = pytest.mark.anyio


class TestAsyncioEngine(EngineConformance):
    @pytest.fixture
    def carrier(self) -> EngineCarrier:
        engine = AsyncioEngine()

        async def lose_jobs() -> None:
            engine._ready.clear()
            engine._ready_ids.clear()
            engine._delayed.clear()

        return EngineCarrier(make=lambda: engine, lose_jobs=lose_jobs)


class TestPostgresEngine(EngineConformance):
    @pytest.fixture
    def carrier(self, postgres: PostgresServer, url: str) -> EngineCarrier:
        address = PostgresAddress(url)

        async def lose_jobs() -> None:
            postgres.rows(url, "TRUNCATE procrastinate_jobs CASCADE")

        return EngineCarrier(make=lambda: PostgresEngine(address, stall=1.0), lose_jobs=lose_jobs)


class TestNatsEngine(EngineConformance):
    @pytest.fixture
    def carrier(self, nats_server: NatsServer) -> EngineCarrier:
        journal = f"journal {next(_journals)}"

        async def identify() -> str:
            return journal

        return EngineCarrier(
            make=lambda: NatsEngine(nats_server.url, identify, stall=1.0),
            lose_jobs=lambda: delete_streams(nats_server.url),
        )
