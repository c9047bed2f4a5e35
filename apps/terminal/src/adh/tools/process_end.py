"""Ends all processes of a command, also those that left its process group or its session.

A process belongs to the command if it is in its session or has its mark in its environment. Where the
system has no `/proc`, only the process group is ended. This module must never signal any other process.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from adh.tools.command_environment import COMMAND_MARK

_PROC = Path("/proc")
NO_LEADER = -1
"""Stands for the first process of a command when it is not known."""
_GRACE = 1.0
_STEP = 0.02
_ROUNDS = 100


async def end_processes(leader: int, mark: str, *, grace: float = _GRACE) -> int:
    """Ask all processes of a command to end, then kill those that are left.

    Args:
        leader: the id of its first process, which leads its group and its session, or NO_LEADER.
        mark: the mark in the environment of its processes.
        grace: seconds between the two.

    Returns:
        How many processes were found, without the first one.
    """
    found = set(find_processes(leader, mark))
    if not found:
        return 0
    _signal_all(leader, mark, signal.SIGTERM)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + grace
    # No event tells the end of processes that are not our children.
    while find_processes(leader, mark) and loop.time() < deadline:  # noqa: ASYNC110  # REASON: as above
        await asyncio.sleep(_STEP)
    await _kill_all(leader, mark)
    return len(found - {leader})


async def _kill_all(leader: int, mark: str) -> None:
    """Kill until none is left: a process may start another one meanwhile."""
    for _round in range(_ROUNDS):
        if not _signal_all(leader, mark, signal.SIGKILL):
            return
        await asyncio.sleep(_STEP)


def kill_processes_now(leader: int, mark: str) -> None:
    """Kill all processes of a command without waiting for their end."""
    for _round in range(3):
        _signal_all(leader, mark, signal.SIGKILL)


def find_processes(leader: int, mark: str) -> tuple[int, ...]:
    """Return the ids of the running processes of a command."""
    if not _PROC.joinpath("self").exists():
        return (leader,) if _group_exists(leader) else ()
    wanted = f"{COMMAND_MARK}={mark}".encode()
    return tuple(process for process in _list_processes() if _belongs(process, leader, wanted))


def _signal_all(leader: int, mark: str, number: signal.Signals) -> bool:
    """Send a signal to all processes of a command; whether there were any."""
    if not _PROC.joinpath("self").exists():
        if not _group_exists(leader):
            return False
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, number)
        return True
    wanted = f"{COMMAND_MARK}={mark}".encode()
    is_any = False
    for process in _list_processes():
        with suppress(ProcessLookupError, PermissionError):
            descriptor = os.pidfd_open(process)
            try:
                # Checked while the descriptor holds the id, so that it cannot name another process.
                if _belongs(process, leader, wanted):
                    is_any = True
                    signal.pidfd_send_signal(descriptor, number)
            finally:
                os.close(descriptor)
    return is_any


def _list_processes() -> Iterator[int]:
    own = os.getpid()
    for name in os.listdir(_PROC):  # noqa: PTH208  # REASON: names alone
        if name.isdigit() and int(name) != own:
            yield int(name)


def _belongs(process: int, leader: int, wanted: bytes) -> bool:
    """Whether a process runs and belongs to the command."""
    try:
        # The name of the program, in parentheses, may hold anything.
        fields = (_PROC / str(process) / "stat").read_bytes().rpartition(b")")[2].split()
        if fields[0] in (b"Z", b"X"):
            return False
        if int(fields[3]) == leader:
            return True
        return wanted in (_PROC / str(process) / "environ").read_bytes().split(b"\0")
    except (OSError, IndexError, ValueError):
        return False


def _group_exists(leader: int) -> bool:
    if leader <= 1:
        return False
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
