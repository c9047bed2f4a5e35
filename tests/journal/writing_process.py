"""A real process that writes to a journal while a test reads, copies or kills it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

_PROGRAM = """
import asyncio, sys
from holdfast import Agent, SqliteJournal
from holdfast.journal import Retention
from holdfast.testing import ScriptedModel

async def main():
    with SqliteJournal(sys.argv[1], wait=5) as journal:
        number = 0
        while True:
            number += 1
            agent = Agent(ScriptedModel(f"answer {number} " + "x" * int(sys.argv[2])), journal=journal)
            session = f"s{number % 7}"
            await agent.run(f"question {number}", session=session)
            print(session, number, flush=True)
            if number % 5 == 0 and sys.argv[3] == "prune":
                await agent.sessions.prune(Retention(sessions=3))

asyncio.run(main())
"""


class WritingProcess:
    """Runs turns in seven sessions until it is killed; it prints each turn that was acknowledged.

    Args:
        path: the journal.
        size: the length of each answer.
        prunes: whether it deletes all but the last three sessions now and then.
    """

    def __init__(self, path: Path, size: int = 200, *, prunes: bool = False) -> None:
        arguments = [str(path), str(size), "prune" if prunes else "keep"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *arguments], stdout=subprocess.PIPE, text=True
        )
        self.acknowledged: list[tuple[str, int]] = []

    def read_turn(self) -> tuple[str, int]:
        """Wait for the next turn that was acknowledged; return its session and number."""
        assert self._process.stdout is not None
        session, number = self._process.stdout.readline().split()
        self.acknowledged.append((session, int(number)))
        return self.acknowledged[-1]

    def kill(self) -> list[tuple[str, int]]:
        """Kill it; return all that it acknowledged."""
        self._process.send_signal(signal.SIGKILL)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):
                session, number = line.split()
                self.acknowledged.append((session, int(number)))
        self._process.wait()
        self._process.stdout.close()
        return self.acknowledged

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self.kill()


def run_command(*words: object) -> subprocess.CompletedProcess[str]:
    """Run `holdfast` in a process."""
    program = "import sys; from holdfast.cli.main import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
