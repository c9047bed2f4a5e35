"""Worker processes that a turn kills, and whoever starts them again, as a service manager does.

`python -m tests.worker.poison_worker '{"journal": ..., "model": ...}'` works until it is told to stop, or until a
turn ends it. A turn whose message is `poison KIND` calls a tool that does so.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct

from holdfast import Agent, PostgresJournal, tool
from holdfast.testing.emulator import EmulatedRequest, call
from holdfast.worker import QuarantineOptions, Worker

KINDS = ("exit", "kill", "memory", "block")
LEASE = 2.0
_MOST_BYTES = 400 * 2**20
_PROGRAM = [sys.executable, "-m", "tests.worker.poison_worker"]
_PAGE = os.sysconf("SC_PAGE_SIZE")


class PoisonSettings(Struct, frozen=True, kw_only=True):
    """What a worker is started with.

    Args:
        journal: the address of the journal.
        model: the address of the model.
        engine: the address of the engine; None for that of the journal.
    """

    journal: str
    model: str
    engine: str | None = None


def answer(request: EmulatedRequest) -> object:
    """The script of the model: it does what the message says, and says that it is done."""
    if request.iteration == 0 and request.text.startswith("poison"):
        return [call("swallow", {"kind": request.text.split()[1]})]
    if request.iteration == 0 and request.text.startswith("work"):
        return [call("work", {})]
    return "Done."


@tool(effect="read")
async def work() -> str:
    """Work for a while."""
    await asyncio.sleep(0.5)
    return "worked"


@tool(effect="read")
async def swallow(kind: str) -> str:
    """Swallow what ends the process."""
    if kind == "exit":
        os._exit(3)
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "memory":
        eaten = []
        while True:
            eaten.append(bytearray(os.urandom(1) * (16 * 2**20)))
            await asyncio.sleep(0)
    time.sleep(1000)  # noqa: ASYNC251  # REASON: it blocks the loop
    return "nothing"


def make_agent(settings: PoisonSettings) -> Agent[str]:
    """Make the agent."""
    return Agent(
        "openai:emulated-model",
        base_url=settings.model,
        api_key="none",
        name="taster",
        tools=[work, swallow],
        journal=PostgresJournal(settings.journal, lease=LEASE),
    )


def _kill_when_memory_is_used_up() -> None:
    """Do what the kernel does to a process that takes too much, without the rest of the machine in danger."""
    while True:
        if int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE > _MOST_BYTES:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.01)


async def _work(settings: PoisonSettings) -> None:
    threading.Thread(target=_kill_when_memory_is_used_up, daemon=True).start()
    quarantine = QuarantineOptions(drain_seconds=5.0)
    agent = make_agent(settings)
    async with Worker(agent, engine=settings.engine, parallel=8, quarantine=quarantine) as worker:
        await worker.run()


class Supervisor:
    """Keeps some workers running.

    Args:
        settings: what they are started with.
        log: the file of what they say.
        count: how many.
    """

    def __init__(self, settings: PoisonSettings, log: Path, count: int = 2) -> None:
        self._settings = settings
        self._log = log
        self._count = count
        self._processes: list[subprocess.Popen[bytes]] = []
        self.deaths: list[int] = []
        """The statuses of the workers that have died."""

    def _start(self) -> subprocess.Popen[bytes]:
        given = msgspec.json.encode(self._settings).decode()
        with self._log.open("ab") as log:
            return subprocess.Popen([*_PROGRAM, given], stdout=log, stderr=log)

    async def __aenter__(self) -> Self:
        self._processes = [self._start() for _ in range(self._count)]
        self._task = asyncio.create_task(self._replace_dead())
        return self

    async def _replace_dead(self) -> None:
        while True:
            for place, process in enumerate(self._processes):
                status = process.poll()
                if status is not None:
                    self.deaths.append(status)
                    self._processes[place] = self._start()
            await asyncio.sleep(0.02)

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        for process in self._processes:
            process.kill()
        statuses: Sequence[int] = [process.wait() for process in self._processes]
        del statuses


if __name__ == "__main__":
    asyncio.run(_work(msgspec.json.decode(sys.argv[1], type=PoisonSettings)))
