"""A journal behind PgBouncer: it works with sessions, and refuses a pooler of transactions or statements."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import psycopg
import pytest
from tests.pgbouncer import PgBouncer, run_pgbouncer
from tests.postgres_server import PostgresServer

from holdfast.core.effects import CallModel
from holdfast.journal.inbox.opening_inbox import open_inbox
from holdfast.journal.journal_errors import JournalUnreachableError, TransactionPoolingError
from holdfast.journal.postgres.postgres_journal import PostgresJournal
from holdfast.testing.journal_conformance import (
    JournalConformance,
    Lapse,
    LeaseConformance,
    make_turn_opened,
)
from holdfast.testing.store_conformance import StoreConformance, TenantLeaseConformance


@pytest.fixture(scope="module")
def session_pooler(postgres: PostgresServer) -> Iterator[PgBouncer]:
    with run_pgbouncer(postgres, pool_mode="session", default_pool_size="100") as pgbouncer:
        yield pgbouncer


@pytest.fixture(scope="module")
def transaction_pooler(postgres: PostgresServer) -> Iterator[PgBouncer]:
    with run_pgbouncer(postgres, pool_mode="transaction") as pgbouncer:
        yield pgbouncer


@pytest.fixture(scope="module")
def database(session_pooler: PgBouncer) -> str:
    return session_pooler.new_url()


@pytest.fixture
def pooled_url(postgres: PostgresServer, database: str) -> str:
    """The address of an empty database; a new one for each test would take longer."""
    postgres.rows(database, "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return database


async def assert_refused(url: str, path: str) -> None:
    with PostgresJournal(url) as journal:
        with pytest.raises(TransactionPoolingError) as raised:
            await journal.read("r")
        assert path in str(raised.value)
        assert "pool_mode=session" in raised.value.fix
        for attempt in (
            journal.append("r", make_turn_opened(1), CallModel("t1", 0, 1)),
            journal.claim("r"),
            open_inbox(journal).read_limits(),
        ):
            with pytest.raises(TransactionPoolingError):
                await attempt


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize("mode", ["transaction", "statement"])
@pytest.mark.parametrize("is_round_robin", [0, 1])
async def test_a_pooler_of_transactions_is_refused_and_nothing_is_written(
    postgres: PostgresServer, mode: str, is_round_robin: int
) -> None:
    settings = {"pool_mode": mode, "server_round_robin": str(is_round_robin)}
    with run_pgbouncer(postgres, **settings) as pgbouncer:
        url = pgbouncer.new_url()
        await assert_refused(url, f"127.0.0.1:{pgbouncer.port}")
        direct = url.replace(f":{pgbouncer.port}/", f":{postgres.port}/")
        tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        assert postgres.rows(direct, tables) == [(0,)]
        # No setting or prepared statement of the journal stays behind for other clients.
        for statement in ("SHOW statement_timeout", "SELECT count(*) FROM pg_prepared_statements"):
            assert str(postgres.rows(url, statement)[0][0]) == "0"


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize("sessions", [1, 2, 3, 7])
@pytest.mark.parametrize("is_round_robin", [0, 1])
async def test_it_is_noticed_however_many_sessions_the_pooler_has(
    postgres: PostgresServer, sessions: int, is_round_robin: int
) -> None:
    settings = {"default_pool_size": str(sessions), "server_round_robin": str(is_round_robin)}
    with run_pgbouncer(postgres, pool_mode="transaction", **settings) as pgbouncer:
        url = pgbouncer.new_url()
        clients = [psycopg.connect(url) for _ in range(sessions)]
        for client in clients:  # all of them are open at the server at once
            client.execute("SELECT 1")
        for client in clients:
            client.close()
        for _ in range(5):
            with PostgresJournal(url) as journal, pytest.raises(TransactionPoolingError):
                await journal.read("r")


@pytest.mark.slow  # takes half a second or more
async def test_it_is_noticed_while_others_use_the_pooler(transaction_pooler: PgBouncer) -> None:
    url = transaction_pooler.new_url()
    ending = threading.Event()

    def use() -> None:
        with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
            while not ending.is_set():
                connection.execute("SELECT 1")

    others = [threading.Thread(target=use) for _ in range(4)]
    for other in others:
        other.start()
    try:
        for _ in range(20):
            with PostgresJournal(url) as journal, pytest.raises(TransactionPoolingError):
                await journal.read("r")
    finally:
        ending.set()
        for other in others:
            other.join()


async def test_a_pooler_that_is_changed_later_is_named_by_the_error(
    postgres: PostgresServer,
) -> None:
    async def read_often(journal: PostgresJournal) -> None:
        for _ in range(50):  # a statement is prepared once it was used often
            await journal.read("r")

    with (
        run_pgbouncer(postgres, pool_mode="session") as pgbouncer,
        PostgresJournal(pgbouncer.new_url(), connections=1) as journal,
    ):
        await read_often(journal)
        pgbouncer.execute("SET pool_mode = 'transaction'")
        pgbouncer.execute("RECONNECT")
        with pytest.raises(TransactionPoolingError):
            await read_often(journal)


@pytest.mark.slow  # starts a program or a server
async def test_a_pooler_of_sessions_with_a_single_one_is_named_by_the_error(
    postgres: PostgresServer,
) -> None:
    settings = {"default_pool_size": "1", "query_wait_timeout": "1"}
    with (
        run_pgbouncer(postgres, pool_mode="session", **settings) as pgbouncer,
        PostgresJournal(pgbouncer.new_url(), wait=0) as journal,
        pytest.raises(JournalUnreachableError, match="default_pool_size"),
    ):
        await journal.read("r")


async def test_a_journal_asks_a_pooler_of_sessions_once(
    session_pooler: PgBouncer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.journal.postgres import postgres_pool

    asked = []
    read = postgres_pool._read_backend

    async def count(connection: postgres_pool.Connection) -> int:
        asked.append(connection)
        return await read(connection)

    monkeypatch.setattr(postgres_pool, "_read_backend", count)
    with PostgresJournal(session_pooler.new_url(), connections=8) as journal:
        await asyncio.gather(*(journal.runs() for _ in range(30)))
        assert len(asked) == 1 + 3 * postgres_pool._ROUNDS


@pytest.fixture
def journal(pooled_url: str) -> Iterator[PostgresJournal]:
    with PostgresJournal(pooled_url) as journal:
        yield journal


@pytest.fixture
def other(pooled_url: str) -> Iterator[PostgresJournal]:
    with PostgresJournal(pooled_url) as journal:
        yield journal


@pytest.fixture
def lapse(postgres: PostgresServer, pooled_url: str) -> Lapse:
    async def lapse(run: str) -> None:
        postgres.rows(
            pooled_url,
            "UPDATE holdfast_runs SET expires = clock_timestamp() - interval '1 s'"
            f" WHERE run = '{run}' RETURNING 1",
        )

    return lapse


class TestPooledJournal(JournalConformance, StoreConformance):
    pass


class TestPooledLeases(LeaseConformance, TenantLeaseConformance):
    pass
