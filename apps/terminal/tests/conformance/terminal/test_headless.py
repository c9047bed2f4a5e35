"""`adh run` as a process: a question at a terminal, Ctrl-C, and the end of the system."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from apps.terminal.tests.conformance.terminal.emulated_adh import KEY, EmulatedAdh
from apps.terminal.tests.conformance.terminal.tmux_screen import TmuxScreen, needs_tmux

from holdfast.testing.emulator import Stall, call

WRITE = call("write_file", {"file_path": "new.txt", "content": "hello\n"})
FREE = "mine: {run: {pattern: execute_command, supervision: automatic, risk: low, priority: 5}}"


def wait_for(adh: EmulatedAdh, count: int) -> None:
    deadline = time.monotonic() + 60
    while len(adh.provider.requests) < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@needs_tmux
@pytest.mark.parametrize(("answer", "status"), [("y", 0), ("", 0)], ids=["yes", "enter"])
def test_a_person_at_the_terminal_is_asked(tmp_path: Path, answer: str, status: int) -> None:
    with EmulatedAdh(tmp_path, [[WRITE], "Over."]) as adh:
        words = [sys.executable, "-m", "adh", "run", "Write."]
        with TmuxScreen(words, folder=adh.project, environ=adh.environ, size=(100, 50)) as screen:
            shown = screen.wait_for("Proceed? [y/N]")
            assert "Confirmation Required: write_file" in shown
            assert "+hello" in shown
            screen.type_text(answer)
            screen.press("Enter")
            screen.wait_for("Over.")
            assert screen.wait_for_end() == status
        assert (adh.project / "new.txt").exists() is (answer == "y")


def test_ctrl_c_stops_the_turn_and_is_reported(tmp_path: Path) -> None:
    with EmulatedAdh(tmp_path, ["Hello."], faults=lambda _request: (Stall(600),)) as adh:
        with subprocess.Popen(
            [sys.executable, "-m", "adh", "run", "--output", "json", "Hello."],
            cwd=adh.project,
            env=adh.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            wait_for(adh, 1)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert json.loads(out)["kind"] == "cancelled"
        assert "Traceback" not in err
        assert adh.find_leaks(out, err) == []
        assert KEY not in out + err


def test_the_end_of_the_system_ends_commands_and_leaves_the_turn_open(tmp_path: Path) -> None:
    line = f"sleep 298.{os.getpid()}"
    with EmulatedAdh(tmp_path, [[call("execute_command", {"command": line})], "Seen."]) as adh:
        adh.add_rules(FREE)
        with subprocess.Popen(
            [sys.executable, "-m", "adh", "run", "Wait."],
            cwd=adh.project,
            env=adh.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            deadline = time.monotonic() + 60
            while not _runs(line):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=60)
        assert process.returncode == 128 + signal.SIGTERM
        assert (out, "Traceback" in err) == ("", False)
        assert not _runs(line)
        assert ", open" in adh.run("sessions", "list").stdout


def _runs(line: str) -> bool:
    done = subprocess.run(["pgrep", "-f", f"^{line}"], capture_output=True, check=False)
    return done.returncode == 0
