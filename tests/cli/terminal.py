"""Runs the `holdfast` command for tests, with pipes or in its own terminal."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cli.forks import Call, forks

from holdfast import Agent
from holdfast.cli.chat_commands import Conversation
from holdfast.cli.run_printer import RunPrinter

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
_PATIENCE = 60.0

# Its own session with descriptor 0 as its terminal, so that Ctrl-C becomes a signal to it.
_TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


def conversation(agent: Agent[str]) -> Conversation:
    """Return the conversation "ada" of a chat in this process."""
    return Conversation(agent, "ada", RunPrinter(sys.stdout, sys.stderr))


def environment(**extra: str) -> dict[str, str]:
    """Return the environment of this process without keys, colours and settings of Holdfast."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.endswith(("_API_KEY", "_TOKEN", "_PROXY", "_proxy"))
        and not name.startswith("HOLDFAST_")
    }
    return kept | {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"} | extra


def holdfast(
    *arguments: str, said: str | bytes = "", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command with pipes; `said` is its standard input."""
    given, sent = environment(**(env or {})), said if isinstance(said, bytes) else said.encode()
    # Python reads these variables at its start, so a fork cannot set them.
    starts = any(name.startswith("PYTHON") for name in env or {})
    done = (_started if starts else _forked)(arguments, given, sent)
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def _forked(
    arguments: Sequence[str], env: Mapping[str, str], said: bytes
) -> subprocess.CompletedProcess[bytes]:
    return forks().run(Call(arguments, env), said, _PATIENCE)


def _started(
    arguments: Sequence[str], env: Mapping[str, str], said: bytes
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [HOLDFAST, *arguments],
        input=said,
        capture_output=True,
        env=env,
        timeout=_PATIENCE,
        check=False,
    )


@contextmanager
def piped(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command with pipes that stay open, and kill it at the end."""
    with subprocess.Popen(
        [HOLDFAST, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def told(process: subprocess.Popen[bytes], line: bytes) -> bytes:
    """Type a line and return what the command prints."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line)
    process.stdin.flush()
    return process.stdout.readline()


def read_and_close(*arguments: str, count: int) -> tuple[int, bytes]:
    """Read so many bytes of the output and close it; return the exit status and the error output."""
    with piped(*arguments) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(count)
        process.stdout.close()
        said = process.stderr.read()
        return process.wait(60), said


def interrupted(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    """Send Ctrl-C while the input stays open; return the exit status and the error output."""
    assert process.stderr is not None
    process.send_signal(signal.SIGINT)
    return process.wait(3 * _PATIENCE), process.stderr.read()


class Terminal:
    """The command in its own terminal: what it prints, and keys for it."""

    def __init__(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        program: Sequence[str] = (HOLDFAST,),
    ) -> None:
        self.shown = ""
        self._ours, theirs = os.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL, *program, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment(**(env or {})),
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def press(self, keys: str) -> None:
        """Type."""
        os.write(self._ours, keys.encode())

    def wait_for(self, text: str) -> str:
        """Read until `text` was shown, and return what came since the last wait."""
        until = time.monotonic() + _PATIENCE
        while text not in self.shown:
            assert time.monotonic() < until, f"{text!r} was not shown: {self.shown!r}"
            if not self._read(until):
                raise AssertionError(f"it ended before {text!r}: {self.shown!r}")
        end = self.shown.index(text) + len(text)
        came, self.shown = self.shown[:end], self.shown[end:]
        return came

    def status(self) -> int:
        """Read to the end and give the exit status."""
        until = time.monotonic() + _PATIENCE
        while self._read(until):
            assert time.monotonic() < until, f"it does not end: {self.shown!r}"
        return self._process.wait(_PATIENCE)

    def _read(self, until: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return True
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # Linux: the other side is closed
            return False
        # The prompt asks for the position of the cursor, and terminals answer.
        if b"\x1b[6n" in data:
            os.write(self._ours, b"\x1b[1;1R")
        self.shown += data.decode(errors="replace")
        return bool(data)
