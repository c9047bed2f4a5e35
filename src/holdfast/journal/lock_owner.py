"""Who has a journal open: the record in its lock file, which an error can name.

The record locks nothing and may be old. It is believed only as long as a process of that number and
that start time runs.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

_MARK = "holdfast-journal-lock"
_BEGINNING = b'{"type":"' + _MARK.encode()


class LockOwner(msgspec.Struct, frozen=True, tag=_MARK):
    """A process that has a journal open.

    Args:
        pid: its number.
        host: the machine or container that it runs on.
        started: when it started, in UTC; empty where the system does not say it (not on Linux).
        ticks: the same as the system counts it, which no change of the clock alters.
    """

    pid: int
    host: str = ""
    started: str = ""
    ticks: int = 0

    def __str__(self) -> str:
        place = f" on {self.host}" if self.host != socket.gethostname() else ""
        return f"process {self.pid}{place}" + (f", started {self.started}" if self.started else "")

    def is_this_process(self) -> bool:
        """Whether it is the process that asks."""
        return self.pid == os.getpid() and self.host == socket.gethostname() and self.may_run()

    def may_run(self) -> bool:
        """Whether nothing shows that this process has ended."""
        if self.host != socket.gethostname() or not self.ticks:
            return True
        return _start_ticks(self.pid) == self.ticks


def this_process() -> LockOwner:
    """The record of the process that asks."""
    pid = os.getpid()
    ticks = _start_ticks(pid)
    started = ""
    if ticks and sys.platform == "linux":
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
        started = f"{datetime.fromtimestamp(time.time() - age, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return LockOwner(pid, socket.gethostname(), started, ticks)


def encode_owner(owner: LockOwner) -> bytes:
    """The record as a line of text."""
    return msgspec.json.encode(owner) + b"\n"


def decode_owner(data: bytes) -> LockOwner | None:
    """The owner that a lock file names, unless that process has ended."""
    try:
        owner = msgspec.json.decode(data, type=LockOwner)
    except (msgspec.MsgspecError, ValueError):
        return None  # empty, or half written
    return owner if owner.may_run() else None


def is_lock_file(data: bytes) -> bool:
    """Whether a file with this content may be overwritten as a lock file."""
    # A crash may leave the beginning of a record, or zeros.
    return _BEGINNING.startswith(data[: len(_BEGINNING)]) or not data.strip(b"\0")


def _start_ticks(pid: int) -> int:
    """Clock ticks between the start of the system and that of a process; 0 when it is not known."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        return int(line.rpartition(")")[2].split()[19])  # the name before may hold anything
    except (OSError, ValueError, IndexError):
        return 0
