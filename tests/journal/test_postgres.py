"""The journal in PostgreSQL passes the conformance suite over a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.postgres_server import PostgresServer, Proxy

from holdfast.core.events import TurnOpened
from holdfast.core.messages import user
from holdfast.errors import LeaseLostError, SessionBusyError
from holdfast.journal.postgres.postgres_journal import PostgresJournal
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


# A lease ends by the clock of the server. A step of the clock by an hour is the same as a step of
# all stored times by an hour the other way.


def opened(number: int) -> TurnOpened:
    return TurnOpened(f"t{number}", float(number), user("Hi"))


def step_clock(postgres: PostgresServer, url: str, hours: int) -> None:
    step = f"expires = expires - interval '{hours} hours'"
    postgres.rows(
        url, f"UPDATE holdfast_runs SET {step} WHERE expires IS NOT NULL"
    )  # REASON: a test


async def test_a_clock_that_steps_back_loses_no_record(
    journal: PostgresJournal, postgres: PostgresServer, url: str
) -> None:
    """The driver goes on, nobody else gets in, and the next append sets the end of the lease anew."""
    with PostgresJournal(url) as other:
        lease = await journal.claim("r")
        step_clock(postgres, url, -1)
        await lease.append("r", opened(1))
        with pytest.raises(SessionBusyError):
            await other.claim("r")
        late = "SELECT expires > clock_timestamp() + interval '1 minute' FROM holdfast_runs"
        assert postgres.rows(url, late) == [(False,)]
        await lease.release()
        await (await other.claim("r")).release()
    assert [one.event.key for one in await journal.read("r")] == ["t1"]


async def test_a_clock_that_steps_forward_doubles_no_record(
    journal: PostgresJournal, postgres: PostgresServer, url: str
) -> None:
    """Another process may take over; then the first one saves nothing more."""
    with PostgresJournal(url) as other:
        lease = await journal.claim("r")
        step_clock(postgres, url, 1)
        await lease.append("r", opened(1))  # nobody took over
        step_clock(postgres, url, 1)
        second = await other.claim("r")
        with pytest.raises(LeaseLostError):
            await lease.append("r", opened(2))
        await second.append("r", opened(3))
        await second.release()
    assert [one.event.key for one in await journal.read("r")] == ["t1", "t3"]


@pytest.mark.slow  # starts a program or a server
async def test_a_renewal_after_a_silent_connection_takes_another_one(
    postgres: PostgresServer,
) -> None:
    url = postgres.new_url()

    def expires() -> object:
        return postgres.rows(url, "SELECT expires FROM holdfast_runs")

    async def renewed() -> None:
        before = expires()
        while expires() == before:
            await asyncio.sleep(0.02)

    async with Proxy(postgres.port) as proxy:
        through = url.replace(f":{postgres.port}/", f":{proxy.port}/")
        with PostgresJournal(through, lease=1.5) as journal, PostgresJournal(url) as other:
            lease = await journal.claim("r")
            async with asyncio.timeout(60):
                await renewed()
                proxy.silence()
                await renewed()  # may have been on its way
                await renewed()
                await renewed()
            with pytest.raises(SessionBusyError):
                await other.claim("r")
            proxy.cut()  # or closing would wait for answers
            await lease.release()
