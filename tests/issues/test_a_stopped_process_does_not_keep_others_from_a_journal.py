"""A process that was stopped while it made the tables kept every other one from opening the journal, without end."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from tests.postgres_server import PostgresServer

from holdfast import PostgresJournal
from holdfast.journal import postgres_migration
from holdfast.journal.postgres_failures import PostgresAddress
from holdfast.worker.engines import postgres_engine
from holdfast.worker.engines.postgres_engine import PostgresEngine

pytestmark = pytest.mark.anyio

JOURNAL_LOCK, ENGINE_LOCK = postgres_migration.LOCK, postgres_engine.SCHEMA_LOCK


@pytest.fixture(autouse=True)
def short_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_migration, "LONGEST_SILENCE", 0.8)


async def open_journal(url: str) -> None:
    with PostgresJournal(url) as journal:
        assert await journal.read("nothing") == []


async def open_engine(url: str) -> None:
    engine = PostgresEngine(PostgresAddress(url))
    try:
        await engine.open()
    finally:
        await engine.close()


@pytest.mark.parametrize("lock", [JOURNAL_LOCK, ENGINE_LOCK])
async def test_a_process_that_holds_the_lock_and_is_silent_loses_it(lock: int, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as stopped:
        stopped.execute("SELECT pg_advisory_lock(%s)", (lock,))
        async with asyncio.timeout(20):
            await (open_journal(url) if lock == JOURNAL_LOCK else open_engine(url))
        with pytest.raises(psycopg.OperationalError, match="terminating connection"):
            stopped.execute("SELECT 1")


async def test_a_process_that_works_keeps_the_lock_however_long_it_takes(
    url: str, postgres: PostgresServer
) -> None:
    with psycopg.connect(url, autocommit=True) as working:
        statement = "SELECT pg_advisory_lock(%s), pg_sleep(1.2)"
        work = asyncio.create_task(asyncio.to_thread(working.execute, statement, (JOURNAL_LOCK,)))
        held = f"SELECT 1 FROM pg_locks WHERE granted AND objid = {JOURNAL_LOCK}"
        while not postgres.rows(url, held):
            await asyncio.sleep(0.01)
        opened = asyncio.create_task(open_journal(url))
        await work
        assert not opened.done()
        working.execute("SELECT pg_advisory_unlock(%s)", (JOURNAL_LOCK,))  # nobody has ended it
        async with asyncio.timeout(20):
            await opened
