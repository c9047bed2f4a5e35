"""A program in a real terminal: tmux starts it, types, resizes, hangs up, and shows what stands on the screen.

The terminal has a server of its own, so that nothing of the person's tmux is read or ended. A wait always has a
deadline, and the screen as it was then is part of its error.
"""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

TMUX = shutil.which("tmux")
needs_tmux = pytest.mark.skipif(TMUX is None, reason="tmux is not installed")

SMALL = (80, 24)
WIDE = (200, 60)
_numbers = itertools.count()
_PANE = "main:0.0"


class ScreenTimeout(AssertionError):
    """What was waited for did not appear; the text has the screen as it was."""


class TmuxScreen:
    """A program that runs in a terminal of tmux.

    Args:
        command: the program and its words.
        folder: the folder that it starts in.
        environ: its whole environment.
        size: columns and lines.
        in_shell: whether it is started by an interactive shell, which can suspend it and resume it.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        environ: Mapping[str, str] | None = None,
        size: tuple[int, int] = SMALL,
        in_shell: bool = False,
    ) -> None:
        self._command = list(command)
        self._folder = folder
        self._environ = dict(os.environ if environ is None else environ)
        self._size = size
        self._in_shell = in_shell
        self._place = Path(tempfile.mkdtemp(prefix="tmux-"))
        self._socket = self._place / f"s{next(_numbers)}"
        self._exit_status: int | None = None

    def __enter__(self) -> Self:
        columns, lines = self._size
        for name in ("TMUX", "TMUX_PANE", "COLUMNS", "LINES"):
            self._environ.pop(name, None)
        self._environ |= {"LC_ALL": "C.UTF-8"}
        shell = ["bash", "--norc", "--noprofile", "-i"]
        options = self._place / "tmux.conf"
        options.write_text(
            "set -g remain-on-exit on\nset -g status off\nset -g escape-time 0\n"
            "set -g default-terminal tmux-256color\nset -g history-limit 5000\n"
            "set -g extended-keys on\n"
        )
        self._tmux(
            *("-f", str(options), "-u", "new-session", "-d", "-s", "main"),
            *("-x", str(columns), "-y", str(lines), "-c", str(self._folder)),
            shlex.join(shell if self._in_shell else self._command),
        )
        self._tmux("resize-window", "-t", "main:0", "-x", str(columns), "-y", str(lines))
        if self._in_shell:
            self.wait_until(lambda: "bash-" in self.text(), "the shell's prompt")
            self.type_text(shlex.join(self._command))
            self.press("Enter")
            # What is typed before it runs would be the shell's.
            running = "#{pane_current_command}"
            self.wait_until(lambda: self._ask(running) != "bash", "the start of the program")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.disconnect()
        shutil.rmtree(self._place, ignore_errors=True)

    @property
    def process_id(self) -> int:
        """The process that tmux started: the program itself, or the shell."""
        return int(self._ask("#{pane_pid}"))

    @property
    def size(self) -> tuple[int, int]:
        """The columns and lines that the program sees."""
        columns, lines = self._ask("#{pane_width} #{pane_height}").split()
        return int(columns), int(lines)

    @property
    def title(self) -> str:
        """The title that the program gave to its window."""
        return self._ask("#{pane_title}")

    @property
    def exit_status(self) -> int | None:
        """The exit status of the program; None while it runs."""
        if self._exit_status is None:
            self._exit_status = self._read_exit_status()
        return self._exit_status

    def _read_exit_status(self) -> int | None:
        dead, status, signal = self._ask(
            "#{pane_dead},#{pane_dead_status},#{pane_dead_signal}"
        ).split(",")
        if status or signal:
            return int(status) if status else -int(signal)
        # tmux 3.3 sometimes loses the end of a process: the terminal is closed, and nobody waits for it.
        return _read_zombie(self.process_id) if dead == "1" else None

    def text(self, *, history: bool = False) -> str:
        """Return the text on the screen, without colours; with `history`, also what scrolled away."""
        return self._tmux("capture-pane", "-p", "-t", _PANE, *(["-S", "-"] if history else []))

    def styled_text(self) -> str:
        """Return the text on the screen with its escape sequences for colours and styles."""
        return self._tmux("capture-pane", "-p", "-e", "-t", _PANE)

    def press(self, *keys: str) -> None:
        """Press keys by tmux's names, such as "Enter", "C-c", "F2", "y"."""
        self._tmux("send-keys", "-t", _PANE, *keys)

    def type_text(self, text: str) -> None:
        """Type a text as it is."""
        self._tmux("send-keys", "-t", _PANE, "-l", "--", text)

    def resize(self, columns: int, lines: int) -> None:
        """Change the size of the terminal."""
        self._tmux("resize-window", "-t", "main:0", "-x", str(columns), "-y", str(lines))

    def wait_for(self, text: str, seconds: float = 60.0) -> str:
        """Wait until a text stands on the screen; return the screen.

        Raises:
            ScreenTimeout: it did not appear in time, or the program ended without it.
        """
        self.wait_until(lambda: text in self.text(), repr(text), seconds)
        return self.text()

    def wait_for_end(self, seconds: float = 60.0) -> int:
        """Wait until the program ends; return its exit status, or minus the signal that ended it."""
        self.wait_until(lambda: self.exit_status is not None, "the end of the program", seconds)
        return self.exit_status or 0

    def wait_until(self, condition: Callable[[], bool], wanted: str, seconds: float = 60.0) -> None:
        """Wait until a condition holds.

        Args:
            condition: what is looked at again and again.
            wanted: what it stands for, for the error.
            seconds: how long to wait.

        Raises:
            ScreenTimeout: it did not hold in time, or the program ended meanwhile.
        """
        deadline = time.monotonic() + seconds
        while not condition():
            ended = self.exit_status
            if ended is not None and not condition():
                raise ScreenTimeout(
                    f"ended with {ended}, without {wanted}:\n{self.text(history=True)}"
                )
            if time.monotonic() > deadline:
                raise ScreenTimeout(f"no {wanted} within {seconds} s:\n{self.text()}")
            time.sleep(0.03)

    def disconnect(self) -> None:
        """End the terminal, as a lost connection does: the program receives SIGHUP."""
        assert TMUX is not None
        subprocess.run(
            [TMUX, "-S", str(self._socket), "kill-server"], capture_output=True, check=False
        )

    def _ask(self, form: str) -> str:
        return self._tmux("display-message", "-p", "-t", _PANE, form).rstrip("\n")

    def _tmux(self, *words: str) -> str:
        assert TMUX is not None
        done = subprocess.run(
            [TMUX, "-S", str(self._socket), *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
            env=self._environ,
        )
        assert done.returncode == 0, f"tmux {shlex.join(words)}: {done.stderr.strip()}"
        return done.stdout


def _read_zombie(process_id: int) -> int | None:
    """Return how a process ended that nobody has waited for; None if it still runs."""
    try:
        words = Path(f"/proc/{process_id}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None
    if words[0] != "Z":
        return None
    return os.waitstatus_to_exitcode(int(words[-1]))
