"""Runs a program in tmux, a real terminal: sends keys and reads the screen."""

from __future__ import annotations

import os
import select
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

TMUX = shutil.which("tmux")
ENDED = "ended with "
_PATIENCE = 60.0


class Screen:
    """A program in its own tmux.

    Args:
        command: the program and its arguments.
        folder: the folder for the socket of tmux and its output.
        env: added to the environment.
    """

    def __init__(self, command: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
        assert TMUX is not None
        self._tmux = (TMUX, "-S", str(folder / "tmux"), "-f", os.devnull)
        self._printed = folder / "printed"
        os.mkfifo(self._printed)
        # Opened for both, so that opening does not wait for tmux.
        self._output = os.open(self._printed, os.O_RDWR | os.O_NONBLOCK)
        given = [word for name, value in env.items() for word in ("-e", f"{name}={value}")]
        # The program starts when its output is read.
        shell = f"unset COLUMNS LINES; read -r _; clear; {shlex.join(command)}; echo {ENDED}$?; read -r _"
        self._do("new-session", "-d", "-x", "100", "-y", "100", *given, "sh", "-c", shell)
        self._do("pipe-pane", f"cat > {shlex.quote(str(self._printed))}")
        self.press("Enter")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)
        os.close(self._output)

    def type(self, text: str) -> None:
        """Type a line and press Enter."""
        self._do("send-keys", "-l", text)
        self.press("Enter")

    def press(self, key: str) -> None:
        """Press a key, by its name in tmux."""
        self._do("send-keys", key)

    def paste(self, text: str) -> None:
        """Paste a text, marked as a paste if the program asked for that."""
        self._do("set-buffer", text)
        self._do("paste-buffer", "-p")

    def shows(self, text: str) -> str:
        """Wait until the screen shows `text`, and return the screen."""
        until = time.monotonic() + _PATIENCE
        while text not in (screen := self._do("capture-pane", "-p", "-J")):
            over = time.monotonic() > until or ENDED in screen
            assert not over, f"{text!r} is not on the screen:\n{screen}"
            # The output arrives here as well; after that the screen has changed.
            select.select([self._output], [], [], 1.0)
            self._drain()
        return screen

    def _drain(self) -> None:
        try:
            while os.read(self._output, 65536):
                pass
        except BlockingIOError:
            pass

    def _do(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._tmux, *arguments], capture_output=True, text=True, timeout=_PATIENCE, check=True
        )
        return done.stdout
