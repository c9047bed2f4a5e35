"""Where the play takes place: the service as a process that is killed, and the parents."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from msgspec import Struct

from registration.parties import Parties, ServiceProcess
from registration.play.checks import count_jobs
from registration.play.children import list_children
from registration.play.page import Page, StuckError
from registration.play.parent import Parent
from registration.play.trouble import PATIENCE
from registration.store import Database

_TURNS = 24  # of a registration, about
_SETTLE_SECONDS = 240.0
_LOOK_EVERY = 0.02


class Play(Struct, frozen=True, kw_only=True):
    """The settings of a play.

    Args:
        children: how many children are registered, at most ten.
        kills: how often the service is killed: 0, 1 or 2.
        share: which share of the requests to each party fails, from 0 to 1.
        seed: of the faults.
        journal: the URL of a PostgreSQL database; None for SQLite files.
    """

    children: int = 10
    kills: int = 2
    share: float = 0.3
    seed: int = 1
    journal: str | None = None


class Stage:
    """The service, and the parents at their pages.

    Args:
        play: the play.
        parties: everything outside of the service.
        service: the process of the service.
        address: of the service.
    """

    def __init__(self, play: Play, parties: Parties, service: ServiceProcess, address: str) -> None:
        self._play = play
        self.parties = parties
        self._service = service
        self._address = address
        self._began = time.monotonic()
        self.counts: Counter[str] = Counter()
        self.parents: list[Parent] = []
        self.stuck: list[str] = []
        self.kills = 0

    async def perform(self) -> None:
        """Let all parents register their children at once, and kill the service meanwhile."""
        play = self._play
        self.say(
            f"{play.children} parents begin; {play.share:.0%} of the requests to each party fail (seed {play.seed})"
        )
        async with aiohttp.ClientSession() as http:
            for place, child in enumerate(list_children(self.parties.season, self._play.children)):
                page = Page(http, self._address, self.counts)
                parent = Parent(child, place, page, lambda: self.parties.providers.sms.inbox)
                self.parents.append(parent)
            killer = asyncio.create_task(self._kill_and_restart())
            await asyncio.gather(*(self._register(parent) for parent in self.parents))
            await killer

    async def settle(self, database: Database) -> None:
        """Wait until every webhook was taken, and every job is done."""
        try:
            async with asyncio.timeout(_SETTLE_SECONDS):
                await self.parties.providers.payments.wait_delivered(_SETTLE_SECONDS)
                jobs = await database.read(count_jobs)
                while jobs.left:
                    await asyncio.sleep(0.2)
                    jobs = await database.read(count_jobs)
        except TimeoutError:
            self.stuck.append("a webhook or a job is left over")

    async def _register(self, parent: Parent) -> None:
        number = self.parents.index(parent) + 1
        try:
            await parent.register()
        except StuckError as error:
            self.stuck.append(f"parent {number}: {error}")
            self.say(f"parent {number} gave up: {error}")
        else:
            self.say(f"parent {number} has finished")

    async def _kill_and_restart(self) -> None:
        requests = self.parties.providers.payments
        moments: tuple[tuple[str, Callable[[], bool]], ...] = (
            (
                "in the middle of the chats",
                lambda: self.counts["messages answered"] >= _TURNS * len(self.parents) // 3,
            ),
            (
                "while payments are asked for",
                lambda: len(requests.requests) > len(self.parents) // 2,
            ),
        )
        for name, has_come in moments[len(moments) - self._play.kills :]:
            while not has_come():
                if len(self.stuck) == len(self.parents):
                    return
                await asyncio.sleep(_LOOK_EVERY)
            await self._service.kill()
            self.kills += 1
            self.say(f"the service was killed {name}")
            await self._service.start()
            self.say("the service answers again")

    def say(self, text: str) -> None:
        """Print an event."""
        print(f"{time.monotonic() - self._began:6.1f} s  {text}", flush=True)


@asynccontextmanager
async def open_stage(play: Play, parties: Parties, port: int, folder: Path) -> AsyncIterator[Stage]:
    """Start the service, and end it after the play."""
    quick = {**PATIENCE, "REGISTRATION_JOB_WAIT_SECONDS": "1"}
    service = ServiceProcess({**parties.environment, **quick}, port, log=folder / "service.log")
    try:
        await service.start()
        yield Stage(play, parties, service, f"http://127.0.0.1:{port}")
    finally:
        await service.stop()
