"""The commands as processes of their own, as a person starts them."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from tests.free_ports import free_port

_SECONDS = 60


class Started:
    """A command that was started.

    Args:
        process: its process.
        address: where the service is.
        text: what it printed.
    """

    def __init__(self, process: asyncio.subprocess.Process, address: str, text: str) -> None:
        self.process = process
        self.address = address
        self.text = text

    async def end(self, number: signal.Signals = signal.SIGINT, seconds: float = 60.0) -> int:
        """Send a signal to the process; return its exit status."""
        self.process.send_signal(number)
        return await asyncio.wait_for(self.process.wait(), seconds)

    def find_code(self) -> str:
        """Return the first code to type."""
        found = re.search(r"200-lions-u10-\d{4}", self.text)
        assert found is not None, self.text
        return found[0]


@asynccontextmanager
async def start_demo(folder: Path, *arguments: str) -> AsyncIterator[Started]:
    """Start the demo, and read what it prints until it is ready."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "registration", "demo"),
        *("--folder", str(folder), "--port", str(port), *arguments),
        stdout=subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if name[:13] != "REGISTRATION_"},
    )
    assert process.stdout is not None
    text = ""
    try:
        async with asyncio.timeout(_SECONDS):
            while "Ctrl-C" not in text:
                line = await process.stdout.readline()
                assert line, f"it ended: {text}"
                text += line.decode()
        yield Started(process, f"http://127.0.0.1:{port}", text)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


class Parent:
    """A parent at a page of the service.

    Args:
        http: sends the requests.
        address: of the service.
    """

    def __init__(self, http: aiohttp.ClientSession, address: str) -> None:
        self._http = http
        self.address = address
        self._session: dict[str, str] = {}

    async def begin(self) -> None:
        """Begin a conversation."""
        async with self._http.post(f"{self.address}/sessions", json={}) as response:
            assert response.status == 201
            self._session = await response.json()

    async def say(self, text: str) -> int | None:
        """Send a message; return the step that is asked then."""
        body = {"user_message": text, "session_id": self._session["session_id"]}
        headers = {"Authorization": f"Bearer {self._session['token']}"}
        async with self._http.post(f"{self.address}/chat", json=body, headers=headers) as response:
            answer = await response.json()
            assert response.status == 200, answer
            step: int | None = answer.get("routine_number")
            return step
