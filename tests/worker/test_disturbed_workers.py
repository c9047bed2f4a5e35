"""Workers are killed, servers restarted and queues emptied under load: every turn is done, and once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.nats_server import NatsServer, delete_streams
from tests.pgbouncer import run_pgbouncer
from tests.postgres_server import PostgresServer
from tests.worker.paying_worker import Ledger, PayingSettings
from tests.worker.worker_cluster import (
    Findings,
    Load,
    WorkerCluster,
    check_load,
    count_deeds_at_once,
    read_changes,
    serve_model,
    wait_until_over,
    watch_inbox,
)

from holdfast import PostgresJournal
from holdfast.hosting.token_quota import count_tokens
from holdfast.journal.inbox.opening_inbox import open_inbox
from holdfast.journal.inbox.queue_limits import QueueLimits

pytestmark = [pytest.mark.anyio, pytest.mark.slow]  # kills workers and servers under load

CAP, CAP_OF_ALL = 4, 14
EMPTY_QUEUE = "TRUNCATE procrastinate_jobs CASCADE"


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with serve_model(0.02) as url:
        yield url


class Disturber:
    """Kills workers, restarts servers and empties queues.

    Args:
        load: the turns.
        cluster: the workers.
        postgres: the server of the journal.
        nats: the server of the engine; None for an engine in the journal's database.
    """

    def __init__(
        self,
        load: Load,
        cluster: WorkerCluster,
        postgres: PostgresServer,
        nats: NatsServer | None,
    ) -> None:
        self._load, self._cluster = load, cluster
        self._postgres, self._nats = postgres, nats
        self._url = load.settings.journal
        self.rng = random.Random(7)

    async def kill_worker(self) -> None:
        """Kill a worker, and start another one."""
        await self._cluster.replace(self.rng.choice(self._cluster.workers))

    async def empty_queue(self) -> None:
        """Let the engine lose all jobs."""
        if self._nats is None:
            await asyncio.to_thread(self._postgres.rows, self._url, EMPTY_QUEUE)
        else:
            await delete_streams(self._nats.url)

    async def restart_servers(self) -> None:
        """Kill the servers, and start them again a little later."""
        for server in (self._nats, self._postgres):
            if server is not None:
                await asyncio.to_thread(server.kill)
                await asyncio.sleep(0.3)
                await asyncio.to_thread(server.start)

    async def run(self, acts: Sequence[Callable[[], Awaitable[None]]]) -> None:
        """Do these acts one after another, evenly while the turns are done; return at their end."""
        turns = self._load.turns
        async with asyncio.TaskGroup() as group:
            group.create_task(self._load.submit())
            for number, act in enumerate(acts, 1):
                share = turns * number // (len(acts) + 1)
                await wait_until_over(self._postgres, self._url, share, 60 + turns)
                await act()
            await wait_until_over(self._postgres, self._url, turns, 60 + turns)

    async def check(self) -> Findings:
        """Return what is wrong at the end."""
        changes = await asyncio.to_thread(read_changes, self._postgres, self._url)
        tenants = {tenant for tenant, _ in self._load.orders}
        caps = {"": CAP_OF_ALL, **dict.fromkeys(tenants, CAP)}
        found = await check_load(self._load, changes, caps)
        ended = {worker.pid: worker.ended_at for worker in self._cluster.ended}
        payments = Ledger(Path(self._load.settings.ledger)).read("pay")
        for tenant, most in count_deeds_at_once(payments, ended).items():
            if most > CAP:
                found.problems.append(f"{tenant} paid {most} orders at once")
        return found


async def set_caps(url: str, tokens_per_day: int | None = None) -> None:
    """Set the largest number of turns at once, and of tokens of a day."""
    with PostgresJournal(url) as journal:
        limits = QueueLimits(running=CAP, tokens_per_day=tokens_per_day)
        await open_inbox(journal).set_limits("tenant", limits)
        await open_inbox(journal).set_limits("all", QueueLimits(running=CAP_OF_ALL))


@pytest.fixture(params=["postgres", "nats"])
def setting(
    request: pytest.FixtureRequest, model: str, url: str, tmp_path: Path, postgres: PostgresServer
) -> tuple[PayingSettings, NatsServer | None]:
    """The settings of the workers, with each engine, and the server of the engine."""
    is_nats = request.param == "nats"
    nats: NatsServer | None = request.getfixturevalue("nats_server") if is_nats else None
    ledger, address = str(tmp_path / "ledger.db"), nats.url if nats else None
    watch_inbox(postgres, url)
    settings = PayingSettings(journal=url, model=model, ledger=ledger, engine=address)
    return settings, nats


async def test_killed_workers_and_servers_lose_and_double_nothing(
    setting: tuple[PayingSettings, NatsServer | None],
    postgres: PostgresServer,
    tmp_path: Path,
) -> None:
    settings, nats = setting
    await set_caps(settings.journal)
    load = Load(settings, turns=60, tenants=4, turns_of_session=3)
    async with WorkerCluster(settings, tmp_path, 2) as cluster:
        disturber = Disturber(load, cluster, postgres, nats)
        kill, empty = disturber.kill_worker, disturber.empty_queue
        await disturber.run([kill, empty, kill, disturber.restart_servers, kill, empty])
        found = await disturber.check()
        print(found, cluster.kills)
        assert not found.problems, cluster.find_log()[-3000:]
        assert found.turns == load.turns
        assert found.looks >= load.turns
        assert cluster.kills == 3


@pytest.fixture
def pooled_url(postgres: PostgresServer) -> Iterator[str]:
    sizes = {"default_pool_size": "80", "max_client_conn": "200"}
    with run_pgbouncer(postgres, pool_mode="session", **sizes) as pgbouncer:
        url = pgbouncer.new_url()
        watch_inbox(postgres, url)
        yield url


async def check_counted_tokens(settings: PayingSettings, load: Load) -> None:
    """Assert that the tokens of each tenant were counted as the journal has them."""
    with PostgresJournal(settings.journal) as journal:
        for tenant in {tenant for tenant, _ in load.orders}:
            view = journal.for_tenant(tenant)
            runs = [await view.read(entry.run) for entry in await view.runs()]
            used = sum(count_tokens(record.event) for records in runs for record in records)
            assert used
            assert (await open_inbox(journal).read_usage(tenant))[1] == used


async def test_killed_workers_behind_a_pooler_of_sessions_lose_and_double_nothing(
    model: str, pooled_url: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    settings = PayingSettings(
        journal=pooled_url, model=model, ledger=str(tmp_path / "ledger.db"), lease=2.0
    )
    await set_caps(pooled_url, tokens_per_day=10**9)
    load = Load(settings, turns=24, tenants=4, turns_of_session=3)
    async with WorkerCluster(settings, tmp_path, 2) as cluster:
        disturber = Disturber(load, cluster, postgres, None)
        await disturber.run([disturber.kill_worker])
        found = await disturber.check()
        assert not found.problems, cluster.find_log()[-3000:]
        assert found.turns == load.turns
        await check_counted_tokens(settings, load)
