"""Ends all processes of a command, also those that left its process group or its session, and those of killed programs.

A process belongs to the command if it is in its session or has its mark in its environment. Where the
system has no `/proc`, only the process group is ended. A note on the disk names the mark of each command that runs,
so that a later start ends the commands of a killed program. This module must never signal any other process.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from adh.storage.private_files import make_private_folder, read_private_file
from adh.storage.process_notes import describe_own_process, is_process_running
from adh.storage.storage_errors import StorageError, explain_os_error
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
    # No event reports the end of processes that are not our children.
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


_LONGEST_NOTE = 1_000


class RunningCommands:
    """The commands that run, of all instances of the program.

    Args:
        folder: where the notes are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def record(self, mark: str) -> Iterator[None]:
        """Leave a note of a command while the block runs.

        Args:
            mark: the mark of its processes.

        Raises:
            StorageError: the note cannot be written, so the command must not start.
        """
        path = self._folder / f"{mark}.json"
        make_private_folder(self._folder)
        try:
            # A loss of power ends the processes too, so the note need not survive it.
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                json.dump(describe_own_process(), file)
        except OSError as error:
            raise StorageError(path, *explain_os_error(error)) from error
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink()

    def end_abandoned(self) -> int:
        """End the processes of commands whose program has ended, and return how many they were."""
        ended = 0
        try:
            notes = sorted(self._folder.glob("*.json"))
        except OSError:
            return 0
        for note in notes:
            if not _is_abandoned(note):
                continue
            processes = find_processes(NO_LEADER, note.stem)
            if processes:
                kill_processes_now(NO_LEADER, note.stem)
            ended += len(processes)
            with suppress(OSError):
                note.unlink()
        return ended


def _is_abandoned(note: Path) -> bool:
    """Whether the program that wrote a note has ended."""
    try:
        content = json.loads(read_private_file(note, _LONGEST_NOTE) or b"")
        return not is_process_running(content)
    except (StorageError, ValueError):
        return True  # it was killed while it wrote the note
