"""Clubs for a browser: one whose parties fail on demand, and one whose process can be killed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from apps.registration.tests.http.served_club import serve_club
from tests.free_ports import free_port

from holdfast.testing.emulator import EmulatedRequest
from registration.emulators.faults import Faults


class FailingClub:
    """A club in a thread of this process.

    Args:
        folder: where everything is saved.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self.model_fault: object = None
        """What the model does in place of an answer; None for nothing."""
        self.addresses = Faults(late=1.5)
        self.address = ""
        self.model: Any = None

    def _choose_fault(self, _request: EmulatedRequest) -> object:
        return self.model_fault

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        faults = {"addresses": self.addresses}
        async with serve_club(
            self._folder, faults=self._choose_fault, provider_faults=faults
        ) as club:
            self.address, self.model = club.address, club.model
            self._started.set()
            await self._end.wait()

    @contextmanager
    def serve(self) -> Iterator[FailingClub]:
        """Serve the club."""
        self._thread.start()
        try:
            assert self._started.wait(30), "the club did not start"
            yield self
        finally:
            if self._loop is not None and self._end is not None:
                self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(30)


class KillableClub:
    """`python -m registration demo` on one folder and one port, which can be killed and started again.

    Args:
        folder: where everything is saved.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        self.code = ""
        self._port = free_port()
        self.address = f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start the process; return when it answers."""
        words = ["-m", "registration", "demo", "--port", str(self._port)]
        self._process = subprocess.Popen(
            [sys.executable, *words, "--folder", str(self._folder)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            name, _, value = line.partition(":")
            if name == "Codes to type":
                self.code = value.split(",")[0].strip()
            if line.startswith("Ctrl-C"):
                return
        raise AssertionError("the service ended")

    def kill(self) -> None:
        """Kill the process at once."""
        process, self._process = self._process, None
        if process is not None and process.stdout is not None:
            process.send_signal(signal.SIGKILL)
            process.wait(timeout=30)
            process.stdout.close()
