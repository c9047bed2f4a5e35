"""Measures a service in one run: CPU beside the same turn in process, memory, delay and replay.

`python -m benchmarks.service [--quick]`. The figures of one run are ratios: the machine is the same for all sides.
The applications of others are measured if `./run bench --peers` has installed them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import aiohttp

from benchmarks.server import serve_apart
from benchmarks.service.peers import SERVED
from benchmarks.service.served import EMITTED, QUESTION

PEERS = Path(__file__).parents[1] / "peers" / ".venv" / "bin" / "python"
_ROUNDS = 5
_CPU_ROUNDS = 3
_TICKS = os.sysconf("SC_CLK_TCK")


class Measured:
    """A process that is measured.

    Args:
        kind: what it does.
        url: the model.
        is_peer: whether it is an application of others.
    """

    def __init__(self, kind: str, url: str, *, is_peer: bool = False) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        python, module = (PEERS, "peers") if is_peer else (sys.executable, "served")
        command = [python, "-m", f"benchmarks.service.{module}", kind, url, str(self.port)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    @property
    def base(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def cpu_seconds(self) -> float:
        """The CPU time that it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def resident_bytes(self) -> int:
        """The memory that it holds."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(status.partition("VmRSS:")[2].split()[0])

    def run_turns(self, name: str, count: int) -> float:
        """Let it run turns in process; return its CPU seconds."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{name} {count}\n".encode())
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    async def wait_until_it_serves(self) -> None:
        """Wait until it listens."""
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


@contextlib.contextmanager
def measured(kind: str, url: str, *, is_peer: bool = False) -> Iterator[Measured]:
    """Start a process, and end it after the block."""
    process = Measured(kind, url, is_peer=is_peer)
    try:
        yield process
    finally:
        process.process.kill()
        process.process.wait()


async def cpu_of(process: Measured, count: int, ask: Callable[[], Awaitable[None]]) -> float:
    """The CPU seconds of one request, after some requests to warm up."""
    for _ in range(min(5, count)):
        await ask()
    before = process.cpu_seconds()
    for _ in range(count):
        await ask()
    return (process.cpu_seconds() - before) / count


def holdfast_turn(
    http: aiohttp.ClientSession, base: str, name: str
) -> Callable[[], Awaitable[None]]:
    """A turn through the service, as a stream."""

    async def ask() -> None:
        body = {"agent": name, "message": QUESTION}
        headers = {"Accept": "text/event-stream"}
        async with http.post(f"{base}/api/v1/turns", json=body, headers=headers) as response:
            assert b"turn_closed" in await response.read()

    return ask


def peer_turn(
    http: aiohttp.ClientSession, base: str, kind: str, name: str
) -> Callable[[], Awaitable[None]]:
    """The same turn through the application of others, as a stream in a session of its own."""
    numbers = itertools.count()

    async def ask() -> None:
        path, body, end = make_peer_request(kind, name, next(numbers))
        headers = {"Accept": "text/event-stream"}
        async with http.post(f"{base}{path}", json=body, headers=headers) as response:
            assert end in await response.read()

    return ask


def make_peer_request(kind: str, name: str, number: int) -> tuple[str, object, bytes]:
    """Return the path and the body of a turn, and what its stream contains at the end."""
    part = {"type": "text", "text": QUESTION}
    if "Vercel" in kind:
        message = {"id": "m", "role": "user", "parts": [part]}
        return (
            f"/{name}",
            {"id": "c", "trigger": "submit-message", "messages": [message]},
            b"finish",
        )
    if "AG-UI" in kind:
        said = {"id": "m", "role": "user", "content": QUESTION}
        empty = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
        body = {"threadId": f"s{number}", "runId": "r", "messages": [said], **empty}
        return f"/{name}", body, b"RUN_FINISHED"
    new = {"role": "user", "parts": [{"text": QUESTION}]}
    named = {"appName": name, "userId": "u", "sessionId": f"s{number}"}
    return "/run_sse", {**named, "newMessage": new, "streaming": True}, b"candidatesTokenCount"


async def measure_cpu(url: str, http: aiohttp.ClientSession, count: int) -> None:
    """Print the CPU of a turn and of a delta: in process, through the service, through others."""
    kinds = tuple(SERVED) if PEERS.exists() else ()
    if not kinds:
        print("the applications of others are not installed: ./run bench --peers")
    with contextlib.ExitStack() as started:
        plain = started.enter_context(measured("in-process", url))
        ours = started.enter_context(measured("holdfast", url))
        others = [started.enter_context(measured(kind, url, is_peer=True)) for kind in kinds]
        for process in (ours, *others):
            await process.wait_until_it_serves()
        for name, unit, per in (("turn", "turn", 1), ("deltas", "delta", 2000)):
            times = max(5, count // (10 if per > 1 else 1))
            plain.run_turns(name, 5)
            rounds = []
            for _ in range(_CPU_ROUNDS):
                found = [plain.run_turns(name, times) / times]
                found.append(await cpu_of(ours, times, holdfast_turn(http, ours.base, name)))
                for kind, other in zip(kinds, others, strict=True):
                    ask = peer_turn(http, other.base, kind, name)
                    found.append(await cpu_of(other, max(2, times // 10), ask))
                rounds.append(found)
            # Other work on the machine only adds to a time.
            best = [min(seconds) / per for seconds in zip(*rounds, strict=True)]
            named = ("in process", "service", *kinds)
            print(f"one {unit}: " + "; ".join(map(describe, named, best, [best[0]] * len(best))))


def describe(name: str, seconds: float, alone: float) -> str:
    """Write a time, and how often that in process is in it."""
    return f"{name} {seconds * 1e6:.0f} us = {seconds / alone:.2f} times"


async def start_clock(http: aiohttp.ClientSession, base: str, session: str) -> None:
    """Start a run that tells the time."""
    body = {"agent": "clock", "message": "Tell.", "session": session}
    async with http.post(f"{base}/api/v1/turns", json=body) as response:
        assert response.status in {200, 202}, await response.text()


async def read_items(
    http: aiohttp.ClientSession, base: str, session: str
) -> AsyncIterator[dict[str, object]]:
    """Yield the items of a session until its turn has ended."""
    url = f"{base}/api/v1/sessions/{session}/events?until=turn_end"
    async with http.get(url) as response:
        async for line in response.content:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


async def measure_readers(url: str, http: aiohttp.ClientSession, idle: int, readers: int) -> None:
    """Print the memory of idle subscribers, and the delay of readers of live runs beside them."""
    with measured("holdfast", url) as ours:
        await ours.wait_until_it_serves()
        await holdfast_turn(http, ours.base, "turn")()
        await start_clock(http, ours.base, "first")
        before = ours.resident_bytes()
        path = f"{ours.base}/api/v1/sessions/first/events"
        streams = [await http.get(path) for _ in range(idle)]
        for stream in streams:
            await stream.content.readline()
        await asyncio.sleep(6)  # the turn ends, and the streams stay
        taken = ours.resident_bytes() - before
        print(f"{idle} idle subscribers: {taken / idle / 1024:.1f} KB each")
        cpu = ours.cpu_seconds()
        await asyncio.sleep(2)
        print(f"{idle} idle subscribers: {(ours.cpu_seconds() - cpu) / 2:.1%} of a core")
        runs = max(1, readers // 10)
        for number in range(runs):
            await start_clock(http, ours.base, f"s{number}")
        begun = asyncio.Barrier(readers)
        late = await asyncio.gather(
            *[
                measure_delay(read_items(http, ours.base, f"s{number % runs}"), begun)
                for number in range(readers)
            ]
        )
        worst = sorted(max(delays) for delays in late)
        print(
            f"{readers} readers of {runs} live runs: the worst {1000 * worst[-1]:.0f} ms behind,"
            f" half of them at most {1000 * statistics.median(worst):.0f} ms"
        )
        for stream in streams:
            stream.close()


async def measure_delay(
    items: AsyncIterator[dict[str, object]], begun: asyncio.Barrier
) -> list[float]:
    """How late each notice of a run came, in seconds, once all readers have begun."""
    await anext(items)
    await begun.wait()
    began, delays = time.monotonic(), []
    async for item in items:
        fields = item.get("fields")
        if item.get("name") == "clock_told" and isinstance(fields, dict):
            told = float(fields["seconds"])
            if told > began:
                delays.append(time.monotonic() - told)
    assert len(delays) > EMITTED / 2
    return delays


async def measure_replay(url: str, http: aiohttp.ClientSession, events: int) -> None:
    """Print how long a client takes to read a long session from its beginning."""
    with measured("holdfast", url) as ours:
        await ours.wait_until_it_serves()
        body = {"agent": "turn", "message": QUESTION, "session": "long", "wait": 10}
        for _ in range(events // 3):  # opened, replied, closed
            async with http.post(f"{ours.base}/api/v1/turns", json=body) as response:
                assert response.status == 200, await response.text()
        taken, count = [], 0
        for _ in range(_ROUNDS):
            began = time.monotonic()
            path = f"{ours.base}/api/v1/sessions/long/events?until=turn_end"
            async with http.get(path) as response:
                count = (await response.read()).count(b"event: event")
            taken.append(time.monotonic() - began)
        print(f"replay of {count} events: {1000 * min(taken):.0f} ms")


async def measure(url: str, *, quick: bool) -> None:
    """Measure everything."""
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=2)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as http:
        await measure_cpu(url, http, 50 if quick else 200)
        await measure_readers(url, http, 500 if quick else 2000, 50 if quick else 200)
        await measure_replay(url, http, 1500 if quick else 5000)


def main() -> None:
    """Measure a service."""
    parser = argparse.ArgumentParser(prog="benchmarks.service")
    parser.add_argument("--quick", action="store_true", help="fewer samples, for a first look")
    options = parser.parse_args()
    with serve_apart() as url:
        asyncio.run(measure(url, quick=options.quick))


if __name__ == "__main__":
    main()
