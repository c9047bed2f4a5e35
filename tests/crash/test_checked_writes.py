"""A write with a check happens exactly once, wherever its process is killed."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from tests.crash.checked_write_process import SETTLE

from holdfast import SqliteJournal
from holdfast.core.events import ToolFinished, TurnClosed

pytestmark = pytest.mark.slow  # kills processes

ROOT = Path(__file__).parents[2]


class Party:
    """Takes payments, each some time after its request has come, also when its client is gone by then.

    Args:
        rng: draws the times.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.paid: list[str] = []
        self.requests = 0
        self.came = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def take(self, request: web.Request) -> web.Response:
        self.requests += 1
        self.came.set()
        task = asyncio.create_task(self._land(request.query["key"]))
        self._tasks.add(task)
        await asyncio.shield(task)
        return web.Response()

    async def _land(self, key: str) -> None:
        await asyncio.sleep(self._rng.uniform(0, 0.3) * SETTLE)
        self.paid.append(key)

    async def find(self, request: web.Request) -> web.Response:
        return web.Response(status=200 if request.query["key"] in self.paid else 404)

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        app = web.Application()
        app.add_routes([web.post("/payments", self.take), web.get("/payments", self.find)])
        runner = web.AppRunner(app, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await asyncio.gather(*self._tasks)
            await runner.cleanup()


async def start(path: Path, address: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.crash.checked_write_process", str(path), address),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )


async def pay_through_kills(folder: Path, seed: int) -> None:
    """Kill the process that pays up to twice, each time within half a second of its first request."""
    rng, path = random.Random(seed), folder / f"{seed}.db"
    party = Party(rng)
    async with party.serve() as address:
        for _ in range(rng.choice([1, 1, 2])):
            process = await start(path, address)
            ended = asyncio.create_task(process.wait())
            came = asyncio.create_task(party.came.wait())
            await asyncio.wait([ended, came], return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(rng.uniform(0, 0.5))
            if process.returncode is None:
                process.kill()
            await ended
            party.came.clear()
            came.cancel()
        process = await start(path, address)
        await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0
    with SqliteJournal(path) as journal:
        events = [record.event for record in await journal.read("ada")]
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    assert isinstance(events[-1], TurnClosed)
    assert (finished.result.text, finished.result.in_doubt) == ("paid", False)
    assert len(party.paid) == 1


async def test_a_write_happens_once_through_kills(tmp_path: Path) -> None:
    for seed in (0, 3):
        await asyncio.gather(*[pay_through_kills(tmp_path, seed + one) for one in range(3)])
