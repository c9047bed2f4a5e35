"""Dynamic instructions: texts and functions, called once for each turn and saved with it."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable

import pytest

from holdfast import Agent, InstructionsContext, MemoryJournal, Middleware, RetryOptions, tool
from holdfast.core.errors import ConfigurationError, MiddlewareError, ProviderError
from holdfast.core.events import TurnOpened
from holdfast.core.messages import ToolCall
from holdfast.middleware import Patch
from holdfast.runtime import instructions as module
from holdfast.testing import CrashAt, ScriptedModel, SimulatedCrash


def fixed() -> str:
    return "fixed"


async def later() -> str:
    await asyncio.sleep(0)
    return "later"


def of_context(context: InstructionsContext) -> str:
    return f"{context.deps} in {context.session}, turn {context.turn}: {context.message.text}"


async def of_context_later(context: InstructionsContext) -> str:
    return f"{context.agent} after {len(context.messages)}"


class OfTurn:
    def __call__(self, context: InstructionsContext) -> str:
        return context.key


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("text", "text"),
        (fixed, "fixed"),
        (later, "later"),
        (of_context, "db in ada, turn 1: Hi"),
        (of_context_later, "agent after 0"),
        (OfTurn(), "t1"),
        (functools.partial(lambda who, context: f"{who} {context.turn}", "Bo"), "Bo 1"),
        (["a", fixed, later, "b"], "a\n\nfixed\n\nlater\n\nb"),
        (["a", "", lambda: None, lambda: "", "b"], "a\n\nb"),
        (["a", "b"], "a\n\nb"),
        ([], ""),
    ],
)
async def test_texts_and_functions_make_the_instructions(given: object, shown: str) -> None:
    model = ScriptedModel("ok")
    await Agent(model, instructions=given).run("Hi", session="ada", deps="db")
    assert model.requests[0].instructions == shown


async def test_a_function_is_called_once_for_each_turn_and_not_for_each_request() -> None:
    calls: list[int] = []

    def number(context: InstructionsContext) -> str:
        calls.append(context.turn)
        return f"turn {context.turn}, {len(context.messages)} before"

    model = ScriptedModel(ToolCall("a", "look", "{}"), "one", "two")
    agent = Agent(model, instructions=number, tools=[look])
    await agent.run("Hi", session="s")
    await agent.run("Again", session="s")
    assert calls == [1, 2]
    assert [one.instructions for one in model.requests] == [
        "turn 1, 0 before",
        "turn 1, 0 before",
        "turn 2, 4 before",
    ]


@tool(effect="read")
def look() -> str:
    """Look."""
    return "seen"


async def test_a_sync_function_does_not_block_the_event_loop() -> None:
    threads: list[object] = []
    await Agent(
        ScriptedModel("ok"), instructions=lambda: threads.append(threading.get_ident())
    ).run("Hi")
    assert threads != [threading.get_ident()]


async def test_a_hook_sees_and_changes_what_the_functions_gave() -> None:
    class More(Middleware):
        async def before_turn(self, context: object) -> Patch:
            return Patch(instructions=context.instructions + " and more")  # type: ignore[attr-defined]

    model = ScriptedModel("ok")
    await Agent(model, instructions=fixed, middleware=[More()]).run("Hi")
    assert model.requests[0].instructions == "fixed and more"


def counting() -> tuple[list[int], Callable[[], str]]:
    calls: list[int] = []

    def number() -> str:
        calls.append(1)
        return f"call {len(calls)}"

    return calls, number


@pytest.mark.parametrize("moment", range(1, 6))
async def test_a_resumed_turn_has_the_instructions_that_it_began_with(moment: int) -> None:
    calls, number = counting()
    journal = MemoryJournal()
    lines = [ToolCall("a", "look", "{}"), "done"]
    first, second = ScriptedModel(*lines), ScriptedModel(*lines[moment > 1 :], "more")
    with pytest.raises(SimulatedCrash):
        await Agent(first, instructions=number, tools=[look], journal=CrashAt(journal, moment)).run(
            "Hi", session="s"
        )
    await Agent(second, instructions=number, tools=[look], journal=journal).resume("s")
    assert calls == [1]
    assert {one.instructions for one in (*first.requests, *second.requests)} == {"call 1"}


async def test_a_turn_that_is_tried_again_has_the_same_instructions() -> None:
    calls, number = counting()
    model = ScriptedModel(ProviderError("down"), "done")
    once = RetryOptions(max_retries=0)
    agent = Agent(model, instructions=number, retry=once, journal=MemoryJournal())
    with pytest.raises(ProviderError):
        await agent.run("Hi", session="s")
    await agent.resume("s")
    assert [one.instructions for one in model.requests] == ["call 1", "call 1"]
    assert calls == [1]


async def test_a_turn_that_began_with_a_text_calls_the_functions_of_a_newer_agent() -> None:
    journal = MemoryJournal()
    with pytest.raises(SimulatedCrash):
        await Agent(ScriptedModel("no"), instructions="old", journal=CrashAt(journal, 1)).run(
            "Hi", session="s"
        )
    model = ScriptedModel("ok")
    await Agent(model, instructions=of_context, journal=journal).resume("s", deps="db")
    assert model.requests[0].instructions == "db in s, turn 1: Hi"


async def test_an_agent_that_is_a_tool_reads_the_deps_of_its_caller() -> None:
    inner = ScriptedModel("done")
    helper = Agent(inner, name="helper", instructions=lambda context: f"for {context.deps}")
    outer = ScriptedModel(ToolCall("a", "helper", '{"task": "Help"}'), "ok")
    await Agent(outer, tools=[helper.as_tool()]).run("Hi", deps="ann")
    assert inner.requests[0].instructions == "for ann"


def broken() -> str:
    raise KeyError("sk-1234567890abcdefghijklmnop")


async def silent() -> str:
    await asyncio.sleep(30)
    return ""


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (broken, "instructions.broken raised KeyError"),
        (lambda: 7, "instructions.<lambda> returned int; it must return a text or None"),
        (silent, "instructions.silent did not end within 0.05 s"),
    ],
)
async def test_a_function_that_fails_begins_no_turn(
    function: Callable[[], object], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HOOK_TIMEOUT", 0.05 if function is silent else 5.0)
    journal, model = MemoryJournal(), ScriptedModel("no")
    agent = Agent(model, instructions=["a", function], journal=journal)
    with pytest.raises(MiddlewareError) as caught:
        await agent.run("Hi", session="s")
    assert str(caught.value) == problem
    assert "sk-12345" not in caught.value.info.private
    assert await journal.read("s") == []
    assert model.requests == []


async def test_a_turn_that_is_cancelled_in_a_function_saves_nothing() -> None:
    journal = MemoryJournal()
    agent = Agent(ScriptedModel("no"), instructions=silent, journal=journal)
    task = asyncio.ensure_future(agent.run("Hi", session="s"))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await journal.read("s") == []


TWO_ARGUMENTS = (
    "instructions[0]: <lambda>(one, two) cannot be called with one InstructionsContext. "
    "Read other values from `context.deps`"
)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (7, "instructions: must be a text, a function or a list; got int"),
        (b"x", "instructions: must be a text, a function or a list; got bytes"),
        (None, "instructions: must be a text, a function or a list; got NoneType"),
        (["a", 7], "instructions[1]: must be a text or a function, got int"),
        (
            [lambda one, two: ""],
            TWO_ARGUMENTS,
        ),
    ],
)
def test_wrong_instructions_are_refused_with_the_place_and_the_fix(
    given: object, message: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Agent("ollama:qwen3", instructions=given)
    assert str(caught.value) == message


async def test_a_text_is_not_repeated_in_the_journal() -> None:
    journal = MemoryJournal()
    await Agent(ScriptedModel("ok"), instructions=["a", "b"], journal=journal).run(
        "Hi", session="s"
    )
    opened = (await journal.read("s"))[0].event
    assert isinstance(opened, TurnOpened)
    assert opened.instructions is None
