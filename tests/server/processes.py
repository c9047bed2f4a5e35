"""Real processes that serve the note agent, and clients that come back until their turn has ended."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self

import aiohttp
import msgspec
from tests.free_ports import free_port
from tests.server.note_agent import final_text

_WAIT = aiohttp.ClientTimeout(total=None, sock_connect=5)
GONE = (aiohttp.ClientError, OSError, asyncio.IncompleteReadError)


class ServedProcess:
    """A process that serves the note agent at one port, and can be killed and started again.

    Args:
        journal: the address of the journal.
        model_url: the address of the model.
        folder: where the writing tool notes that it ran.
        seconds: how long the writing tool takes.
        grace: how long it is waited for when the process is told to stop.
    """

    module = "tests.server.note_agent"
    """The program that serves."""

    def __init__(
        self,
        journal: str,
        model_url: str,
        folder: Path,
        *,
        seconds: float = 0.05,
        grace: float = 30.0,
    ) -> None:
        self.port = free_port()
        self._arguments = [journal, str(self.port), model_url, str(folder)]
        self._arguments += [str(seconds), str(grace)]
        self._process: subprocess.Popen[bytes] | None = None
        self.program = ["-m", self.module]
        self.later = 0.0
        """By how many seconds its clock is ahead from its next start on."""

    @property
    def api(self) -> str:
        """The address of its API."""
        return f"http://127.0.0.1:{self.port}/api/v1"

    def start(self) -> Self:
        """Start it, and wait until it listens."""
        command = [sys.executable, *self.program, *self._arguments]
        environment = {**os.environ, "HOLDFAST_LATER": str(self.later)}
        self._process = subprocess.Popen(command, env=environment)
        end = time.monotonic() + 90
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                if self._process.poll() is not None or time.monotonic() > end:
                    raise
                time.sleep(0.02)
            else:
                return self

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        os.kill(self._process.pid, number)

    async def wait(self, seconds: float = 30) -> int:
        """Wait until it has ended; return its exit code."""
        assert self._process is not None
        return await asyncio.to_thread(self._process.wait, seconds)

    async def kill(self) -> None:
        """End it at once, as a loss of power does."""
        self.send(signal.SIGKILL)
        await self.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class Client:
    """One client of one turn, which comes back with its position until the turn has ended.

    Args:
        apis: the addresses of the servers; each connection goes to the next one.
        session: the session.
        message: the message.
    """

    def __init__(self, apis: list[str], session: str, message: str) -> None:
        self._apis = apis
        self.connections = 0
        self._open: aiohttp.ClientResponse | None = None
        self.session = session
        self.message = message
        self.shown = ""
        """The text of the reply in progress, by the rule of `TextItem`."""
        self.replies: list[str] = []
        """The text that was shown of each reply when it was saved."""
        self.sequences: list[int] = []
        self.position = ""
        self.status = ""
        self.error: object = None
        self.ends: list[str] = []
        self.has_text = asyncio.Event()
        self.has_ended = asyncio.Event()

    def drop(self) -> None:
        """Lose the connection."""
        if self._open is not None:
            self._open.close()

    def _next_api(self) -> str:
        self.connections += 1
        return self._apis[self.connections % len(self._apis)]

    async def run(self) -> None:
        """Start the turn, and read it to its end."""
        async with aiohttp.ClientSession(timeout=_WAIT) as http:
            while not await self._start(http):
                await asyncio.sleep(0.05)
            while not self.has_ended.is_set():
                try:
                    await self._read(http)
                except GONE:
                    await asyncio.sleep(0.05)

    async def _start(self, http: aiohttp.ClientSession) -> bool:
        body = {"agent": "noter", "message": self.message, "session": self.session}
        headers = {"Idempotency-Key": f"key-{self.session}"}
        try:
            async with http.post(f"{self._next_api()}/turns", json=body, headers=headers) as answer:
                return answer.status in (200, 202)
        except GONE:
            return False

    async def _read(self, http: aiohttp.ClientSession) -> None:
        headers = {"Last-Event-ID": self.position} if self.position else {}
        url = f"{self._next_api()}/sessions/{self.session}/events"
        async with http.get(url, headers=headers) as answer:
            answer.raise_for_status()
            self._open = answer
            async for position, item in read_events(answer.content):
                if position:
                    self.position = position
                self._take(item)
                if self.has_ended.is_set():
                    return

    def _take(self, item: dict[str, object]) -> None:
        kind = item["type"]
        if kind == "text":
            self.shown = self.shown[: int(str(item["offset"]))] + str(item["text"])
            self.has_text.set()
        elif kind == "withdrawn":
            self.shown = ""
        elif kind == "event":
            self._take_event(item)
        elif kind == "status":
            self.status = str(item["status"])
        elif kind == "end":
            self.ends.append(str(item["reason"]))

    def _take_event(self, item: dict[str, object]) -> None:
        event = item["event"]
        assert isinstance(event, dict)
        self.sequences.append(int(str(item["sequence"])))
        if event["type"] == "model_replied":
            self.replies.append(self.shown)
            self.shown = ""
        elif event["type"] == "turn_closed":
            self.status, self.error = event["status"], event.get("error")
            self.has_ended.set()

    def check(self) -> None:
        """Check that everything was shown once and exactly."""
        seen = (self.session, self.status, self.error, self.replies, self.sequences)
        assert self.status == "completed", seen
        assert self.replies[-1] == final_text(self.message), seen
        assert self.replies[0] == f"I save {self.message}.", seen
        assert self.shown == "", seen
        assert self.sequences == list(range(1, len(self.sequences) + 1)), seen


async def read_events(
    content: aiohttp.StreamReader,
) -> AsyncIterator[tuple[str, dict[str, object]]]:
    """Yield the id and the data of the events of a stream."""
    position, data = "", b""
    async for line in content:
        if line.startswith(b"id: "):
            position = line[4:].strip().decode()
        elif line.startswith(b"data: "):
            data = line[6:]
        elif not line.strip() and data:
            yield position, msgspec.json.decode(data)
            position, data = "", b""
