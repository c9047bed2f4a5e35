"""A lease ends by the clock of the PostgreSQL server. When it steps, no record is lost or doubled.

A step of the clock by an hour is the same as a step of all stored times by an hour the other way.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.postgres_server import PostgresServer

from holdfast.core.events import TurnOpened
from holdfast.core.messages import user
from holdfast.errors import LeaseLostError, SessionBusyError
from holdfast.journal.postgres import PostgresJournal


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.new_url()


@pytest.fixture
def journal(url: str) -> Iterator[PostgresJournal]:
    with PostgresJournal(url) as journal:
        yield journal


def opened(number: int) -> TurnOpened:
    return TurnOpened(f"t{number}", float(number), user("Hi"))


def step_clock(postgres: PostgresServer, url: str, hours: int) -> None:
    step = f"expires = expires - interval '{hours} hours'"
    postgres.rows(
        url, f"UPDATE holdfast_runs SET {step} WHERE expires IS NOT NULL"
    )  # REASON: a test


async def test_back(journal: PostgresJournal, postgres: PostgresServer, url: str) -> None:
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


async def test_forward(journal: PostgresJournal, postgres: PostgresServer, url: str) -> None:
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
