"""The screen in a real terminal while things fail: sizes, suspension, lost connections, floods, full disks."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from apps.terminal.tests.conformance.terminal.emulated_adh import KEY, EmulatedAdh
from apps.terminal.tests.conformance.terminal.tmux_screen import TmuxScreen, needs_tmux

from holdfast.testing.emulator import Html200, call

pytestmark = needs_tmux

BWRAP = shutil.which("bwrap")
READY = "Policy-Aware Chat Ready"
FREE = "mine: {run: {pattern: execute_command, supervision: automatic, risk: low, priority: 5}}"
WRITE = call("write_file", {"file_path": "new.txt", "content": "hello\n"})


def command(line: str) -> list[object]:
    return [call("execute_command", {"command": line})]


def send(screen: TmuxScreen, text: str = "Do it.") -> None:
    screen.wait_for(READY)
    screen.type_text(text)
    screen.press("Enter")


def press_after_guard(screen: TmuxScreen, key: str) -> None:
    """Press a key that answers a question, which takes none in its first moment."""
    time.sleep(1.0)
    screen.press(key)


def wait_until(is_done: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not is_done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def count_processes(words: str) -> int:
    done = subprocess.run(["pgrep", "-fc", words], capture_output=True, text=True, check=False)
    return int(done.stdout or 0)


def test_a_question_survives_every_size(tmp_path: Path) -> None:
    with (
        EmulatedAdh(tmp_path, [[WRITE], "Written."]) as adh,
        adh.open_screen() as screen,
    ):
        send(screen)
        screen.wait_for("Confirmation Required: write_file")
        for size in ((200, 60), (40, 12), (20, 5), (80, 24)):
            screen.resize(*size)
            screen.wait_until(lambda size=size: screen.size == size, "the size")
            time.sleep(0.3)
        screen.wait_for("+hello")
        press_after_guard(screen, "y")
        screen.wait_for("Written.")
        assert (adh.project / "new.txt").read_text() == "hello\n"


def test_a_suspended_screen_comes_back_with_its_question(tmp_path: Path) -> None:
    with (
        EmulatedAdh(tmp_path, [[WRITE], "Written."]) as adh,
        adh.open_screen(in_shell=True) as screen,
    ):
        send(screen)
        screen.wait_for("Confirmation Required: write_file")
        screen.press("C-z")
        screen.wait_for("Stopped")
        assert "Confirmation Required" not in screen.text()
        screen.type_text("fg")
        screen.press("Enter")
        screen.wait_for("Confirmation Required: write_file")
        press_after_guard(screen, "y")
        screen.wait_for("Written.")
        screen.press("C-q")
        screen.wait_for("adh --resume")
        screen.type_text("stty -a | grep -c ' echo '")
        screen.press("Enter")
        screen.wait_until(lambda: "\n1\n" in screen.text(), "a terminal as it was")


def test_an_idle_screen_is_whole_after_ctrl_z(tmp_path: Path) -> None:
    with EmulatedAdh(tmp_path, ["Hello."]) as adh, adh.open_screen(in_shell=True) as screen:
        send(screen)
        screen.wait_for("Hello.")
        screen.press("C-z")
        screen.wait_for("Stopped")
        screen.type_text("fg")
        screen.press("Enter")
        screen.wait_until(
            lambda: all(part in screen.text() for part in ("Chat Ready", "Hello.", "Enter sends")),
            "the whole screen",
        )


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL], ids=["hang up", "kill"])
def test_a_command_that_the_end_of_the_program_cuts_is_in_doubt(
    tmp_path: Path, number: signal.Signals
) -> None:
    line = f"sleep 299.{os.getpid()}{int(number)}"
    with EmulatedAdh(tmp_path, [command(line), "I look at what it did."]) as adh:
        adh.add_rules(FREE)
        with adh.open_screen() as screen:
            send(screen)
            screen.wait_for("Executing...")
            wait_until(lambda: count_processes(f"^{line}") == 1)
            program = screen.process_id
            if number is signal.SIGHUP:
                screen.disconnect()
            else:
                os.kill(program, number)
            wait_until(lambda: not is_alive(program))
        if number is signal.SIGHUP:
            assert count_processes(f"^{line}") == 0
        with adh.open_screen("--resume") as screen:
            screen.wait_for("I look at what it did.")
            screen.wait_for("In doubt")
            if number is signal.SIGKILL:
                screen.wait_for("Processes that a killed adh had left running were ended:")
        assert count_processes(f"^{line}") == 0
        decisions = [one["decision"] for one in adh.read_audit() if one["event"] == "decision"]
        assert decisions == ["allowed"]
        told = adh.provider.requests[-1].body
        assert "in doubt" in str(told) or "unknown" in str(told)
        assert adh.find_leaks() == []


def is_alive(process: int) -> bool:
    """Whether a process runs; one that ended and that nobody waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL], ids=["hang up", "kill"])
def test_a_question_is_asked_again_after_the_end_of_the_program(
    tmp_path: Path, number: signal.Signals
) -> None:
    with EmulatedAdh(tmp_path, [[WRITE], "Written."]) as adh:
        with adh.open_screen() as screen:
            send(screen)
            screen.wait_for("Confirmation Required: write_file")
            program = screen.process_id
            if number is signal.SIGHUP:
                screen.disconnect()
            else:
                os.kill(program, number)
            wait_until(lambda: not is_alive(program))
        assert not (adh.project / "new.txt").exists()
        with adh.open_screen("--resume") as screen:
            screen.wait_for("Confirmation Required: write_file")
            press_after_guard(screen, "y")
            screen.wait_for("Written.")
        assert (adh.project / "new.txt").read_text() == "hello\n"
        outcomes = [line["decision"] for line in adh.read_audit() if line["event"] == "outcome"]
        assert outcomes == ["success"]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("yes xxxxxxxxx | head -c 100000000 | tr -d '\\n'", "Completed"),
        ("yes 0123456789 | head -c 100000000", "Completed"),
        ("cat noise.bin", "Completed"),
        ("printf '\\033[2J\\033[H\\033]0;owned\\007\\033[31mred\\033[?1049l'", "Completed"),
    ],
    ids=["one long line", "many lines", "binary", "escape sequences"],
)
def test_what_a_command_prints_cannot_hurt_the_screen(
    tmp_path: Path, line: str, shown: str
) -> None:
    with EmulatedAdh(tmp_path, [command(line), "Seen."]) as adh:
        adh.add_rules(FREE)
        (adh.project / "noise.bin").write_bytes(random.Random(1).randbytes(3_000_000))
        with adh.open_screen() as screen:
            send(screen)
            screen.wait_for("execute_command(")
            screen.type_text("still alive")
            screen.wait_for("still alive")
            screen.wait_for("Seen.")
            assert shown in screen.text()
            assert "Policy-Aware ADH Chat" in screen.text()
            title = screen.title
            assert "owned" not in title
            screen.press("C-q")
            assert screen.wait_for_end() == 0
        sizes = [path.stat().st_size for path in adh.data.rglob("*") if path.is_file()]
        assert max(sizes) < 5_000_000


def test_two_screens_in_one_folder(tmp_path: Path) -> None:
    with EmulatedAdh(tmp_path, ["First.", "Second."]) as adh, adh.open_screen() as first:
        send(first)
        first.wait_for("First.")
        with adh.open_screen() as second:
            send(second)
            second.wait_for("Second.")
        with adh.open_screen("--resume", newest_id(adh, "First.")) as third:
            assert third.wait_for_end() == 2
            assert "is open in another adh" in third.text(history=True).replace("\n", "")
        first.press("C-q")
        assert first.wait_for_end() == 0


def newest_id(adh: EmulatedAdh, answer: str) -> str:
    listed = adh.run("sessions", "list").stdout.splitlines()
    ids = [line.split()[0] for line in listed]
    return next(one for one in ids if answer in adh.run("sessions", "show", one).stdout)


@pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed")
@pytest.mark.parametrize("kind", ["full", "read-only"])
def test_nothing_runs_that_cannot_be_recorded(tmp_path: Path, kind: str) -> None:
    with EmulatedAdh(tmp_path, [[WRITE], "Written."]) as adh:
        adh.data.mkdir(parents=True)
        place = str(adh.home / ".local")
        cover = ["--ro-bind", place, place]
        if kind == "full":
            cover = ["--size", "16384", "--tmpfs", place]
        words = [str(BWRAP), "--dev-bind", "/", "/", *cover, sys.executable, "-m", "adh"]
        with TmuxScreen(words, folder=adh.project, environ=adh.environ) as screen:
            screen.wait_until(
                lambda: any(
                    word in screen.text(history=True).replace("\n", "")
                    for word in (
                        "Read-only file system",
                        "No space left",
                        "read-only",
                        "disk is full",
                    )
                ),
                "what is wrong",
            )
        assert not (adh.project / "new.txt").exists()


def test_a_provider_that_answers_with_a_page_is_told(tmp_path: Path) -> None:
    with EmulatedAdh(tmp_path, ["Hello."], faults=lambda _request: (Html200(),)) as adh:
        adh.configure({"model": "openai:emulated-model"})
        with adh.open_screen() as screen:
            send(screen, "Say hello.")
            screen.wait_for("Trying again in")
            screen.press("Escape")
            screen.wait_for("Stopped. What was done until then stays.")
            screen.press("Up")
            screen.wait_for("Say hello.")
            shown = screen.text(history=True)
        assert KEY not in shown
        assert adh.find_leaks(shown) == []
