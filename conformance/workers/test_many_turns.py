"""The long form of killed workers and servers: `./run conformance --full` sends 2,000 turns of 20 tenants."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.nats_server import NatsServer
from tests.postgres_server import PostgresServer
from tests.worker.paying_worker import PayingSettings
from tests.worker.test_disturbed_workers import Disturber, model, set_caps, setting
from tests.worker.worker_cluster import Load, WorkerCluster

__all__ = ["model", "setting"]

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not os.environ.get("HOLDFAST_FULL"), reason="takes minutes: --full"),
]

TURNS = int(os.environ.get("HOLDFAST_QUEUED_TURNS", "2000"))


async def test_two_thousand_turns_survive_kills_restarts_and_lost_queues(
    setting: tuple[PayingSettings, NatsServer | None],  # REASON: the fixture
    postgres: PostgresServer,
    tmp_path: Path,
) -> None:
    settings, nats = setting
    await set_caps(settings.journal)
    load = Load(settings, turns=TURNS, tenants=20, turns_of_session=5)
    async with WorkerCluster(settings, tmp_path, 4) as cluster:
        disturber = Disturber(load, cluster, postgres, nats)
        empty, restart = disturber.empty_queue, disturber.restart_servers
        killing = asyncio.create_task(cluster.kill_regularly(2.0, disturber.rng))
        await disturber.run([empty, restart, empty, restart, empty])
        killing.cancel()
        await asyncio.wait([killing])
        found = await disturber.check()
        print(f"{settings.engine or 'postgres'}: {found}, {cluster.kills} kills")
        assert not found.problems, cluster.find_log()[-3000:]
        assert found.turns == load.turns
        assert cluster.kills > TURNS // 100
