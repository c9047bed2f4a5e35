"""Partial objects while an answer is written: in every mode, across attempts, and never promised."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import Agent, StructuredOutput, tool
from holdfast.core.deltas import TextDelta, ToolCallDelta
from holdfast.core.errors import ConfigurationError, ErrorCategory, ErrorInfo
from holdfast.core.messages import Reply, Text, ToolCall
from holdfast.core.model_request import ModelRequest, OutputSchema, ToolSpec
from holdfast.core.notices import AttemptAbandoned, AttemptStarted
from holdfast.core.partial_json import Partials
from holdfast.journal.memory import MemoryJournal
from holdfast.resilience.pipeline import CallContext, Outcome
from holdfast.testing import ScriptedModel

WANTED = OutputSchema("Trip", {"type": "object"}, tools=(ToolSpec("final_answer", "", {}),))
LISTED = OutputSchema("List", {"type": "array"}, tools=WANTED.tools, envelope={"type": "object"})
DOWN = ErrorInfo(category=ErrorCategory.TRANSIENT, safe="down")


@dataclass
class Trip:
    city: str
    days: int


def shown(output: OutputSchema, *items: Any) -> list[object]:
    partials = Partials(output)
    return [copy.deepcopy(partials.value) for item in items if partials.feed(item)]


def test_text_and_calls_are_shown_alike() -> None:
    pieces = ('{"city": "Po', 'rto", "days"', ": 2}")
    values = [{"city": "Po"}, {"city": "Porto"}, {"city": "Porto", "days": 2}]
    assert shown(WANTED, *map(TextDelta, pieces)) == values
    first, *rest = pieces
    call = [ToolCallDelta(0, "a", "final_answer", first)]
    assert shown(WANTED, *call, *[ToolCallDelta(0, arguments=more) for more in rest]) == values


def test_words_and_calls_of_other_tools_are_passed_over() -> None:
    assert shown(
        WANTED,
        TextDelta("Let me look [1]: "),
        ToolCallDelta(0, "a", "weather", '{"city": "Faro"}'),
        ToolCallDelta(1, "b", "final_answer", '{"city":'),
        TextDelta("{}"),
        ToolCallDelta(0, arguments='{"x": 1}'),
        ToolCallDelta(1, arguments='"Porto"'),
    ) == [{}, {"city": "Porto"}]


def test_an_abandoned_attempt_is_void_and_the_next_begins_again() -> None:
    assert shown(
        WANTED,
        AttemptStarted("t1.i0.model", 1),
        TextDelta('{"city": "Por'),
        AttemptAbandoned("t1.i0.model", 1, DOWN),
        AttemptStarted("t1.i0.model", 2),
        TextDelta('{"city": "Faro"'),
    ) == [{"city": "Por"}, None, {"city": "Faro"}]


def test_an_attempt_that_goes_on_keeps_what_there_is() -> None:
    assert shown(
        WANTED,
        TextDelta('{"city": "Por'),
        AttemptStarted("t1.i0.model", 2, "", True),
        TextDelta('to"'),
    ) == [{"city": "Por"}, {"city": "Porto"}]


def test_what_is_no_object_comes_out_of_its_envelope() -> None:
    assert shown(LISTED, TextDelta('{"answer": [1, 2'), TextDelta(", 3]}")) == [[1], [1, 2, 3]]
    assert shown(LISTED, TextDelta("[1, 2"), TextDelta(", 3]")) == [[1], [1, 2, 3]]


async def test_a_run_shows_them_and_takes_back_what_did_not_fit() -> None:
    model = ScriptedModel('{"city": "Rome", "days": "x"}', '{"city": "Porto", "days": 2}')
    agent = Agent(model, output=StructuredOutput(Trip))
    async with agent.stream("go") as run:
        seen = [copy.deepcopy(partial) async for partial in run.partials()]
        assert run.result.output == Trip("Porto", 2)
    void = seen.index(None)
    assert seen[void - 1] == {"city": "Rome", "days": "x"}
    assert seen[-1] == {"city": "Porto", "days": 2}


async def test_an_answer_that_is_text_has_no_parts() -> None:
    async with Agent(ScriptedModel("Hi")).stream("go") as run:
        with pytest.raises(ConfigurationError, match="output"):
            async for _ in run.partials():
                pass


class LeavesAPartial(ScriptedModel):
    """Its first attempt leaves a partial reply behind, as an attempt cut by a timeout does."""

    async def attempt(self, call: CallContext[ModelRequest]) -> Outcome[Reply]:
        """As scripted; the first one says first that it was cut."""
        if not self.requests and call.execution.keep_partial is not None:
            call.execution.keep_partial(Reply((Text("stale words"),)))
        return await super().attempt(call)


async def test_an_interruption_saves_no_partial_reply_of_an_earlier_iteration() -> None:
    waiting = asyncio.Event()

    @tool
    def look() -> str:
        """Look."""
        return "ok"

    async def hang(_request: ModelRequest) -> str:
        waiting.set()
        await asyncio.Event().wait()
        return ""

    journal = MemoryJournal()
    agent = Agent(LeavesAPartial(ToolCall("c", "look"), hang, "on"), tools=[look], journal=journal)
    run = asyncio.create_task(agent.run("go", session="s"))
    await waiting.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    result = await agent.run("and?", session="s")
    assert "stale words" not in "".join(message.text for message in result.messages)
