"""The journal in PostgreSQL passes the conformance suite over a real server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.postgres_server import PostgresServer

from holdfast.journal.postgres import PostgresJournal
from holdfast.testing.journal_conformance import JournalConformance, Lapse, LeaseConformance
from holdfast.testing.store_conformance import (
    Damage,
    DamageConformance,
    StoreConformance,
    TenantLeaseConformance,
)


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


@pytest.fixture
def damage(postgres: PostgresServer, url: str) -> Damage:
    async def damage(how: str, run: str, seq: int) -> None:
        table = "holdfast_records AS r"
        this = f"r.run_id = (SELECT id FROM holdfast_runs WHERE run = '{run}') AND r.seq = {seq}"
        statements = {
            "change": f"UPDATE {table} SET event = replace(event, 'text', 'test') WHERE {this}",
            "remove": f"DELETE FROM {table} WHERE {this}",
            "swap": f"UPDATE {table} SET event = n.event, checksum = n.checksum"
            f" FROM holdfast_records AS n WHERE {this} AND n.run_id = r.run_id AND n.seq = {seq + 1}",
        }
        assert postgres.rows(url, statements[how] + " RETURNING 1") == [(1,)]

    return damage


class TestPostgresJournal(JournalConformance, StoreConformance, DamageConformance):
    pass


class TestPostgresLeases(LeaseConformance, TenantLeaseConformance):
    pass
