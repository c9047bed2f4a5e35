"""A hundred calls through the real screen and through `adh run`: the same decisions, by the same rules."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from apps.terminal.tests.approval.test_same_decisions import list_calls
from apps.terminal.tests.conformance.terminal.emulated_adh import EmulatedAdh

from adh.commands.chat_opening import open_chat
from adh.commands.chat_start import ChatStart
from adh.screen.chat_app import ChatApp
from adh.screen.question_panel import QuestionPanel
from holdfast.testing.emulator import EmulatedRequest, call

MODEL = "openai:emulated-model"
FILES = {"a.txt": "x\n", ".env": "KEY=1\n", "sub/b.txt": "y\n"}
Decisions = Sequence[tuple[str, ...]]


def make_calls(request: EmulatedRequest) -> Any:
    """Reply with all calls at once, and then with an answer."""
    if request.iteration:
        return "Done."
    return [call(one.name, json.loads(one.arguments)) for one in list_calls()]


def list_decisions(adh: EmulatedAdh) -> Decisions:
    """Return what was decided about each call, without who said so, as texts without the place."""
    place = str(adh.project.parent)
    return sorted(
        tuple(
            str(entry.get(name, "")).replace(place, "")
            for name in ("tool", "parameters", "folder", "level", "risk", "rule", "decision")
        )
        for entry in adh.read_audit()
        if entry["event"] == "decision"
    )


async def answer_on_the_screen(adh: EmulatedAdh) -> int:
    """Send a message in the real screen, press "n" at each question, and return how many there were."""
    start = ChatStart(
        environ=adh.environ, project=adh.project, model=MODEL,
        base_url=adh.provider.base_url, keychain=False,
    )  # fmt: skip
    seconds = itertools.count()  # a question takes no key right after it is shown
    app = ChatApp(lambda: open_chat(start), clock=lambda: float(next(seconds)))
    asked = 0
    async with app.run_test(size=(120, 40)) as pilot:
        while app.session is None or not app.session.is_ready:
            await pilot.pause(0.05)
        session = app.session
        session.send("Do it all.")
        while session.conversation.transcript.outcome is None:
            await pilot.pause(0.01)
            if app.screen.query(QuestionPanel):
                asked += 1
                await pilot.press("n")
        app.exit()
    if app.failure is not None:
        raise app.failure
    return asked


@pytest.mark.timeout(600)
async def test_the_screen_and_the_run_without_one_decide_the_same(tmp_path: Path) -> None:
    calls = list_calls()
    with EmulatedAdh(tmp_path / "screen", make_calls, files=FILES) as screen:
        asked = await answer_on_the_screen(screen)
        seen = list_decisions(screen)
    with EmulatedAdh(tmp_path / "headless", make_calls, files=FILES) as headless:
        done = headless.run("run", "--model", MODEL, "Do it all.", seconds=300)
        assert done.returncode in (0, 2), done.stderr
        assert list_decisions(headless) == seen
    assert len(seen) == len(calls) == 100
    assert asked >= 40
    assert {level for _, _, _, level, *_ in seen} >= {
        "automatic",
        "notify",
        "confirm",
        "manual",
        "deny",
    }
