"""A text that a hook gives, in place of a reply or of a result, reaches readers and guards."""

from __future__ import annotations

import io
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import (
    Agent,
    ConfigurationError,
    HoldfastError,
    Limits,
    Middleware,
    ModelReplied,
    Reply,
    RunStream,
    TextDelta,
    ToolError,
    tool,
)
from holdfast.cli.run_printer import RunPrinter
from holdfast.core.messages import Text, ToolCall
from holdfast.errors import TextWithdrawn
from holdfast.events import Observation, ReplyReplaced
from holdfast.middleware import (
    AfterReply,
    ContinuationPermission,
    ErrorTracking,
    Guidance,
    IterationCache,
    ModelCall,
    RepetitionGuard,
    Replace,
    Stop,
    TotalErrorThreshold,
    UseReply,
)
from holdfast.testing import FakeClock, ScriptedModel


@tool(effect="read")
def look() -> str:
    """Look."""
    raise RuntimeError("no route to db-7")


@tool(effect="write")
def pay() -> str:
    """Pay."""
    return "paid"


def calls(name: str, count: int) -> list[ToolCall | str]:
    return [*(ToolCall(str(number), name, "{}") for number in range(count)), "done"]


async def read(agent: Agent[str], *, live: bool) -> str:
    async with agent.stream("go") as run:
        return "".join([text async for text in run.text(live=live)])


class OwnWords(Middleware):
    async def after_tool(self, context: Any) -> Replace | None:
        return Replace("It did not work.") if context.exception else None


@pytest.mark.parametrize("formatter_first", [True, False])
async def test_a_formatter_of_your_own_keeps_the_failure(*, formatter_first: bool) -> None:
    pair: list[Middleware[Any]] = [OwnWords(), ErrorTracking(2)]
    middleware = pair if formatter_first else pair[::-1]
    model = ScriptedModel(*calls("look", 4))
    agent = Agent(model, tools=[look], middleware=middleware, clock=FakeClock())
    result = await agent.run("go")
    assert result.status == "stopped"
    part: Any = result.messages[2].parts[0]
    assert (part.text, part.is_error) == ("It did not work.", True)


class Guard(Middleware):
    def __init__(self, hook: str) -> None:
        self.hook = hook

    async def before_turn(self, context: Any) -> Stop | None:
        return Stop("why", "Closed.") if self.hook == "before_turn" else None

    async def before_iteration(self, context: Any) -> Stop | None:
        return Stop("why", "Closed.") if self.hook == "before_iteration" else None

    async def before_tools(self, context: Any) -> Stop | None:
        return Stop("why", "Closed.") if self.hook == "before_tools" else None


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("hook", ["before_turn", "before_iteration", "before_tools"])
async def test_the_closing_words_of_a_stopped_turn_are_streamed(hook: str, *, live: bool) -> None:
    agent = Agent(ScriptedModel(*calls("pay", 1)), tools=[pay], middleware=[Guard(hook)])
    assert await read(agent, live=live) == "Closed."


@pytest.mark.parametrize("live", [True, False])
async def test_a_denied_continuation_streams_its_closing_words(*, live: bool) -> None:
    middleware = [ContinuationPermission(1, timeout=0.01)]
    agent = Agent(ScriptedModel(*calls("pay", 2)), tools=[pay], middleware=middleware)
    assert (await read(agent, live=live)).startswith("Execution terminated: Maximum iteration")


class Prepared(Middleware):
    def __init__(self, hook: str) -> None:
        self.hook = hook

    async def before_iteration(self, context: Any) -> UseReply | None:
        return UseReply("prepared") if self.hook == "before_iteration" else None

    async def after_reply(self, context: Any) -> UseReply | None:
        return UseReply("prepared") if self.hook == "after_reply" and context.exception else None


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("hook", ["before_iteration", "after_reply"])
async def test_a_reply_that_a_hook_gives_is_streamed(hook: str, *, live: bool) -> None:
    model = ScriptedModel(HoldfastError("down"))
    agent = Agent(model, middleware=[Prepared(hook)], clock=FakeClock())
    assert await read(agent, live=live) == "prepared"


class Seen(Middleware):
    def __init__(self) -> None:
        self.replaced: list[bool] = []
        self.messages: list[Any] = []

    async def after_reply(self, context: Any) -> None:
        self.replaced.append(context.replaced)
        self.messages.append(context.messages)


async def test_a_hit_of_the_iteration_cache_is_streamed_and_visible(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "holdfast")
    seen = Seen()
    agent = Agent(ScriptedModel("one"), middleware=[IterationCache(), seen])
    assert [await read(agent, live=True) for _ in range(2)] == ["one", "one"]
    assert seen.replaced == [False, True]
    assert [line for line in caplog.messages if line.startswith("Cache hit for iteration 0")]


async def test_the_messages_that_a_hook_keeps_do_not_change() -> None:
    seen = Seen()
    agent = Agent(ScriptedModel(*calls("pay", 1)), tools=[pay], middleware=[seen])
    await agent.run("go")
    assert [len(messages) for messages in seen.messages] == [1, 3]


class Warnings(Middleware):
    def __init__(self) -> None:
        self.lines: list[str] = []

    async def before_iteration(self, context: Any) -> None:
        _, _, warning = context.instructions.partition("WARNING: ")
        self.lines.append(warning.partition(" iteration(s)")[0])


@pytest.mark.parametrize("guidance", [Guidance(), Guidance(None), Guidance(4)])
async def test_guidance_counts_from_the_limit_that_holds(guidance: Guidance) -> None:
    async def extend(question: Any) -> Any:
        return question.approve()

    warnings = Warnings()
    agent = Agent(
        ScriptedModel(*calls("pay", 9)),
        tools=[pay],
        middleware=[ContinuationPermission(extension=5), guidance, warnings],
        limits=Limits(iterations=5),
        on_question=extend,
    )
    await agent.run("go")
    assert not [line for line in warnings.lines if line.endswith((" 0", "-1", "-2"))]
    assert warnings.lines[7:] == ["Only 3", "Only 2", "Only 1"]
    assert warnings.lines[5] == ""
    assert warnings.lines[2] == ("Only 2" if guidance.max_iterations == 4 else "Only 3")


class Raises(Middleware):
    def __init__(self, hook: str, error: Exception) -> None:
        self.hook = hook
        self.error = error

    async def before_tool(self, context: Any) -> None:
        if self.hook == "before_tool":
            raise self.error

    async def wrap_tool(self, context: Any, call_next: Any) -> Any:
        result = await call_next(context) if self.hook == "wrap_tool" else None
        if self.hook in ("wrap_tool", "instead"):
            raise self.error
        return result or await call_next(context)


@tool(effect="read")
def peek() -> str:
    """Peek."""
    return "seen"


async def read_result(name: str, hook: str, error: Exception, *, detailed: bool = False) -> str:
    agent = Agent(
        ScriptedModel(*calls(name, 1)),
        tools=[pay, peek],
        middleware=[Raises(hook, error)],
        detailed_errors=detailed,
    )
    part: Any = (await agent.run("go")).messages[2].parts[0]
    assert part.is_error
    return str(part.text)


IN_DOUBT = " It may have taken effect: check before calling it again."


@pytest.mark.parametrize("hook", ["before_tool", "wrap_tool", "instead"])
async def test_what_a_hook_of_a_tool_raises_follows_the_flag(hook: str) -> None:
    error = RuntimeError("boom, password=hunter2")
    assert await read_result("peek", hook, error) == "Error: Function 'peek' failed."
    detailed = await read_result("peek", hook, error, detailed=True)
    assert detailed == "Error invoking function 'peek': boom, password=[redacted]"
    assert await read_result("peek", hook, ToolError("Try Monday.")) == "Try Monday."


async def test_only_what_may_have_taken_effect_is_said_to() -> None:
    error = RuntimeError("boom")
    assert (
        await read_result("pay", "wrap_tool", error) == f"Error: Function 'pay' failed.{IN_DOUBT}"
    )
    detailed = await read_result("pay", "wrap_tool", error, detailed=True)
    assert detailed == f"Error invoking function 'pay': boom.{IN_DOUBT}"
    assert await read_result("pay", "instead", error) == "Error: Function 'pay' failed."


# A reply that a hook replaces after it was streamed.


class After(Middleware):
    """Replaces each reply after it was streamed."""

    def __init__(self, text: str) -> None:
        self.text = text

    async def after_reply(self, context: AfterReply) -> UseReply:
        return UseReply(self.text)


class Around(After):
    """Replaces each reply around the model call."""

    async def wrap_model(
        self, context: ModelCall, call_next: Callable[[ModelCall], Awaitable[Reply]]
    ) -> Reply:
        await call_next(context)
        return Reply((Text(self.text),))

    async def after_reply(self, context: AfterReply) -> None:  # type: ignore[override]
        return None


KINDS = pytest.mark.parametrize("kind", [After, Around])


def make_replacing_agent(kind: type[After], text: str = "a new reply") -> Agent[str]:
    return Agent(ScriptedModel("one two three", "more"), middleware=[kind(text)])


@KINDS
async def test_a_reader_of_items_gets_the_new_text_before_the_reply(kind: type[After]) -> None:
    live, texts = "", []
    async with make_replacing_agent(kind).stream("Hi") as run:
        async for item in run:
            if isinstance(item, TextDelta):
                live += item.text
            elif isinstance(item, ReplyReplaced):
                texts.append(live)
                live = ""
            elif isinstance(item, ModelReplied):
                texts.append(live)
                assert item.reply.text == live
    assert texts == ["one two three", "a new reply"]


@KINDS
async def test_live_text_is_withdrawn_and_then_yielded_once(kind: type[After]) -> None:
    shown: list[str] = []

    async def show(run: RunStream[str]) -> None:
        async for text in run.text(live=True):
            shown.append(text)  # noqa: PERF401  # REASON: the pieces before the error count

    async with make_replacing_agent(kind).stream("Hi") as run:
        with pytest.raises(TextWithdrawn) as withdrawn:
            await show(run)
        assert withdrawn.value.text == "".join(shown) == "one two three"
        assert [text async for text in run.text(live=True)] == ["a new reply"]


@KINDS
async def test_equal_text_is_neither_withdrawn_nor_yielded_twice(kind: type[After]) -> None:
    async with make_replacing_agent(kind, "one two three").stream("Hi") as run:
        texts = [text async for text in run.text(live=True)]
    assert "".join(texts) == "one two three"


@KINDS
async def test_committed_text_is_the_new_reply(kind: type[After]) -> None:
    async with make_replacing_agent(kind).stream("Hi") as run:
        assert [text async for text in run.text()] == ["a new reply"]


@KINDS
async def test_the_terminal_shows_the_new_text_once(kind: type[After]) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    for screen, expected in (
        (Screen(), "one two three\na new reply\n"),
        (io.StringIO(), "a new reply\n"),
    ):
        printer = RunPrinter(screen, io.StringIO())
        async with make_replacing_agent(kind).stream("Hi") as run:
            async for item in run:
                printer.print_item(item)
        printer.finish_line()
        assert screen.getvalue() == expected


class City(BaseModel):
    name: str


async def test_a_preview_of_an_output_starts_over() -> None:
    model = ScriptedModel('{"name": "Porto"}')
    with_output = Agent(model, output=City, middleware=[After('{"name": "Faro"}')])
    async with with_output.stream("Hi") as run:
        values = [
            dict(value) if isinstance(value, dict) else value async for value in run.partials()
        ]
    assert values[-1] == {"name": "Faro"}
    assert None in values
    assert run.result.output == City(name="Faro")


async def test_a_reply_that_is_not_replaced_is_streamed_once() -> None:
    seen: list[Observation] = []
    plain = Agent(ScriptedModel("one two"), observers=[seen.append])
    async with plain.stream("Hi") as run:
        assert [text async for text in run.text(live=True)] == ["one", " two"]
    assert sum(isinstance(one.item, TextDelta) for one in seen) == 2


# The words that end a stopped turn, in another language for example.


@tool(name="look", effect="read")
def look_without_route() -> str:
    """Look."""
    raise RuntimeError("no route")


@pytest.mark.parametrize(
    ("guard", "words"),
    [
        (ErrorTracking(2, text="{count} von {max} Fehlern."), "2 von 2 Fehlern."),
        (TotalErrorThreshold(2, text="Zu viele Fehler: {count}."), "Zu viele Fehler: 2."),
        (RepetitionGuard(3, text="{tool} {count}-mal."), "look 3-mal."),
        (ContinuationPermission(1, text="Ende {hier}."), "Ende {hier}."),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_each_guard_takes_its_closing_words(guard: Middleware[Any], words: str) -> None:
    calls = [ToolCall(str(number), "look", "{}") for number in range(9)]
    agent = Agent(
        ScriptedModel(*calls), tools=[look_without_route], middleware=[guard], clock=FakeClock()
    )
    async with agent.stream("go") as run:
        shown = "".join([text async for text in run.text()])
        result = await run.wait()
    assert (shown, result.text, result.status) == (words, words, "stopped")


@pytest.mark.parametrize("text", ["{}", "{counts}", "{count:x}", "{count.real}", "{", "{count!r}"])
def test_a_wrong_placeholder_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"text: must be .* \{count\} and \{max\}"):
        ErrorTracking(text=text)
