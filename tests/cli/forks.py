"""Runs the `holdfast` command in a fork of a process that has imported it, which is faster.

Each call is a process with its own arguments, streams, environment and exit status. The
tests of terminals and signals start the program itself.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, suppress
from functools import cache
from pathlib import Path

import msgspec

_MOST = 100_000  # bytes of one request


class Call(msgspec.Struct):
    """What a process receives besides its three streams."""

    arguments: Sequence[str]
    environment: Mapping[str, str]


class Forks:
    """The process that has the imports."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.forks", str(theirs.fileno())],
            cwd=Path(__file__).parents[2],
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()

    def run(self, call: Call, said: bytes, patience: float) -> subprocess.CompletedProcess[bytes]:
        """Run one process to its end.

        Args:
            call: its arguments and its environment.
            said: its standard input.
            patience: the most seconds that it may take.
        """
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            reading, writing = os.pipe()
            streams = [reading, out.fileno(), err.fileno()]
            socket.send_fds(self._channel, [msgspec.json.encode(call)], streams)
            os.close(reading)
            # It may have ended already, without reading its input.
            with suppress(BrokenPipeError), os.fdopen(writing, "wb") as pipe:
                pipe.write(said)
            self._channel.settimeout(patience)
            try:
                status = int(self._channel.recv(_MOST))
            except TimeoutError:
                # A late answer must not be taken for that of the next call, so the process ends.
                os.killpg(self._process.pid, signal.SIGKILL)
                self.close()
                forks.cache_clear()
                raise
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(call.arguments, status, out.read(), err.read())

    def close(self) -> None:
        """End the process by closing its input."""
        self._channel.close()
        self._process.wait()


@cache
def forks() -> Forks:
    """Return the fork server of this process."""
    made = Forks()
    atexit.register(made.close)
    return made


def serve(channel: socket.socket) -> None:
    """Fork for each call. Return in the fork."""
    while True:
        text, streams, _, _ = socket.recv_fds(channel, _MOST, 3)
        if not text:
            sys.exit()
        child = os.fork()
        if child == 0:
            channel.close()
            become(msgspec.json.decode(text, type=Call), streams)
            return
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(child, 0)
        channel.send(str(os.waitstatus_to_exitcode(status)).encode())


def become(call: Call, streams: Sequence[int]) -> None:
    """Run the command in this fork."""
    for place, stream in enumerate(streams):
        os.dup2(stream, place)
        os.close(stream)
    os.environ.clear()
    os.environ.update(call.environment)
    sys.argv[1:] = call.arguments


def warm_up(main: Callable[[Sequence[str]], int]) -> None:
    """Run two commands that fail, so that each fork has all imports."""
    os.environ["OPENAI_API_KEY"] = "of nobody"
    nowhere = ("--base-url", "http://127.0.0.1:9/v1", "--max-retries", "0")
    with redirect_stderr(io.StringIO()):
        main(["run", "hi", "--model", "openai:demo", *nowhere])
        main(["sessions", "list", "no such file"])
    assert threading.active_count() == 1, threading.enumerate()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    from holdfast.cli.main import main

    warm_up(main)
    serve(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(main())
