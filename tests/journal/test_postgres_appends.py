"""Appends of many runs share a transaction of PostgreSQL, and each has its own outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import psycopg
import pytest

from holdfast.core.events import ToolsBegun, TurnOpened
from holdfast.core.messages import user
from holdfast.errors import ConflictError, LeaseLostError, RequestExistsError
from holdfast.journal.port import RunEntry
from holdfast.journal.postgres.postgres_journal import PostgresJournal, PostgresLease


@pytest.fixture
def journal(url: str) -> Iterator[PostgresJournal]:
    with PostgresJournal(url) as journal:
        yield journal


def opened(number: int, request: str = "") -> TurnOpened:
    return TurnOpened(f"t{number}", float(number), user("Hi"), request=request)


async def claim_all(journal: PostgresJournal, count: int) -> list[PostgresLease]:
    return list(await asyncio.gather(*(journal.claim(f"r{n}") for n in range(count))))


async def test_waiting_appends_are_sent_together(
    journal: PostgresJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    await journal.runs()  # connect
    calls = 0
    perform: Callable[..., Awaitable[Any]] = journal._server._pool.perform

    async def count(*args: Any, **keywords: Any) -> Any:
        nonlocal calls
        calls += 1
        return await perform(*args, **keywords)

    monkeypatch.setattr(journal._server._pool, "perform", count)
    leases = await claim_all(journal, 100)
    for number in range(1, 4):
        await asyncio.gather(*(lease.append(lease.run, opened(number)) for lease in leases))
    await asyncio.gather(*(lease.release() for lease in leases))
    assert calls < 50
    assert [entry.records for entry in await journal.runs()] == [3] * 100
    for lease in leases:
        records = await journal.read(lease.run)
        assert [record.event for record in records] == [opened(n) for n in (1, 2, 3)]


async def test_each_append_has_its_own_outcome(journal: PostgresJournal, url: str) -> None:
    leases = await claim_all(journal, 12)
    await leases[3].append("r3", opened(1))
    await leases[4].append("r4", opened(9, request="pay"))
    with PostgresJournal(url) as other:
        await other.delete("r5")
        outcomes = await asyncio.gather(
            *(
                lease.append(
                    lease.run,
                    opened(1, request="pay" if number == 6 else f"r-{number}"),
                    marker=ToolsBegun("t1.i0.begun", 2.0),
                )
                for number, lease in enumerate(leases)
            ),
            return_exceptions=True,
        )
    failed = {number: type(one) for number, one in enumerate(outcomes) if one is not None}
    assert failed == {3: ConflictError, 5: LeaseLostError, 6: RequestExistsError}
    for number, lease in enumerate(leases):
        keys = [record.event.key for record in await journal.read(lease.run)]
        wanted = {3: ["t1"], 4: ["t9", "t1", "t1.i0.begun"], 5: [], 6: []}
        assert keys == wanted.get(number, ["t1", "t1.i0.begun"])
    assert await journal.find_request("r-7") == ("r7", "t1")
    assert await journal.find_request("pay") == ("r4", "t9")


async def test_no_append_waits_for_the_lock_of_another_run(
    journal: PostgresJournal, url: str
) -> None:
    leases = await claim_all(journal, 3)
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute("SELECT 1 FROM holdfast_runs WHERE run = 'r0' FOR UPDATE")
        appends = [
            asyncio.ensure_future(lease.append(lease.run, opened(number)))
            for number in (1, 2)
            for lease in leases
        ]
        await asyncio.wait_for(asyncio.gather(*appends[1:3], *appends[4:]), 60)
        assert not appends[0].done()
        await connection.rollback()
    await asyncio.gather(*appends, return_exceptions=True)
    # Appends of one run that wait at the same time have no order.
    assert {record.event.key for record in await journal.read("r0")} == {"t1", "t2"}


def test_a_loop_that_stopped_before_it_sent_its_appends_holds_up_no_other(
    journal: PostgresJournal,
) -> None:
    loop = asyncio.new_event_loop()
    task = loop.create_task(journal.claim("left"))
    loop.run_until_complete(asyncio.sleep(0))  # the claim waits for the rest of its group

    async def claim() -> None:
        lease = await asyncio.wait_for(journal.claim("r"), 60)
        await lease.append("r", opened(1))
        await lease.release()

    asyncio.run(claim())
    lease = loop.run_until_complete(asyncio.wait_for(task, 60))
    loop.run_until_complete(lease.release())
    loop.close()
    assert [entry.run for entry in asyncio.run(_list_runs(journal))] == ["r"]


async def _list_runs(journal: PostgresJournal) -> Sequence[RunEntry]:
    return await journal.runs()
