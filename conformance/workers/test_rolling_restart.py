"""Workers are told to stop one after another under load, and others begin: no effect is repeated.

How long a turn waits for its next worker depends on the machine. So it is compared with how long a turn takes
in the same run, which is 1.5 seconds on a quiet machine: two such times are 3 seconds there. `--full` restarts four
workers with 400 turns.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest
from msgspec import Struct
from tests.postgres_server import PostgresServer
from tests.worker.paying_worker import Deed, Ledger, PayingSettings
from tests.worker.worker_cluster import (
    Change,
    Load,
    WorkerCluster,
    check_load,
    find_durations,
    find_waits,
    read_changes,
    serve_model,
    wait_until_over,
    watch_inbox,
)

pytestmark = pytest.mark.anyio

IS_FULL = bool(os.environ.get("HOLDFAST_FULL"))
WORKERS, TURNS = (4, 400) if IS_FULL else (2, 40)
MOST_TURNS = 2.0


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with serve_model(0.2) as url:
        yield url


class Stop(Struct, frozen=True):
    """A worker that was told to stop.

    Args:
        worker: its id.
        process: the number of its process.
        at: when it was told, by the clock of the server.
        began: the same by the clock of the ledger.
        ended: when its process had ended, by the clock of the server.
    """

    worker: str
    process: int
    at: float
    began: float
    ended: float

    def find_running(self, deeds: Sequence[Deed]) -> set[str]:
        """Return the orders that it was paying then."""
        return {
            deed.order
            for deed in deeds
            if deed.process == self.process and deed.began < self.began < (deed.ended or 0)
        }

    def find_kept(self, changes: Sequence[Change]) -> list[int]:
        """Return the turns that it had when its process ended, which others then wait for a lease for."""
        owners = {change.entry: change.owner for change in changes if change.at <= self.ended}
        states = {change.entry: change.after for change in changes if change.at <= self.ended}
        return [
            entry
            for entry, owner in owners.items()
            if owner == self.worker and states[entry] == "admitted"
        ]


async def restart_all(cluster: WorkerCluster, wait: Callable[[int], Awaitable[None]]) -> list[Stop]:
    """Start a worker and stop an old one, until all are new; wait for more and more turns between."""
    stops: list[Stop] = []
    for number, old in enumerate(list(cluster.workers), 1):
        await cluster.start_one().wait_until_begun()
        await wait(TURNS * number // (WORKERS + 2))
        at, began = time.time(), time.monotonic()
        assert await cluster.stop(old) == 0, cluster.find_log()[-3000:]
        stops.append(Stop(old.id, old.pid, at, began, time.time()))
    return stops


async def test_a_rolling_restart_repeats_no_effect_and_delays_turns_little(
    model: str, url: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    await asyncio.to_thread(watch_inbox, postgres, url)
    settings = PayingSettings(
        journal=url, model=model, ledger=str(tmp_path / "ledger.db"), lease=20.0, pay_seconds=0.3
    )
    load = Load(settings, turns=TURNS, tenants=4, turns_of_session=2)

    async def wait(turns: int) -> None:
        await wait_until_over(postgres, url, turns, 200)

    async with WorkerCluster(settings, tmp_path, WORKERS) as cluster, asyncio.TaskGroup() as group:
        group.create_task(load.submit())
        stops = await restart_all(cluster, wait)
        await wait(TURNS)
    changes = await asyncio.to_thread(read_changes, postgres, url)
    found = await check_load(load, changes, {})
    assert not found.problems
    assert (found.turns, found.in_doubt) == (TURNS, 0)
    assert not [stop for stop in stops if stop.find_kept(changes)]
    payments = Ledger(tmp_path / "ledger.db").read("pay")
    waits = [
        wait
        for stop in stops
        for wait in find_waits(changes, stop.worker, stop.at, stop.find_running(payments))
    ]
    longest, one_turn = max(waits, default=0.0), statistics.median(find_durations(changes))
    print(f"{len(waits)} turns were handed over, after at most {longest:.2f} s", found)
    print(f"a turn takes {one_turn:.2f} s, the longest wait {longest / one_turn:.2f} of that")
    assert longest <= MOST_TURNS * one_turn
