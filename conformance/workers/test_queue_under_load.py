"""Fairness between tenants, and a queue that takes no more than its limit.

Both are judged by the order and the number of turns, which do not depend on the machine. `--full` has 10,000 turns
beside 10, and an overload of a minute; it also compares times, and wants a machine that does nothing else.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.postgres_server import PostgresServer
from tests.worker.paying_worker import PayingSettings, make_agent
from tests.worker.worker_cluster import (
    Load,
    WorkerCluster,
    find_unfair,
    read_changes,
    serve_model,
    wait_until_over,
    watch_inbox,
)

from holdfast import Agent, PostgresJournal
from holdfast.journal.inbox.inbox_errors import QueueFullError
from holdfast.journal.inbox.opening_inbox import open_inbox
from holdfast.journal.inbox.queue_limits import QueueLimits

pytestmark = pytest.mark.anyio

IS_FULL = bool(os.environ.get("HOLDFAST_FULL"))
BACKLOG = 10_000 if IS_FULL else 150
FEW = 10
SECONDS = 60.0 if IS_FULL else 3.0
TIMES = 10
WARM, LATE, SLOTS = 40, 4, 16
MOST_SECONDS = 60.0  # for which those are awaited who come back


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with serve_model(0.3) as url:
        yield url


@pytest.fixture
def settings(model: str, url: str, tmp_path: Path) -> PayingSettings:
    ledger = str(tmp_path / "ledger.db")
    return PayingSettings(journal=url, model=model, ledger=ledger, lease=20.0)


def make_load(settings: PayingSettings, tenant: str, turns: int) -> Load:
    """Turns of one tenant, each in a session of its own."""
    load = Load(settings, turns=turns, tenants=1, turns_of_session=1)
    orders = [f"{tenant}/s{number}/0" for number in range(turns)]
    load.orders = {(tenant, f"s{number}"): [order] for number, order in enumerate(orders)}
    return load


async def set_limits(url: str, scope: str, limits: QueueLimits) -> None:
    with PostgresJournal(url) as journal:
        await open_inbox(journal).set_limits(scope, limits)


async def release(
    postgres: PostgresServer, settings: PayingSettings, load: Load, cap: int | None
) -> tuple[int, float]:
    """Submit the turns of a tenant, and let them begin all at once.

    Returns:
        The number of the last change before, and the seconds from then to the last end.
    """
    (tenant, _), url = next(iter(load.orders)), settings.journal
    await set_limits(url, f"tenant:{tenant}", QueueLimits(is_paused=True))
    await load.submit()
    await set_limits(url, f"tenant:{tenant}", QueueLimits(running=cap))
    text = "SELECT max(n), extract(epoch FROM clock_timestamp())::float8 FROM audit"
    number, begin = postgres.rows(url, text)[0]
    await wait_for_orders(postgres, url, f"{tenant}/", load.turns)
    text = f"SELECT max(changed_at) FROM holdfast_inbox WHERE tenant = '{tenant}'"
    end = postgres.rows(url, text)[0][0]
    return int(str(number)), float(str(end)) - float(str(begin))


async def wait_for_orders(postgres: PostgresServer, url: str, name: str, turns: int) -> None:
    """Wait until the turns whose orders begin so are done."""
    text = f"SELECT count(*) FROM holdfast_inbox WHERE request LIKE '{name}%' AND state = 'done'"
    while postgres.rows(url, text) != [(turns,)]:  # noqa: ASYNC110  # REASON: another process changes it
        await asyncio.sleep(0.05)


# Without a cap, a turn that runs is not interrupted for another tenant.
@pytest.mark.parametrize(("cap", "ratio"), [(4, 1.5), (None, 5.0)])
async def test_a_tenant_with_few_turns_is_not_behind_one_with_many(
    cap: int | None,
    ratio: float,
    settings: PayingSettings,
    postgres: PostgresServer,
    tmp_path: Path,
) -> None:
    await asyncio.to_thread(watch_inbox, postgres, settings.journal)
    async with WorkerCluster(settings, tmp_path, 2):
        await set_limits(settings.journal, "tenant", QueueLimits(running=cap))
        await release(postgres, settings, make_load(settings, "warm", FEW), cap)
        _, alone = await release(postgres, settings, make_load(settings, "alone", FEW), cap)
        await make_load(settings, "many", BACKLOG).submit()
        number, beside = await release(postgres, settings, make_load(settings, "few", FEW), cap)
        left = "SELECT count(*) FROM holdfast_inbox WHERE tenant = 'many' AND state <> 'done'"
        print(
            f"cap {cap}: {alone:.2f} s alone, {beside:.2f} s beside {BACKLOG}: {beside / alone:.2f}"
        )
        assert int(str(postgres.rows(settings.journal, left)[0][0])) > BACKLOG // 2
    changes = await asyncio.to_thread(read_changes, postgres, settings.journal)
    assert not find_unfair(changes, number, "few", "many", cap)
    assert not IS_FULL or beside <= ratio * alone


class Crowd:
    """Clients that submit turns, and come back when they are told to.

    Args:
        agent: their agent.
    """

    def __init__(self, agent: Agent[str]) -> None:
        self._agent = agent
        self._clients: list[asyncio.Task[None]] = []
        self.accepted = 0
        self.refused = 0
        self.came_back: Counter[bool] = Counter()
        self.told: list[float] = []

    async def rush(self, clients_per_second: float) -> int:
        """Let so many clients submit for some time; return how many, when most of them are done."""
        end, number = time.monotonic() + SECONDS, 0
        while time.monotonic() < end:
            number += 1
            self._clients.append(asyncio.create_task(self._submit(f"busy/s{number}/0")))
            await asyncio.sleep(1 / clients_per_second)
        await asyncio.wait(self._clients, timeout=MOST_SECONDS)
        for client in self._clients:
            client.cancel()
        await asyncio.wait(self._clients)
        return number

    async def _submit(self, order: str) -> None:
        """Submit a turn; come back once after a refusal, when it said."""
        if (seconds := await self._try(order)) is not None:
            await asyncio.sleep(seconds)
            self.came_back[await self._try(order) is None] += 1

    async def _try(self, order: str) -> float | None:
        try:
            await self._agent.submit(order, tenant="busy", session=order, request=order)
        except QueueFullError as error:
            self.refused += 1
            self.told.append(error.info.retry_after or 0.0)
            return error.info.retry_after
        self.accepted += 1
        return None

    def __str__(self) -> str:
        return (
            f"{self.accepted} accepted, {self.refused} refused; of those who came back "
            f"{self.came_back[True]} got in, {self.came_back[False]} not; "
            f"told {min(self.told)} to {max(self.told)} s"
        )


def read_memory(pid: int) -> int:
    """Return the resident memory of a process, in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


def count_done(postgres: PostgresServer, url: str) -> int:
    """Return how many turns are done."""
    text = "SELECT count(*) FROM holdfast_inbox WHERE state = 'done'"
    return int(str(postgres.rows(url, text)[0][0]))


async def test_overload_is_refused_with_a_time_that_is_true(
    settings: PayingSettings, postgres: PostgresServer, tmp_path: Path
) -> None:
    url = settings.journal
    async with WorkerCluster(settings, tmp_path, 2) as cluster:
        begin = time.monotonic()
        await make_load(settings, "warm", WARM).submit()
        await wait_until_over(postgres, url, WARM, 100)
        capacity = WARM / (time.monotonic() - begin)
        queued = max(4, int(4 * capacity))
        await set_limits(url, "tenant:busy", QueueLimits(queued=queued))
        crowd = Crowd(make_agent(settings))
        memory = [read_memory(worker.pid) for worker in cluster.workers]
        number = await crowd.rush(TIMES * capacity)
        done, begin = count_done(postgres, url), time.monotonic()
        late = make_load(settings, "busy", LATE)
        late.orders = {("busy", f"late{n}"): [f"busy/late{n}/0"] for n in range(LATE)}
        await late.submit()
        await wait_for_orders(postgres, url, "busy/late", LATE)
        seconds, done = time.monotonic() - begin, count_done(postgres, url) - done
        grown = [read_memory(w.pid) - m for w, m in zip(cluster.workers, memory, strict=True)]
        await wait_until_over(postgres, url, WARM + crowd.accepted + LATE, 200)
    print(f"{capacity:.1f} turns/s, {number} clients in {SECONDS} s: {crowd}")
    print(
        f"{LATE} more were done {seconds:.1f} s later, with {done} turns; memory grew by {grown} MB"
    )
    assert crowd.refused > number // 4
    assert crowd.came_back[True] > crowd.came_back[False]
    assert max(grown) < 20
    # In ten seconds, told by the work that is done in ten seconds, and by what the workers have at once.
    assert done <= 10 * capacity + SLOTS
    assert not IS_FULL or seconds <= 10
