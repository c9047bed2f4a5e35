"""The terminal of the other tests is real: it types, resizes, suspends, hangs up and tells how a program ended."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from apps.terminal.tests.conformance.terminal.tmux_screen import (
    SMALL,
    WIDE,
    ScreenTimeout,
    TmuxScreen,
    needs_tmux,
)

pytestmark = needs_tmux


@pytest.mark.parametrize("size", [SMALL, WIDE])
def test_a_program_sees_the_size_and_what_is_typed(tmp_path: Path, size: tuple[int, int]) -> None:
    program = (
        "import os; print(*os.get_terminal_size()); print('you:', input('? ')); raise SystemExit(3)"
    )
    with TmuxScreen([sys.executable, "-c", program], folder=tmp_path, size=size) as screen:
        screen.wait_for(f"{size[0]} {size[1]}")
        screen.type_text("it's $HOME; ⏳")
        screen.press("Enter")
        assert screen.wait_for_end() == 3
        assert "you: it's $HOME; ⏳" in screen.text()


def test_a_program_is_told_of_a_new_size(tmp_path: Path) -> None:
    program = (
        "import os, signal\n"
        "signal.signal(signal.SIGWINCH, lambda *_: print('now', *os.get_terminal_size(), flush=True))\n"
        "print('ready', flush=True)\n"
        "while True: signal.pause()"
    )
    with TmuxScreen([sys.executable, "-c", program], folder=tmp_path) as screen:
        screen.wait_for("ready")
        screen.resize(100, 30)
        screen.wait_for("now 100 30")


def test_a_wait_that_fails_shows_the_screen(tmp_path: Path) -> None:
    with TmuxScreen(["sh", "-c", "echo shown; sleep 60"], folder=tmp_path) as screen:
        screen.wait_for("shown")
        with pytest.raises(ScreenTimeout, match=r"no 'missing' within 0.2 s:\nshown"):
            screen.wait_for("missing", 0.2)


def test_a_wait_ends_with_the_program(tmp_path: Path) -> None:
    with (
        TmuxScreen(["sh", "-c", "echo last words; sleep 0.5; exit 4"], folder=tmp_path) as screen,
        pytest.raises(ScreenTimeout, match=r"ended with 4(.|\n)*last words"),
    ):
        screen.wait_for("missing", 60)


def test_a_lost_connection_is_a_hang_up(tmp_path: Path) -> None:
    program = (
        "import pathlib, signal, sys\n"
        "def end(*_): pathlib.Path('hung-up').touch(); sys.exit()\n"
        "signal.signal(signal.SIGHUP, end)\n"
        "print('ready', flush=True)\n"
        "while True: signal.pause()"
    )
    with TmuxScreen([sys.executable, "-c", program], folder=tmp_path) as screen:
        screen.wait_for("ready")
        process = screen.process_id
        screen.disconnect()
        deadline = time.monotonic() + 60
        while not (tmp_path / "hung-up").exists():
            assert time.monotonic() < deadline, "no SIGHUP"
            time.sleep(0.02)
        while Path(f"/proc/{process}").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_a_shell_suspends_and_resumes(tmp_path: Path) -> None:
    with TmuxScreen(["cat"], folder=tmp_path, in_shell=True) as screen:
        screen.type_text("first")
        screen.press("Enter")
        screen.wait_until(lambda: screen.text().count("first") == 2, "the repeated line")
        screen.press("C-z")
        screen.wait_for("Stopped")
        screen.type_text("fg")
        screen.press("Enter")
        # It is named a third time. The shell has left its own mode of the terminal: an Enter before that ends no line of the program.
        screen.wait_until(lambda: screen.text().count("cat") == 3, "the resumed program")
        screen.type_text("second")
        screen.press("Enter")
        screen.wait_until(lambda: screen.text().count("second") == 2, "the repeated line")
