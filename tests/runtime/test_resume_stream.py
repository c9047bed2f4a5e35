"""A turn that goes on while somebody watches: what happens now is shown, and what was is not."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import Agent, Result, RunStream, ToolPermission, tool
from holdfast.core import events as ev
from holdfast.core.deltas import TextDelta
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import ModelReplied, Status, ToolFinished
from holdfast.core.messages import ToolCall
from holdfast.core.notices import ToolStarted
from holdfast.core.questions import ClarificationQuestion, PermissionQuestion, Question
from holdfast.errors import SessionBusyError
from holdfast.events import FromAgent
from holdfast.journal.memory import MemoryJournal
from holdfast.runtime.turn_state.channel import Item
from holdfast.testing import CrashAt, ScriptedModel, SimulatedCrash
from holdfast.tools.context import ToolContext

PAY = ToolCall("c1", "pay", '{"euros": 5}')
BOOK = ToolCall("c2", "book", '{"city": "Porto"}')


@dataclass
class Trip:
    city: str
    days: int


class World:
    """What tools did, across all processes."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.journal = MemoryJournal()

    def agent(self, *script: Any, **options: Any) -> Agent[Any]:
        """One as another process makes it."""

        @tool(effect="write")
        async def pay(euros: int, context: ToolContext) -> str:
            """Pay."""
            self.did.append(f"paid {euros} for {context.deps}")
            return f"paid {euros}"

        @tool(effect="write")
        async def book(city: str, context: ToolContext) -> str:
            """Book."""
            chosen = await context.ask(ClarificationQuestion(question="Which class?"))
            return f"{city} in class {chosen}"

        given: dict[str, Any] = {
            "tools": [pay, book],
            "middleware": [ToolPermission(ask=["pay"], allow=["*"])],
            "journal": self.journal,
            "on_wait": "suspend",
            **options,
        }
        return Agent(ScriptedModel(*script), **given)

    async def approved(self, *calls: ToolCall, **options: Any) -> None:
        """A turn that asked for permissions, and whose answers came by another process."""
        waiting = await self.agent(calls or PAY, **options).run("go", session="ada")
        assert waiting.status is Status.WAITING
        for question in waiting.questions:
            if isinstance(question, PermissionQuestion):
                assert await self.agent().answer("ada", question.approve())


async def read(run: RunStream[Any]) -> list[Item]:
    return [item async for item in run]


def kinds(items: list[Item]) -> list[str]:
    return [type(item).__name__ for item in items]


def written(items: list[Item]) -> str:
    return "".join(item.text for item in items if isinstance(item, TextDelta))


def told(result: Result[Any]) -> tuple[object, ...]:
    """All that a result says."""
    return (result.output, result.status, result.messages, result.usage, result.iterations)


async def test_what_happens_after_an_answer_is_shown_and_what_was_before_is_not() -> None:
    world = World()
    await world.approved()
    before = {record.event.key for record in await world.journal.read("ada")}
    async with world.agent("It is paid.").resume_stream("ada", deps="Ann") as run:
        items = await read(run)
    assert world.did == ["paid 5 for Ann"]
    assert written(items) == "It is paid."
    events = [item for item in items if isinstance(item, ev.Event)]
    assert kinds(events) == ["TurnResumed", "ToolFinished", "ModelReplied", "TurnClosed"]
    assert not before & {event.key for event in events}
    assert [item.name for item in items if isinstance(item, ToolStarted)] == ["pay"]
    assert (run.result.status, run.result.output) == (Status.COMPLETED, "It is paid.")
    assert told(run.result) == told(await world.agent().resume("ada"))


async def test_a_question_of_the_rest_is_answered_through_the_stream() -> None:
    world = World()
    await world.approved()
    asked = []
    async with world.agent(BOOK, "Done.").resume_stream("ada") as run:
        async for item in run:
            if isinstance(item, Question):
                asked.append(item)
                assert run.answer(item, "2")
    assert [question.key for question in asked] == ["t1.i1.tool.0.ask.0"]
    assert run.result.output == "Done."
    assert run.result.messages[4].parts[0].text == "Porto in class 2"


async def test_a_question_that_is_still_open_is_put_to_the_reader() -> None:
    world = World()
    await world.approved(PAY, BOOK)
    async with world.agent("Done.").resume_stream("ada") as run:
        async for item in run:
            if isinstance(item, ClarificationQuestion):
                assert run.answer(item, "1")
    assert run.result.status is Status.COMPLETED
    assert world.did == ["paid 5 for None"]
    assert [part.text for part in run.result.messages[2].parts] == ["paid 5", "Porto in class 1"]


async def test_a_question_that_the_reader_passes_by_stays_open() -> None:
    world = World()
    await world.approved(PAY, BOOK)
    async with world.agent("Done.").resume_stream("ada") as run:
        items = await read(run)
    assert [item.question for item in items if isinstance(item, ClarificationQuestion)]
    assert run.result.status is Status.WAITING
    assert [type(one) for one in run.result.questions] == [ClarificationQuestion]
    assert await world.agent().questions("ada") == run.result.questions


async def test_who_stops_to_watch_lets_the_turn_end_unseen() -> None:
    world = World()
    await world.approved()
    async with world.agent("Done.").resume_stream("ada") as run:
        result = await run.wait()
    assert result.output == "Done."


async def test_leaving_early_cancels_and_the_session_goes_on() -> None:
    world = World()
    await world.approved()
    begun, ended = asyncio.Event(), asyncio.Event()

    async def never(_: object) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    async with world.agent(never).resume_stream("ada") as run:
        async for item in run:
            if isinstance(item, ToolFinished):
                break
        await begun.wait()
    assert ended.is_set()
    with pytest.raises(asyncio.CancelledError):
        _ = run.result
    last = (await world.journal.read("ada"))[-1].event
    assert isinstance(last, ev.TurnClosed)
    assert last.status is Status.CANCELLED
    later = await world.agent("Hello again.").run("and now?", session="ada")
    assert later.output == "Hello again."
    assert world.did == ["paid 5 for None"]


async def test_a_turn_that_a_crash_cut_short_goes_on_from_its_last_record() -> None:
    world = World()
    with pytest.raises(SimulatedCrash):
        await world.agent("Hello.", journal=CrashAt(world.journal, 1)).run("go", session="ada")
    async with world.agent("Hello.").resume_stream("ada") as run:
        items = await read(run)
    assert written(items) == "Hello."
    assert "TurnOpened" not in kinds(items)
    assert run.result.output == "Hello."


async def test_of_a_turn_that_is_over_nothing_is_shown() -> None:
    world = World()
    first = await world.agent("Hello.").run("go", session="ada")
    async with world.agent().resume_stream("ada") as run:
        assert await read(run) == []
    assert run.result.output == first.output
    assert told(run.result) == told(await world.agent().resume("ada"))


async def test_its_errors_come_where_those_of_a_stream_come() -> None:
    async with World().agent().resume_stream("nobody") as run:
        with pytest.raises(ConfigurationError, match="knows no run 'nobody'"):
            await read(run)
    with pytest.raises(ConfigurationError, match="knows no run 'nobody'"):
        _ = run.result
    async with Agent(ScriptedModel()).resume_stream("ada") as run:
        with pytest.raises(ConfigurationError, match="there is none to resume from"):
            await run.wait()


async def test_what_an_agent_does_in_a_tool_is_shown_as_its() -> None:
    world = World()
    task = ToolCall("c3", "desk", '{"task": "pay"}')
    one: dict[str, Any] = {"journal": None, "on_wait": "hold"}

    def boss(*script: Any, desk: tuple[Any, ...] = ()) -> Agent[Any]:
        inner = world.agent(*desk, name="desk", **one)
        return world.agent(*script, tools=[inner.as_tool()], middleware=[])

    waiting = await boss(task, desk=(PAY,)).run("go", session="ada")
    (question,) = waiting.questions
    assert isinstance(question, PermissionQuestion)
    await boss().answer("ada", question.approve())
    async with boss("Done.", desk=("It is paid.",)).resume_stream("ada") as run:
        items = await read(run)
    inner = [item.item for item in items if isinstance(item, FromAgent)]
    assert {item.chain for item in items if isinstance(item, FromAgent)} == {("desk",)}
    assert [event.reply.text for event in inner if isinstance(event, ModelReplied)] == [
        "It is paid."
    ]
    assert "".join(item.text for item in inner if isinstance(item, TextDelta)) == "It is paid."
    assert world.did == ["paid 5 for None"]
    assert run.result.output == "Done."


async def test_a_typed_answer_is_shown_while_it_is_written() -> None:
    world = World()
    await world.approved(output=Trip)
    typed = world.agent('{"city": "Porto", "days": 2}', output=Trip)
    async with typed.resume_stream("ada") as run:
        seen = [str(part) async for part in run.partials()]
    assert seen[-1] == "{'city': 'Porto', 'days': 2}"
    assert run.result.output == Trip("Porto", 2)


async def test_the_text_of_the_rest_is_the_text_of_the_stream() -> None:
    world = World()
    await world.approved()
    async with world.agent("Done.").resume_stream("ada") as run:
        assert [text async for text in run.text()] == ["Done."]


async def test_it_waits_for_the_turn_that_is_under_way_or_is_refused() -> None:
    world = World()
    begun, free = asyncio.Event(), asyncio.Event()

    async def slow(_: object) -> str:
        begun.set()
        await free.wait()
        return "Hello."

    first = asyncio.create_task(world.agent(slow).run("go", session="ada"))
    await begun.wait()
    async with world.agent(on_busy="refuse").resume_stream("ada") as run:
        with pytest.raises(SessionBusyError):
            await read(run)
    async with world.agent().resume_stream("ada") as run:
        free.set()
        assert await read(run) == []
    assert run.result.output == (await first).output


@pytest.mark.parametrize("pauses", range(0, 24, 2))
async def test_leaving_at_any_moment_leaves_a_turn_that_is_closed_or_goes_on(pauses: int) -> None:
    world = World()
    await world.approved()
    async with world.agent("Done.").resume_stream("ada"):
        for _ in range(pauses):
            await asyncio.sleep(0)
    after = (await world.journal.read("ada"))[-1].event
    if isinstance(after, ev.TurnClosed):
        assert after.status in (Status.CANCELLED, Status.COMPLETED)
        assert (await world.agent("Hi.").run("and now?", session="ada")).output == "Hi."
    else:
        assert (await world.agent("Done.").resume("ada")).output == "Done."
    assert world.did.count("paid 5 for None") <= 1
