"""A person steers the queue in the console: dead letters, messages that wait, a pause, schedules, workers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conformance.console.browser import HOLDFAST

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def queue(page, tmp_path: Path) -> Iterator[object]:
    """The page of the queue of a demo: a dead letter, two messages behind a question, a schedule."""
    words = ["serve", "--demo", "--port", "0", "--journal", f"sqlite:///{tmp_path}/demo.db"]
    process = subprocess.Popen([HOLDFAST, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        address = ""
        while not address:
            line = process.stdout.readline()
            assert line, "the demo has ended"
            name, _, value = line.strip().partition(" ")
            address = f"{value.strip()}/" if name == "console" else ""
        page.goto(f"{address}#/queue")
        page.get_by_role("heading", name="1 dead letter").wait_for()
        yield page
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_person_steers_the_queue(queue) -> None:
    letter = queue.get_by_label("Dead letter")
    assert "cannot take a prompt of this length" in letter.inner_text()
    worker = queue.locator("article", has_text="heartbeat")
    assert "0 of 8" in worker.inner_text()

    queue.keyboard.press("r")  # it fails again, for the same reason
    queue.get_by_text("It is queued again.").wait_for()
    queue.get_by_role("heading", name="1 dead letter").wait_for()
    queue.get_by_role("button", name="Drop").click()
    queue.get_by_role("heading", name="1 dead letter").wait_for(state="detached")

    waiting = queue.get_by_label("Messages that wait").get_by_role("listitem")
    assert waiting.count() == 2
    queue.get_by_role("button", name="Take out").last.click()
    waiting.nth(1).wait_for(state="detached")

    queue.get_by_role("button", name="Pause").first.click()
    queue.get_by_text("Paused: no turn begins.").wait_for()
    schedule = queue.get_by_label("Schedule weekly-report")
    schedule.get_by_role("button", name="Run now").click()
    queue.get_by_label("Messages that wait").get_by_text("research").wait_for()
    queue.get_by_role("button", name="Resume").first.click()
    queue.get_by_label("Messages that wait").get_by_text("research").wait_for(state="detached")
    schedule.get_by_text("History").click()
    schedule.get_by_text("triggered").wait_for()
    schedule.get_by_role("button", name="Pause").click()
    schedule.get_by_text("Paused").wait_for()


def test_a_session_shows_what_is_queued_and_who_drove_its_turns(queue) -> None:
    queue.get_by_role("link", name="broken-lamp").first.click()
    queue.get_by_text("it begins after the turn before it").first.wait_for()
    queue.get_by_role("button", name="Take it out").last.click()
    queue.get_by_text("The message was taken out of the queue.").wait_for()
    queue.get_by_role("button", name="Approve").click()
    queue.locator("#turn-2").wait_for()  # the message behind the question begins
    queue.keyboard.press("Escape")
    queue.keyboard.press("2")
    queue.get_by_label("Timeline").get_by_text("worker").first.wait_for()
