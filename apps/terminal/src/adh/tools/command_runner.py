"""Runs one command in a session of its own, with bounded output, and ends all of its processes.

When this returns or is cancelled, no process of the command runs any more. It must never leave one.
"""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from adh.tools.command_environment import COMMAND_MARK
from adh.tools.live_output import BoundedOutput, LiveOutput, Stream
from adh.tools.process_end import NO_LEADER, end_processes, kill_processes_now

_BLOCK = 1 << 16
_OPEN_FILES = "/proc/self/fd"
_HAS_PROC = Path(_OPEN_FILES).exists()
_LAST_OUTPUT = 0.5
"""Seconds that background processes of a command may still write after its end."""


class Command(Struct, frozen=True, kw_only=True):
    """A command to run.

    Args:
        words: the program and its words.
        folder: a descriptor of its working folder.
        folder_path: its path, for a system without `/proc`.
        environ: its environment.
        mark: the mark in the environment of its processes; unique.
        timeout: seconds.
    """

    words: Sequence[str]
    folder: int
    folder_path: str
    environ: Mapping[str, str]
    mark: str
    timeout: float


class CommandEnd(Struct, frozen=True, kw_only=True):
    """How a command ended.

    Args:
        return_code: its exit status; negative for the signal that ended it; None at the timeout.
        stdout: its output.
        stderr: its errors.
        left: how many background processes it left, which were ended.
    """

    return_code: int | None
    stdout: BoundedOutput
    stderr: BoundedOutput
    left: int


async def run_command(command: Command, live: LiveOutput) -> CommandEnd:
    """Run a command to its end, its timeout, or the cancellation of the task.

    Args:
        command: the command.
        live: shows its output meanwhile.

    Raises:
        OSError: the program cannot be started.
        CancelledError: the task was cancelled; the processes have ended.
    """
    mark = command.mark
    process = await _start(command)
    outputs: dict[Stream, BoundedOutput] = {"stdout": BoundedOutput(), "stderr": BoundedOutput()}
    readers = [
        asyncio.ensure_future(_read_stream(process, stream, outputs[stream], live))
        for stream in outputs
    ]
    try:
        in_time = await _wait_for_exit(process, command.timeout)
        left = await end_processes(process.pid, mark)
        await asyncio.wait(readers, timeout=_LAST_OUTPUT)
        await _reap(process)
    except BaseException:
        await _end_cancelled(process, mark)
        raise
    finally:
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        live.close()
        _close_pipes(process)
    return CommandEnd(
        return_code=process.returncode if in_time else None,
        stdout=outputs["stdout"],
        stderr=outputs["stderr"],
        left=left,
    )


async def _start(command: Command) -> Process:
    try:
        return await asyncio.create_subprocess_exec(
            *command.words,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            # The folder that was opened, even if its path leads elsewhere by now.
            cwd=f"{_OPEN_FILES}/{command.folder}" if _HAS_PROC else command.folder_path,
            env={**command.environ, COMMAND_MARK: command.mark},
            start_new_session=True,
        )
    except asyncio.CancelledError:
        kill_processes_now(NO_LEADER, command.mark)
        raise


async def _wait_for_exit(process: Process, timeout: float) -> bool:
    """Wait until the first process has ended; whether it did in time.

    `Process.wait` of some versions of Python also waits for the pipes, which other processes hold open.
    """
    try:
        async with asyncio.timeout(timeout):
            if hasattr(os, "pidfd_open"):
                await _wait_for_descriptor(process.pid)
            else:
                await process.wait()
    except TimeoutError:
        return False
    return True


async def _wait_for_descriptor(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def _reap(process: Process) -> None:
    """Read the exit status of the first process, which has ended."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_LAST_OUTPUT):
            await process.wait()


async def _end_cancelled(process: Process, mark: str) -> None:
    """End the processes of a cancelled command, also when it is cancelled once more."""
    try:
        await end_processes(process.pid, mark)
        await _reap(process)
    except BaseException:
        kill_processes_now(process.pid, mark)
        raise


async def _read_stream(
    process: Process, stream: Stream, output: BoundedOutput, live: LiveOutput
) -> None:
    reader = process.stdout if stream == "stdout" else process.stderr
    if reader is None:
        return
    while data := await reader.read(_BLOCK):
        output.add(data)
        live.add(stream, data)


def _close_pipes(process: Process) -> None:
    """Close the pipes, which a process that cannot be ended may hold open."""
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()


def find_shell() -> str:
    """Return the path of bash, whose grammar the rules know; it is not searched in the project."""
    for path in ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"):
        if os.access(path, os.X_OK):
            return path
    raise FileNotFoundError(2, "bash is not installed")
