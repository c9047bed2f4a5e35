"""Hooks and tools that ask, as the third document describes it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.tool_results import results_in_history

from holdfast import Agent, ClarificationQuestion, PermissionQuestion, Question, ToolContext, tool
from holdfast.core.messages import ToolCall
from holdfast.errors import UnansweredError
from holdfast.events import BreakerChanged, RetryScheduled, ToolStarted
from holdfast.middleware import Middleware, Patch, Stop
from holdfast.testing import FakeClock, ScriptedModel

CALL = ToolCall("1", "fetch", "{}")


class Sure(Question[bool], frozen=True):
    """A question with an answer of its own type."""

    text: str = ""


@tool(effect="read")
def fetch() -> str:
    """Fetch."""
    return "data"


class Asks(Middleware):
    """Asks in one hook."""

    def __init__(self, hook: str) -> None:
        self.answers: list[Any] = []

        async def ask(context: Any) -> None:
            self.answers.append(await context.ask(Sure(text="Sure?")))

        setattr(self, hook, ask)


@pytest.mark.parametrize("hook", ["before_iteration", "after_reply", "before_tool", "after_tool"])
async def test_a_hook_asks_and_goes_on_with_the_typed_answer(hook: str) -> None:
    asks = Asks(hook)
    agent = Agent(ScriptedModel(CALL, "end"), tools=[fetch], middleware=[asks])
    async with agent.stream("Go.") as run:
        async for item in run:
            if isinstance(item, Sure):
                run.answer(item.answer(value=True))
        assert (await run.wait()).text == "end"
    assert set(asks.answers) == {True}


async def test_a_no_before_an_expensive_call_ends_the_turn() -> None:
    class Confirms(Middleware):
        async def before_iteration(self, context: Any) -> Stop | None:
            answer = await context.ask(PermissionQuestion(tool="model"))
            return None if hasattr(answer, "arguments") else Stop("declined", "Not done.")

    async def decline(question: Any) -> Any:
        return question.deny()

    model = ScriptedModel()
    agent = Agent(model, middleware=[Confirms()], on_question=decline)
    result = await agent.run("Go.")
    assert (result.text, result.stop_reason, model.requests) == ("Not done.", "declined", [])


async def say_faro(question: Any) -> Any:
    assert isinstance(question, ClarificationQuestion)
    return question.answer("Faro")


async def test_an_answer_changes_the_instructions() -> None:
    class Clarifies(Middleware):
        async def before_iteration(self, context: Any) -> Patch:
            city = await context.ask(ClarificationQuestion(question="Which city?"))
            return Patch(instructions=f"City: {city}")

    model = ScriptedModel("end")
    await Agent(model, middleware=[Clarifies()], on_question=say_faro).run("Go.")
    assert model.requests[0].instructions == "City: Faro"


async def test_a_tool_asks_for_what_the_model_cannot_know() -> None:
    @tool(effect="read")
    async def book(context: ToolContext) -> str:
        """Book."""
        return await context.ask(ClarificationQuestion(question="Which city?"))

    model = ScriptedModel(ToolCall("1", "book", "{}"), "end")
    result = await Agent(model, tools=[book], on_question=say_faro).run("Go.")
    assert results_in_history(result) == ["Faro"]


async def test_an_unanswered_question_without_a_no_of_its_own_says_why() -> None:
    seen: list[BaseException] = []

    class Catches(Middleware):
        async def before_iteration(self, context: Any) -> Stop:
            try:
                await context.ask(Sure(text="Sure?"), timeout=0.01)
            except UnansweredError as error:
                seen.append(error)
            return Stop("unanswered", "Nobody answered.")

    agent = Agent(ScriptedModel(), middleware=[Catches()], clock=FakeClock())
    async with agent.stream("Go.") as run:
        items = [item async for item in run]
        assert (await run.wait()).text == "Nobody answered."
    assert any(isinstance(item, Sure) for item in items)
    (error,) = seen
    assert isinstance(error, UnansweredError)
    assert error.why == "timeout"
    assert not isinstance(error, TimeoutError)


async def test_a_stream_has_the_events_of_the_document() -> None:
    runs = []

    @tool(effect="read")
    def flaky() -> str:
        """Fails once."""
        runs.append(1)
        if len(runs) == 1:
            raise RuntimeError("no")
        return "ok"

    agent = Agent(
        ScriptedModel(ToolCall("1", "flaky", "{}"), "end"), tools=[flaky], clock=FakeClock()
    )
    async with agent.stream("Go.") as run:
        names = {type(item).__name__ async for item in run}
    assert {
        "TurnOpened",
        "TurnClosed",
        "TextDelta",
        ToolStarted.__name__,
        "ToolFinished",
        RetryScheduled.__name__,
    } <= names


SHOWN = BreakerChanged("mine", "closed", "open")
HOOKS = [
    "before_turn",
    "before_iteration",
    "wrap_model",
    "after_reply",
    "before_tools",
    "before_tool",
    "wrap_tool",
    "after_tool",
    "after_iteration",
    "after_turn",
]


def emits_in(hook: str) -> Middleware[Any]:
    async def emit(context: Any, *call_next: Any) -> Any:
        context.emit(SHOWN)
        return await call_next[0](context) if call_next else None

    middleware: Middleware[Any] = type("Emits", (Middleware,), {})()
    setattr(middleware, hook, emit)
    return middleware


@pytest.mark.parametrize("hook", HOOKS)
async def test_every_hook_of_a_turn_may_emit(hook: str) -> None:
    model = ScriptedModel(CALL, "end", CALL, "end")
    agent = Agent(model, tools=[fetch], middleware=[emits_in(hook)])
    async with agent.stream("Go.") as run:
        items = [item async for item in run]
    assert SHOWN in items
    assert (await agent.run("Nobody watches.")).text == "end"


async def test_what_a_hook_emits_before_it_asks_is_shown_before_the_question() -> None:
    class EmitsAndAsks(Middleware):
        async def before_iteration(self, context: Any) -> None:
            context.emit(SHOWN)
            await context.ask(Sure(text="Sure?"))
            context.emit(BreakerChanged("mine", "open", "closed"))

    seen: list[str] = []
    agent = Agent(ScriptedModel("end"), middleware=[EmitsAndAsks()])
    async with agent.stream("Go.") as run:
        async for item in run:
            if isinstance(item, Sure):
                seen.append("asked")
                run.answer(item.answer(value=True))
            elif isinstance(item, BreakerChanged):
                seen.append(item.after)
    assert seen == ["open", "asked", "closed"]
