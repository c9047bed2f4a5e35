"""A session whose model changes its wire between turns: the next turn has an answer, whatever the last ones left.

The turns before have reasoning, pictures, tools, a refused approval, names and ids of one wire, and a reply that was
cut short. Each provider judges the requests strictly.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import permutations
from typing import Any

import pytest
from tests.wire.rig import MODELS, PATIENT

from holdfast import Agent, MemoryJournal, ToolPermission, tool
from holdfast.core.deltas import TextDelta
from holdfast.core.messages import Media, ToolResult, user
from holdfast.core.questions import AnyQuestion, Denied
from holdfast.testing import FakeClock
from holdfast.testing.emulator import EmulatedRequest, Emulator, call, thinking
from holdfast.testing.emulator.script import ReplyLike
from holdfast.testing.emulator.wires.emulator_wire import WIRES

PAIRS = tuple(permutations(WIRES, 2))
PICTURE = Media("image/png", data=b"\x89PNG\r\n\x1a\n rest")
TALK, LOOK, SHORT = QUESTIONS = ("Talk.", "What do you see?", "And now?")
ANSWER = "A river, and nothing paid."
LONG = "It will be sunny in Porto, and " * 20


@tool(effect="read")
def camera() -> list[str | Media]:
    """Take a picture."""
    return ["The river:", PICTURE]


@tool(effect="write")
def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


@tool(effect="read")
def fail() -> str:
    """Fail without a message."""
    raise RuntimeError


def guide(request: EmulatedRequest) -> ReplyLike:
    """Thinks and uses its tools, answers at once, or talks on and on, as it is asked."""
    *_, at = (at for at, one in enumerate(request.messages) if one.text in QUESTIONS)
    question = request.messages[at].text
    if question == TALK:
        return [thinking("A lot to say."), LONG]
    if any(one.role == "tool" for one in request.messages[at:]):
        return [thinking("Now I know."), ANSWER]
    if question == SHORT:
        return "Still a river."
    asked = [call("camera"), call("pay", {"euros": 5}), call("fail"), call("no.such tool")]
    return [thinking("I must look."), "One moment. ", *asked]


async def refuse(question: AnyQuestion) -> Denied:
    return Denied(reason="Too much.")


def guide_on(wire: str, emulator: Emulator, journal: MemoryJournal) -> Agent[Any]:
    return Agent(
        MODELS[wire],
        base_url=emulator.base_url_for(wire),
        api_key="k",
        timeouts=PATIENT,
        tools=[camera, pay, fail],
        middleware=[ToolPermission(ask=["pay"], default="allow")],
        on_question=refuse,
        journal=journal,
        clock=FakeClock(),
    )


async def cut_short(agent: Agent[Any]) -> None:
    """A turn that its user ends while the model speaks."""
    with suppress(asyncio.CancelledError):
        async with agent.stream(TALK, session="ana") as run:
            async for item in run:
                if isinstance(item, TextDelta):
                    run.cancel()


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize(("first", "second"), PAIRS)
async def test_a_session_goes_on_with_a_model_of_another_wire(first: str, second: str) -> None:
    journal = MemoryJournal()
    async with Emulator(guide) as one, Emulator(guide) as other:
        agent = guide_on(first, one, journal)
        result = await agent.run(user(LOOK, PICTURE), session="ana")
        assert result.output == ANSWER
        denied = [part for part in result.messages[2].parts if isinstance(part, ToolResult)]
        assert [part.is_error for part in denied] == [False, True, True, True]
        await cut_short(agent)
        changed = guide_on(second, other, journal)
        assert (await changed.run(SHORT, session="ana")).output == "Still a river."
        looked = await changed.run(LOOK, session="ana")
        assert looked.output == ANSWER
        await cut_short(changed)
        back = await agent.run(LOOK, session="ana")
        assert back.output == ANSWER
        assert [entry.problem for entry in (*one.requests, *other.requests) if entry.problem] == []
    said = " ".join(message.text for message in back.history)
    assert (
        said.count("It will be sunny in Porto") >= 2
    )  # what was shown of the replies that were cut
