"""Workers that were paused, cut off or lost their clock: whoever has lost its lease commits nothing."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.postgres_server import PostgresServer, Proxy
from tests.worker.paying_worker import PayingSettings
from tests.worker.worker_cluster import (
    Load,
    WorkerCluster,
    WorkerProcess,
    check_load,
    read_changes,
    serve_model,
    wait_until_over,
    watch_inbox,
    with_clock,
)

pytestmark = pytest.mark.anyio

LEASE, TURNS, SECONDS = 4.0, 8, 100.0
COUNT_SAVED = "SELECT (SELECT count(*) FROM holdfast_records), (SELECT count(*) FROM audit)"


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with serve_model(0.02) as url:
        yield url


@pytest.fixture
def settings(model: str, url: str, tmp_path: Path, postgres: PostgresServer) -> PayingSettings:
    watch_inbox(postgres, url)
    ledger = str(tmp_path / "ledger.db")
    return PayingSettings(journal=url, model=model, ledger=ledger, lease=LEASE, pay_seconds=0.3)


class Scene:
    """Some workers, of which one is disturbed while it drives turns.

    Args:
        settings: the settings of the workers.
        postgres: the server of the journal.
        folder: where they log.
    """

    def __init__(self, settings: PayingSettings, postgres: PostgresServer, folder: Path) -> None:
        self.settings = settings
        self.load = Load(settings, turns=TURNS, tenants=2, turns_of_session=2)
        self.cluster = WorkerCluster(settings, folder, 1)
        self._postgres = postgres

    async def rows(self, statement: str) -> list[tuple[object, ...]]:
        """Return what a statement gives."""
        return await asyncio.to_thread(self._postgres.rows, self.settings.journal, statement)

    async def disturb(
        self, workers: Sequence[WorkerProcess], act: Callable[[WorkerProcess], None]
    ) -> WorkerProcess:
        """Disturb the first of some workers that drives turns; return it when all turns are over."""
        await self.load.submit()
        drive = "SELECT worker FROM holdfast_inbox WHERE state = 'admitted'"
        victim = None
        while victim is None:
            await asyncio.sleep(0.02)
            driving = {worker for (worker,) in await self.rows(drive)}
            victim = next((worker for worker in workers if worker.id in driving), None)
        act(victim)
        await wait_until_over(self._postgres, self.settings.journal, TURNS, SECONDS)
        return victim

    async def check(self) -> None:
        """Check that all is as if nothing had happened."""
        changes = await asyncio.to_thread(read_changes, self._postgres, self.settings.journal)
        found = await check_load(self.load, changes, {})
        assert not found.problems, self.cluster.find_log()[-3000:]
        assert found.turns == TURNS

    async def drive_alone(self, worker: WorkerProcess) -> None:
        """Check that a worker that was disturbed works again: it drives further turns alone."""
        for other in [one for one in self.cluster.workers if one is not worker]:
            self.cluster.kill(other)
        more = Load(self.settings, turns=2, tenants=1, turns_of_session=2)
        more.orders = {("more", "s"): ["more/s/0", "more/s/1"]}
        await more.submit()
        await wait_until_over(self._postgres, self.settings.journal, TURNS + 2, SECONDS)


@pytest.fixture
def scene(settings: PayingSettings, postgres: PostgresServer, tmp_path: Path) -> Scene:
    return Scene(settings, postgres, tmp_path)


async def test_a_worker_that_was_stopped_past_its_lease_commits_nothing(scene: Scene) -> None:
    async with scene.cluster as cluster:
        await cluster.start_one().wait_until_begun()
        victim = await scene.disturb(cluster.workers, lambda one: one.send(signal.SIGSTOP))
        before = await scene.rows(COUNT_SAVED)
        victim.send(signal.SIGCONT)
        await asyncio.sleep(1.5)
        assert await scene.rows(COUNT_SAVED) == before
        await scene.check()
        await scene.drive_alone(victim)


async def test_a_worker_that_is_cut_off_commits_nothing(scene: Scene) -> None:
    port = scene.settings.journal.partition("127.0.0.1:")[2].partition("/")[0]
    async with scene.cluster as cluster, Proxy(int(port)) as proxy:
        behind = scene.settings.journal.replace(f":{port}/", f":{proxy.port}/")
        cluster.kill(cluster.workers[0])  # it would be faster than one behind a proxy
        victim = cluster.start_one(replace(scene.settings, journal=behind))
        await victim.wait_until_begun()

        def cut_off(_victim: WorkerProcess) -> None:
            proxy.is_down = True
            proxy.silence()
            cluster.start_one()

        await scene.disturb([victim], cut_off)
        await cluster.workers[-1].wait_until_begun()
        before = await scene.rows(COUNT_SAVED)
        proxy.up()
        proxy.cut()
        await asyncio.sleep(1.5)
        assert await scene.rows(COUNT_SAVED) == before
        await scene.check()
        await scene.drive_alone(victim)


async def test_clocks_that_jump_delay_and_double_nothing(scene: Scene, tmp_path: Path) -> None:
    async with scene.cluster as cluster:
        cluster.kill(cluster.workers[0])
        clocks = [tmp_path / "fast", tmp_path / "slow"]
        workers = [cluster.start_one(with_clock(scene.settings, clock, 0)) for clock in clocks]
        for worker in workers:
            await worker.wait_until_begun()

        def jump(driving: WorkerProcess) -> None:
            clocks[0].write_text("3600")
            clocks[1].write_text("-3600")
            driving.kill()  # its leases and its heartbeat end by the clock of the server

        await scene.disturb(workers, jump)
        await scene.check()
