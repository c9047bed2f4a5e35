"""A service that drives the turns of its queue is not ready when nothing brings them to it any more."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.server.live_server import serve

from holdfast import Agent
from holdfast.server import QueueOptions, create_app
from holdfast.testing import ScriptedModel


async def test_readiness_asks_the_worker(tmp_path: Path) -> None:
    agent = Agent(ScriptedModel("Hello."), name="greeter")
    journal = f"sqlite:///{tmp_path / 'talk.db'}"
    app = create_app(agent, journal=journal, queue=QueueOptions(parallel=1))
    async with serve(app) as server:
        assert (await server.request("GET", "/ready")).json() == {"status": "ready"}
        tasks = {task.get_name(): task for task in asyncio.all_tasks()}
        delivery = tasks["holdfast-delivery"]
        delivery.cancel()
        await asyncio.wait([delivery])
        app.state.access.readiness._at = float("-inf")  # ask again at once
        answer = await server.request("GET", "/ready")
        assert answer.status == 503
        assert answer.json()["problems"] == {"worker": "does not work: EngineError"}
