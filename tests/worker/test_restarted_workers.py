"""Workers are told to stop one after another under load, and others begin: no effect is repeated."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.postgres_server import PostgresServer
from tests.worker.paying_worker import Ledger, PayingSettings
from tests.worker.worker_cluster import (
    Load,
    WorkerCluster,
    check_load,
    find_waits,
    read_changes,
    serve_model,
    wait_until_over,
    watch_inbox,
)

pytestmark = pytest.mark.anyio

IS_FULL = bool(os.environ.get("HOLDFAST_FULL"))
WORKERS, TURNS = (4, 400) if IS_FULL else (2, 40)
MOST_SECONDS = 3.0 if IS_FULL else 10.0


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with serve_model(0.2) as url:
        yield url


async def test_a_rolling_restart_repeats_no_effect_and_delays_turns_little(
    model: str, url: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    await asyncio.to_thread(watch_inbox, postgres, url)
    settings = PayingSettings(
        journal=url, model=model, ledger=str(tmp_path / "ledger.db"), lease=20.0, pay_seconds=0.3
    )
    load = Load(settings, turns=TURNS, tenants=4, turns_of_session=2)
    stops: list[tuple[str, int, float, float]] = []
    async with WorkerCluster(settings, tmp_path, WORKERS) as cluster:
        submitting = asyncio.create_task(load.submit())
        for number, old in enumerate(list(cluster.workers), 1):
            await cluster.start_one().wait_until_begun()
            share = TURNS * number // (WORKERS + 2)
            await wait_until_over(postgres, url, share, 200)
            stops.append((old.id, old.pid, time.time(), time.monotonic()))
            assert await cluster.stop(old) == 0, cluster.find_log()[-3000:]
        await submitting
        await wait_until_over(postgres, url, TURNS, 200)
    changes = await asyncio.to_thread(read_changes, postgres, url)
    found = await check_load(load, changes, {})
    assert not found.problems
    assert (found.turns, found.in_doubt) == (TURNS, 0)
    payments = Ledger(tmp_path / "ledger.db").read("pay")
    waits: list[float] = []
    for worker, process, at, began in stops:
        running = {
            deed.order
            for deed in payments
            if deed.process == process and deed.began < began < (deed.ended or 0)
        }
        waits += find_waits(changes, worker, at, running)
    print(
        f"{len(waits)} turns were handed over, after at most {max(waits, default=0.0):.2f} s", found
    )
    assert max(waits, default=0.0) <= MOST_SECONDS
