"""What visible pages of the console cost a service: `python -m benchmarks.console_tabs [SECONDS]`.

A service in a process of its own has 300 sessions, of which 50 wait for an answer. Three pages look at it:
by the stream of changes, as the console does, and by asking for the list and the questions every two
seconds, as it did before there was a stream. Each does so while nothing happens, and while ten sessions a
second change. It prints the requests of the pages, and the CPU time of the service; without a page it is
that of the changes alone.
"""

from __future__ import annotations

import asyncio
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import uvicorn

from holdfast import Agent, Reply, SqliteJournal, ToolCall, ToolPermission, tool
from holdfast.models import ModelRequest
from holdfast.server import AccessLimits, AccessOptions, create_app
from holdfast.testing import ScriptedModel

SECONDS, PAGES, CHANGES = 20.0, 3, 10
SESSIONS, WAITING = 300, 50
ROUNDS = 3
SECONDS_BETWEEN_POLLS = 2.0
TICK = 1e3 / os.sysconf("SC_CLK_TCK")


def reply(request: ModelRequest) -> Reply | str:
    """Ask for a payment if the message says so."""
    is_payment = request.messages[-1].text == "pay"
    return Reply((ToolCall("c1", "pay", "{}"),)) if is_payment else "Done."


@tool(effect="write")
async def pay() -> str:
    """Pay."""
    return "paid"


def serve(port: int, path: str) -> None:
    """Serve the sessions at a port of loopback."""
    model = ScriptedModel(*[reply] * 2 * SESSIONS)
    agent = Agent(model, name="clerk", tools=[pay], middleware=[ToolPermission(ask=["pay"])])
    limits = AccessLimits(requests_per_minute=10**6, turns_per_minute=10**6, waiting_turns=SESSIONS)
    app = create_app(agent, journal=SqliteJournal(path), access=AccessOptions(limits=limits))
    uvicorn.run(app, port=port, log_level="critical")


class Page:
    """A visible page, which counts its requests.

    Args:
        http: sends them.
        api: the address of the service.
    """

    def __init__(self, http: aiohttp.ClientSession, api: str) -> None:
        self._http, self._api = http, api
        self.requests = 0

    async def read(self) -> None:
        """Read the list and the questions."""
        for path in ("sessions?limit=100", "questions?limit=200"):
            self.requests += 1
            async with self._http.get(f"{self._api}/{path}") as response:
                await response.read()

    async def poll(self) -> None:
        """Ask again and again."""
        while True:
            await self.read()
            await asyncio.sleep(SECONDS_BETWEEN_POLLS)

    async def follow(self) -> None:
        """Follow the stream; the changes here ask nothing, so no question is read again."""
        self.requests += 1
        async with self._http.get(f"{self._api}/changes") as response:
            await self.read()
            async for _ in response.content:
                pass


@asynccontextmanager
async def looking(
    pages: list[Page], look: Callable[[Page], Awaitable[None]]
) -> AsyncIterator[None]:
    """Let the pages look during the block."""
    tasks = [asyncio.ensure_future(look(page)) for page in pages]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Service:
    """The service that is measured.

    Args:
        http: sends requests.
        api: its address.
        process: its process.
    """

    def __init__(self, http: aiohttp.ClientSession, api: str, process: int) -> None:
        self._http, self.api, self._process = http, api, process

    async def send(self, method: str, path: str, body: dict[str, Any]) -> None:
        """Send a request."""
        kind = {"Content-Type": "application/json"}
        data = msgspec.json.encode(body)
        url = f"{self.api}/{path}"
        async with self._http.request(method, url, data=data, headers=kind) as response:
            response.raise_for_status()

    async def fill(self) -> None:
        """Make the sessions."""
        for number in range(SESSIONS):
            message = "pay" if number < WAITING else "hello"
            body = {"agent": "clerk", "message": message, "session": f"s{number}", "wait": 20}
            await self.send("POST", "turns", body)

    def read_cpu(self) -> float:
        """Return the milliseconds of CPU that it has used."""
        fields = Path(f"/proc/{self._process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * TICK

    async def measure(self, seconds: float, *, changes: bool) -> float:
        """Return the milliseconds of CPU that it uses in some seconds."""
        begun, end = self.read_cpu(), time.monotonic() + seconds
        number = 0
        while changes and time.monotonic() < end:
            number += 1
            title = {"title": f"Title {number}"}
            await self.send("PATCH", f"sessions/s{WAITING + number % 200}", title)
            await asyncio.sleep(1 / CHANGES)
        await asyncio.sleep(max(0.0, end - time.monotonic()))
        return self.read_cpu() - begun


async def compare(service: Service, http: aiohttp.ClientSession, seconds: float) -> None:
    """Print what the pages cost: medians of some rounds, as other programs use the machine too."""
    for changes in (False, True):
        used: dict[str, list[float]] = {"nobody": [], "poll": [], "follow": []}
        counts: dict[str, int] = {"nobody": 0}
        for _ in range(ROUNDS):
            used["nobody"].append(await service.measure(seconds, changes=changes))
            for look in (Page.poll, Page.follow):
                pages = [Page(http, service.api) for _ in range(PAGES)]
                async with looking(pages, look):
                    used[look.__name__].append(await service.measure(seconds, changes=changes))
                counts[look.__name__] = sum(page.requests for page in pages)
        print(f"{CHANGES} changes a second" if changes else "nothing happens")
        for name, spent in used.items():
            cpu = statistics.median(spent)
            print(f"  {name:6}: {counts[name]:3} requests, {cpu:4.0f} ms of CPU in {seconds:g} s")


@contextmanager
def start_service(path: Path) -> Iterator[tuple[int, int]]:
    """Start a service; yield its port and the id of its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [sys.executable, "-m", "benchmarks.console_tabs", "serve", str(port), str(path)]
    process = subprocess.Popen(command)
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                time.sleep(0.05)
            else:
                break
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


async def main(seconds: float = SECONDS) -> None:
    """Serve, fill and compare."""
    with (
        tempfile.TemporaryDirectory() as folder,
        start_service(Path(folder) / "talk.db") as (port, process),
    ):
        async with aiohttp.ClientSession() as http:
            service = Service(http, f"http://127.0.0.1:{port}/api/v1", process)
            await service.fill()
            await compare(service, http, seconds)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(int(sys.argv[2]), sys.argv[3])
    else:
        asyncio.run(main(*map(float, sys.argv[1:])))
