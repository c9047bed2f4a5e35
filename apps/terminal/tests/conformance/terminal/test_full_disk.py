"""The disk fills in the middle of a turn, on the real screen: nothing is lost, and the words are plain."""

from __future__ import annotations

import random
from pathlib import Path

from apps.terminal.tests.conformance.terminal.emulated_adh import EmulatedAdh
from apps.terminal.tests.conformance.terminal.small_disk import (
    needs_small_disk,
    open_on_small_disk,
)
from apps.terminal.tests.conformance.terminal.test_screen_failures import (
    FREE,
    READY,
    WRITE,
    command,
    press_after_guard,
    send,
)
from apps.terminal.tests.conformance.terminal.tmux_screen import TmuxScreen, needs_tmux

pytestmark = [needs_tmux, needs_small_disk]

CONFIRM = "Confirmation Required: "
UNSAVED = "The conversation cannot be saved"
FULL = "the disk is full. Free some space"
COMMANDS = 6
# All of it together is more than the room that the journal has already taken.
LONG = [random.Random(number).randbytes(500).hex() for number in range(400)]


def read_words(screen: TmuxScreen) -> str:
    """Return the text of the screen without its frame and its line breaks."""
    lines = (line.strip("│╭╮╰╯─▏▁▂▃▄▅▆▇█ ") for line in screen.text().splitlines())
    return " ".join(line for line in lines if line)


def wait_for_words(screen: TmuxScreen, words: str) -> None:
    screen.wait_until(lambda: words in read_words(screen), words)


def send_again(screen: TmuxScreen, text: str) -> None:
    screen.type_text(text)
    screen.press("Enter")


def test_a_call_that_cannot_be_recorded_is_not_run_and_runs_once_there_is_room(
    tmp_path: Path,
) -> None:
    replies = [[WRITE], "The disk is the problem.", [WRITE], "Written."]
    with EmulatedAdh(tmp_path, replies) as adh, open_on_small_disk(adh) as (screen, disk):
        send(screen)
        screen.wait_for(f"{CONFIRM}write_file")
        disk.fill()
        press_after_guard(screen, "y")
        screen.wait_for("The disk is the problem.")
        words = read_words(screen)
        assert "The call was not run: the audit log cannot be written" in words
        assert FULL in words
        assert not (adh.project / "new.txt").exists()
        disk.free()
        send_again(screen, "Try again.")
        screen.wait_for(f"{CONFIRM}write_file")
        press_after_guard(screen, "y")
        screen.wait_for("Written.")
        assert (adh.project / "new.txt").read_text() == "hello\n"


def test_commands_whose_results_cannot_be_saved_are_in_doubt_and_not_repeated(
    tmp_path: Path,
) -> None:
    (tmp_path / "long").write_text("\n".join(LONG))
    work = (
        "#!/bin/sh\necho $1 >>count\nwhile ! test -e go; do sleep 0.1; done\n"
        f"cat {tmp_path}/long\ncat {tmp_path}/long >&2\n"
    )
    calls = [part for number in range(COMMANDS) for part in command(f"./work.sh {number}")]
    with EmulatedAdh(
        tmp_path, [calls, "I look at it.", "I look at it."], files={"work.sh": work}
    ) as adh:
        (adh.project / "work.sh").chmod(0o755)
        adh.add_rules(FREE)
        begun = adh.project / "count"
        with open_on_small_disk(adh) as (screen, disk):
            send(screen)
            screen.wait_until(
                lambda: begun.exists() and len(begun.read_text().split()) == COMMANDS,
                "the start of the commands",
            )
            disk.fill()
            (adh.project / "go").touch()
            wait_for_words(screen, f"{UNSAVED}, so the turn ended")
            wait_for_words(screen, FULL)
            assert "communicating with the AI" not in read_words(screen)
            disk.free()
            screen.press("C-q")
            screen.wait_until(lambda: "Initializing" in screen.text(), "the second start")
            screen.wait_for("In doubt")
            send_again(screen, "What happened?")
            screen.wait_for("I look at it.")
            told = str(adh.provider.requests[-1].body)
            assert "in doubt" in told or "unknown" in told
        assert sorted(begun.read_text().split()) == [str(number) for number in range(COMMANDS)]


def test_an_answer_that_cannot_be_saved_stays_and_the_next_one_is_saved(tmp_path: Path) -> None:
    replies = [f"{' '.join(LONG)} The end.", "Here it is."]
    with EmulatedAdh(tmp_path, replies) as adh, open_on_small_disk(adh) as (screen, disk):
        screen.wait_for(READY)
        disk.fill()
        send_again(screen, "Tell me.")
        wait_for_words(screen, f"{UNSAVED}, so the turn ended")
        wait_for_words(screen, FULL)
        screen.wait_for("not finished")
        disk.free()
        send_again(screen, "Tell me again.")
        screen.wait_for("Here it is.")
        screen.press("C-q")
        screen.wait_until(lambda: "Initializing" in screen.text(), "the second start")
        screen.wait_for("Here it is.")
