"""One turn without a screen, with a conversation that plays a script."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct

from adh.approval.question import ApprovalQuestion
from adh.commands.question_answers import NOBODY, RunAnswers
from adh.commands.run_command import HeadlessTurn
from adh.transcript.blocks import Block, ToolBlock, ToolState
from adh.transcript.outcome import Outcome, OutcomeKind
from holdfast import Approved

DONE = Outcome(kind=OutcomeKind.DONE, text="It is fixed.")
STOPPED = Outcome(kind=OutcomeKind.CANCELLED, text="Stopped.")


class Asked(Struct):
    question: Any


class FakeTranscript:
    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.status = ""
        self.outcome: Outcome | None = None


class FakeConversation:
    """A conversation that asks some questions, and is done when all have an answer."""

    on_change: Callable[[tuple[str, ...]], None]
    on_question: Callable[[Any], None] | None

    def __init__(self, *keys: str, late: bool = False, hangs: bool = False) -> None:
        self.transcript = FakeTranscript()
        self.problem = ""
        self.sent: list[str] = []
        self.answers: list[Any] = []
        self.open = list(keys)
        self.late = late
        self.hangs = hangs

    async def start(self) -> None:
        pass

    def send(self, text: str) -> None:
        self.sent.append(text)
        self.transcript.status = "⏳ Sending message to AI..."
        self.transcript.blocks.append(
            ToolBlock(id="t1.i0.tool.0", turn=1, name="write_file", state=ToolState.CONFIRMING)
        )
        self.on_change(("t1.i0.tool.0",))
        self.on_change(("t1.i0.tool.0",))
        assert self.on_question is not None
        for key in self.open:
            self.on_question(
                Asked(ApprovalQuestion(key=key, tool="write_file", level="confirm", risk="medium"))
            )
        self.end_if_answered()

    def answer(self, asked: Asked, answer: Any) -> bool:
        self.answers.append(answer)
        self.open.remove(asked.question.key)
        self.end_if_answered()
        return not self.late

    def stop(self) -> None:
        self.end(STOPPED)

    def end_if_answered(self) -> None:
        if not self.open and not self.hangs:
            self.end(DONE)

    def end(self, outcome: Outcome) -> None:
        if self.transcript.outcome is None:
            self.transcript.outcome = outcome
            self.on_change(())


async def run(
    conversation: FakeConversation, *, says_yes: bool = False, shown: list[str] | None = None
) -> Any:
    answers = RunAnswers([].append, None, says_yes=says_yes)
    show = shown.append if shown is not None else None
    return await HeadlessTurn(conversation, answers, show).run("fix it")


async def test_a_turn_without_questions() -> None:
    conversation = FakeConversation()
    record = await run(conversation)
    assert (record.outcome, record.answered_by) == (DONE, {})
    assert conversation.sent == ["fix it"]


async def test_questions_are_answered_and_it_is_told_by_whom() -> None:
    conversation = FakeConversation("t1.i0.tool.0.ask.0", "t1.i0.tool.1.ask.0")
    record = await run(conversation, says_yes=True)
    assert record.answered_by == {"t1.i0.tool.0.ask.0": "--yes", "t1.i0.tool.1.ask.0": "--yes"}
    assert [type(one.value).__mro__[1] for one in conversation.answers] == [Approved, Approved]


async def test_nobody_says_no() -> None:
    conversation = FakeConversation("t1.i0.tool.0.ask.0")
    assert (await run(conversation)).answered_by == {"t1.i0.tool.0.ask.0": NOBODY}


async def test_a_late_answer_counts_for_nothing_and_is_told() -> None:
    shown: list[str] = []
    record = await run(FakeConversation("t1.i0.tool.0.ask.0", late=True), shown=shown)
    assert record.answered_by == {}
    assert shown[-1].startswith("The answer came too late")


async def test_the_progress_is_shown_once() -> None:
    shown: list[str] = []
    await run(FakeConversation(), shown=shown)
    assert shown == [
        "⏳ Sending message to AI...",
        "⚠️ write_file · Awaiting Confirmation",
    ]


async def test_ctrl_c_stops_the_turn_and_its_end_is_told() -> None:
    conversation = FakeConversation(hangs=True)
    before = signal.getsignal(signal.SIGINT)
    turn = asyncio.ensure_future(run(conversation))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    os.kill(os.getpid(), signal.SIGINT)
    record = await asyncio.wait_for(turn, 60)
    assert record.outcome is STOPPED
    assert signal.getsignal(signal.SIGINT) is before


async def test_an_error_of_an_answer_ends_the_turn_and_is_raised() -> None:
    class Broken(FakeConversation):
        def answer(self, asked: Asked, answer: Any) -> bool:
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await asyncio.wait_for(run(Broken("t1.i0.tool.0.ask.0")), 60)
