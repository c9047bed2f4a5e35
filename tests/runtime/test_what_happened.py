"""History stores what was said and done: what failed is nowhere in what is sent next.

Each way in which something fails, and then a turn: its model call is compared whole, and so is what
a new process would send.
"""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Agent, Limits, MemoryJournal, tool
from holdfast.core.errors import ErrorCategory, ErrorInfo, HoldfastError, ProviderError
from holdfast.core.events import ModelReplied, TurnInterrupted
from holdfast.core.messages import Reply, ReplyKind, Text, ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.testing import CrashAt, FakeClock, ScriptedModel, SimulatedCrash

pytestmark = pytest.mark.anyio

DOWN = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="503")
REFUSED = ErrorInfo(category=ErrorCategory.AUTH_ERROR, safe="401")


def fails(info: ErrorInfo, said: str = "") -> ProviderError:
    """A failed attempt that had said something already."""
    partial = Reply((Text(said),), kind=ReplyKind.UNTERMINATED) if said else None
    return ProviderError("it failed", info=info, partial=partial)


@tool(effect="write")
def pay() -> str:
    """Pay."""
    return "paid"


async def next_call(journal: MemoryJournal) -> list[str]:
    """What a new process sends in the next turn."""
    seen: list[list[str]] = []

    def answer(request: ModelRequest) -> str:
        seen.append([message.text for message in request.messages])
        return "x"

    await Agent(ScriptedModel(answer), tools=[pay], journal=journal).run("next", session="ada")
    return seen[0]


def agent(journal: object, *script: object) -> Agent[str]:
    given = [*script, *["unexpected"] * 3]
    return Agent(ScriptedModel(*given), tools=[pay], journal=journal, clock=FakeClock())  # type: ignore[arg-type]


async def test_a_turn_that_failed_before_any_tool_leaves_only_its_message() -> None:
    journal = MemoryJournal()
    talking = agent(journal, "re one", fails(REFUSED, "half an ans"), "re three")
    await talking.run("one", session="ada")
    with pytest.raises(HoldfastError):
        await talking.run("two", session="ada")
    result = await talking.run("three", session="ada")
    whole = ["one", "re one", "two", "three", "re three"]
    assert [message.text for message in result.messages] == whole
    assert await next_call(journal) == [*whole, "next"]


async def test_attempts_that_failed_never_enter_the_history_of_the_turn_that_succeeded() -> None:
    journal = MemoryJournal()
    await agent(journal, fails(DOWN, "half"), fails(DOWN), "whole").run("one", session="ada")
    (replied,) = [r.event for r in await journal.read("ada") if isinstance(r.event, ModelReplied)]
    assert replied.attempts == 3
    assert await next_call(journal) == ["one", "whole", "next"]


async def test_a_turn_whose_attempts_all_failed_leaves_only_its_message() -> None:
    journal = MemoryJournal()
    with pytest.raises(HoldfastError):
        await agent(journal, *[fails(DOWN, "half")] * 4).run("one", session="ada")
    assert await next_call(journal) == ["one", "next"]


async def test_answers_that_never_had_the_wanted_type_leave_no_trace() -> None:
    journal = MemoryJournal()
    model = ScriptedModel(*["no number"] * 9)
    typed = Agent(model, output=int, journal=journal, limits=Limits(output_repairs=1))
    with pytest.raises(HoldfastError):
        await typed.run("one", session="ada")
    assert await next_call(journal) == ["one", "next"]


async def test_a_turn_that_failed_after_a_tool_keeps_its_result() -> None:
    journal = MemoryJournal()
    with pytest.raises(HoldfastError):
        await agent(journal, ToolCall("c", "pay"), fails(REFUSED)).run("one", session="ada")
    assert await next_call(journal) == ["one", "", "", "next"]


async def test_a_cancelled_turn_keeps_its_message() -> None:
    journal = MemoryJournal()
    asked = asyncio.Event()

    class Hangs(ScriptedModel):
        """Never answers."""

        async def attempt(self, call: object) -> object:  # type: ignore[override]
            asked.set()
            return await asyncio.Event().wait()

    turn = asyncio.ensure_future(Agent(Hangs(), journal=journal).run("one", session="ada"))
    await asked.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert await next_call(journal) == ["one", "next"]


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("moment", range(1, 6))
async def test_whatever_a_crash_cut_off_the_next_turn_is_sent_a_true_history(
    moment: int, before: bool
) -> None:
    kept = MemoryJournal()
    crashing = CrashAt(kept, moment, before=before)
    with pytest.raises(SimulatedCrash):
        await agent(crashing, ToolCall("c", "pay"), "paid it").run("one", session="ada")
    sent = await next_call(kept)
    assert sent[-1] == "next"
    assert sent[:-1] in (
        [],
        ["one"],
        ["one", "", ""],
        ["one", "", "", "paid it"],
    )


@pytest.mark.parametrize("way", ["cancel", "abandon"])
async def test_the_journal_says_who_ended_a_turn(way: str) -> None:
    journal, begun = MemoryJournal(), asyncio.Event()

    @tool(effect="read")
    async def wait() -> str:
        """Wait for ever."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    model = ScriptedModel(ToolCall("1", "wait", "{}"))
    if way == "cancel":
        async with Agent(model, tools=[wait], journal=journal).stream("Go", session="s") as run:
            await begun.wait()
            run.cancel(by="ann")
    else:
        dying = Agent(model, tools=[wait], journal=CrashAt(journal, 2))
        with pytest.raises(SimulatedCrash):
            await dying.run("Go", session="s")
        await Agent(model, tools=[wait], journal=journal).abandon("s", by="ann")
    ends = [one.event for one in await journal.read("s") if isinstance(one.event, TurnInterrupted)]
    assert [end.by for end in ends] == ["ann"]
