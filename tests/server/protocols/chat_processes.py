"""Starts and kills the process of `chat_program`, with a model that outlives it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Self

from tests.free_ports import free_port
from tests.server.protocols.chat_program import script

from holdfast.testing import Emulator
from holdfast.testing.emulator import EmulatedRequest, Fault, Pace

ROOT = Path(__file__).resolve().parents[3]


class ChatProcess:
    """A service on one file, which can be killed and started again at the same address.

    Args:
        folder: where its journal lies.
        faults: what the model does wrong.
    """

    def __init__(self, folder: Path, faults: list[Fault | None] | None = None) -> None:
        self._journal = f"sqlite:///{folder / 'journal.db'}"
        self._faults = list(faults or [])
        self._model = Emulator(script, faults=self._next_fault)
        self._process: subprocess.Popen[str] | None = None
        self._port = str(free_port())
        self.requests = 0
        """How often the model was asked."""

    def _next_fault(self, request: EmulatedRequest) -> Fault | None:
        self.requests += 1
        fault = self._faults.pop(0) if self._faults else None
        return fault or (Pace(0.02) if "long" in request.text else None)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> Self:
        """Start the process."""
        program = "tests.server.protocols.chat_program"
        command = [sys.executable, "-m", program, self._port, self._journal, self._model.base_url]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip().endswith(f":{self._port}")
        return self

    def kill(self) -> None:
        """Kill it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def stop(self) -> None:
        """Ask it to end, and wait until it has."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)
            self.kill()

    def __enter__(self) -> Self:
        self._model.__enter__()
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.kill()
        self._model.__exit__(None, None, None)
