"""The journal in PostgreSQL passes the conformance suite over a real server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.postgres_server import PostgresServer

from holdfast.journal.postgres import PostgresJournal
from holdfast.testing.journal_conformance import JournalConformance, Lapse, LeaseConformance


@pytest.fixture
def journal(url: str) -> Iterator[PostgresJournal]:
    with PostgresJournal(url) as journal:
        yield journal


@pytest.fixture
def other(url: str) -> Iterator[PostgresJournal]:
    with PostgresJournal(url) as journal:
        yield journal


@pytest.fixture
def lapse(postgres: PostgresServer, url: str) -> Lapse:
    async def lapse(run: str) -> None:
        postgres.rows(
            url,
            "UPDATE holdfast_runs SET expires = clock_timestamp() - interval '1 s'"
            f" WHERE run = '{run}' RETURNING 1",
        )

    return lapse


class TestPostgresJournal(JournalConformance):
    pass


class TestPostgresLeases(LeaseConformance):
    pass
