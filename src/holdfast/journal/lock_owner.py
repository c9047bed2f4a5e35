"""The record in a lock file: the process that has the journal open, for error messages.

The record is not the lock, and it may be out of date. It is used only if a process with its id and
start time is running.
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
        pid: its id.
        host: the machine or container that it runs on.
        started: its start time in UTC; empty on systems other than Linux.
        ticks: its start time in clock ticks since the system started, independent of the clock.
    """

    pid: int
    host: str = ""
    started: str = ""
    ticks: int = 0

    def __str__(self) -> str:
        place = f" on {self.host}" if self.host != socket.gethostname() else ""
        return f"process {self.pid}{place}" + (f", started {self.started}" if self.started else "")

    def is_this_process(self) -> bool:
        """Whether this is the calling process."""
        return self.pid == os.getpid() and self.host == socket.gethostname() and self.may_run()

    def may_run(self) -> bool:
        """Whether the process may still be running."""
        if self.host != socket.gethostname() or not self.ticks:
            return True
        return _start_ticks(self.pid) == self.ticks


def this_process() -> LockOwner:
    """Return the record of the calling process."""
    pid = os.getpid()
    ticks = _start_ticks(pid)
    started = ""
    if ticks and sys.platform == "linux":
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
        started = f"{datetime.fromtimestamp(time.time() - age, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return LockOwner(pid, socket.gethostname(), started, ticks)


def encode_owner(owner: LockOwner) -> bytes:
    """Encode the record as a line of text."""
    return msgspec.json.encode(owner) + b"\n"


def decode_owner(data: bytes) -> LockOwner | None:
    """Decode the owner in a lock file; None if there is none or its process has ended."""
    try:
        owner = msgspec.json.decode(data, type=LockOwner)
    except (msgspec.MsgspecError, ValueError):
        return None  # empty, or partly written
    return owner if owner.may_run() else None


def is_lock_file(data: bytes) -> bool:
    """Whether a file with this content may be overwritten as a lock file."""
    # A crash may leave a partial record, or zeros.
    return _BEGINNING.startswith(data[: len(_BEGINNING)]) or not data.strip(b"\0")


def _start_ticks(pid: int) -> int:
    """Return the start time of a process in clock ticks since the system started; 0 if unknown."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        return int(line.rpartition(")")[2].split()[19])  # the name before it may contain anything
    except (OSError, ValueError, IndexError):
        return 0
