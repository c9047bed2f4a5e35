"""A program in a pseudoterminal: what it paints, and the processor time that it has used."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

SIZE = (200, 60)
BLOCK = 1 << 16
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class ProgramEnded(Exception):
    """The program has ended, or did not paint in time what was waited for; the text is what it painted."""


class PtyProgram:
    """A Python module that runs in a terminal of its own.

    Args:
        words: the words after `python`.
        environ: its environment.
        folder: the folder that it runs in.
    """

    def __init__(self, words: Sequence[str], environ: Mapping[str, str], folder: Path) -> None:
        self.started = time.monotonic()
        self.painted = b""
        self._pid, self._master = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            os.execve(sys.executable, [sys.executable, *words], dict(environ))
        columns, rows = SIZE
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._master)

    def type_bytes(self, keys: bytes) -> None:
        """Type keys, as a terminal sends them."""
        os.write(self._master, keys)

    def wait_for(self, text: str, seconds: float = 60.0) -> float:
        """Read what is painted until a text is, and return when it was, by the monotonic clock.

        Raises:
            ProgramEnded: the program ended, or the time is up.
        """
        wanted, deadline = text.encode(), time.monotonic() + seconds
        while wanted not in self.painted:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._master], [], [], left)[0]:
                raise ProgramEnded(self.painted[-2_000:].decode(errors="replace"))
            self._read()
        self.painted = self.painted.partition(wanted)[2]
        return time.monotonic()

    def drain(self, seconds: float) -> None:
        """Read what is painted for so many seconds."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self._master], [], [], left)[0]:
                self._read()
        self.painted = b""

    def _read(self) -> None:
        try:
            data = os.read(self._master, BLOCK)
        except OSError:
            data = b""
        if not data:
            raise ProgramEnded(self.painted[-2_000:].decode(errors="replace"))
        self.painted = self.painted[-BLOCK:] + data

    @property
    def cpu_seconds(self) -> float:
        """The processor time of all threads of the program so far."""
        nanoseconds = 0
        for task in Path(f"/proc/{self._pid}/task").iterdir():
            nanoseconds += int((task / "schedstat").read_text().split()[0])
        return nanoseconds / 1e9
