"""Notices of hooks, of tools and of retries: who gets them, and with which fields."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from holdfast import (
    Agent,
    MemoryJournal,
    Middleware,
    RetryOptions,
    RetryScheduled,
    ToolContext,
    ToolStarted,
    tool,
)
from holdfast.core.errors import ConfigurationError, ErrorCategory, ErrorInfo, ProviderError
from holdfast.core.events import ToolFinished
from holdfast.core.messages import Reply, ToolCall, ToolResult
from holdfast.core.questions import ClarificationQuestion
from holdfast.event_log.live.reading import ReadingEnd
from holdfast.event_log.stream_items import EventItem, NoticeItem
from holdfast.events import CustomNotice, FromAgent, Observation, ToolsBegun
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.middleware import (
    AfterIteration,
    AfterReply,
    AfterTool,
    AfterTurn,
    BeforeIteration,
    BeforeTool,
    BeforeTools,
    BeforeTurn,
    ModelCall,
    OnError,
    ToolUse,
)
from holdfast.runtime.turn_state import channel as channel_module
from holdfast.runtime.turn_state.channel import Item
from holdfast.testing import FakeClock, ScriptedModel

# A hook or a tool emits a notice of a program's own class.


class Progress(CustomNotice, frozen=True):
    """A notice of the user's own."""

    percent: int


class Phase(CustomNotice, frozen=True, kw_only=True):
    """Another one."""

    name: str = "begun"


@tool(effect="read")
async def work(context: ToolContext) -> str:
    """Work."""
    context.emit(Progress(50))
    return "worked"


@tool(effect="read")
def grind(context: ToolContext) -> str:
    """Work in a thread."""
    for percent in (1, 2, 3):
        context.emit(Progress(percent))
    return threading.current_thread().name


class Announce(Middleware):
    async def before_iteration(self, context: BeforeIteration) -> None:
        context.emit(Phase(name=f"iteration {context.iteration}"))


async def read_own(items: AsyncIterator[Item]) -> list[CustomNotice]:
    return [item async for item in items if isinstance(item, CustomNotice)]


class EmitsEverywhere(Middleware):
    """Each of its hooks says its name."""

    async def before_turn(self, context: BeforeTurn) -> None:
        context.emit(Phase(name="before_turn"))

    async def before_iteration(self, context: BeforeIteration) -> None:
        context.emit(Phase(name="before_iteration"))

    async def wrap_model(
        self, context: ModelCall, call_next: Callable[[ModelCall], Awaitable[Reply]]
    ) -> Reply:
        context.emit(Phase(name="wrap_model"))
        return await call_next(context)

    async def after_reply(self, context: AfterReply) -> None:
        context.emit(Phase(name="after_reply"))

    async def before_tools(self, context: BeforeTools) -> None:
        context.emit(Phase(name="before_tools"))

    async def before_tool(self, context: BeforeTool) -> None:
        context.emit(Phase(name="before_tool"))

    async def wrap_tool(
        self, context: ToolUse, call_next: Callable[[ToolUse], Awaitable[ToolResult]]
    ) -> ToolResult:
        context.emit(Phase(name="wrap_tool"))
        return await call_next(context)

    async def wrap_attempt(
        self, context: ToolUse, call_next: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult:
        context.emit(Phase(name="wrap_attempt"))
        return await call_next()

    async def on_error(self, context: OnError) -> None:
        context.emit(Phase(name="on_error"))

    async def after_tool(self, context: AfterTool) -> None:
        context.emit(Phase(name="after_tool"))

    async def after_iteration(self, context: AfterIteration) -> None:
        context.emit(Phase(name="after_iteration"))

    async def after_turn(self, context: AfterTurn) -> None:
        context.emit(Phase(name="after_turn"))


async def test_every_hook_of_a_turn_emits_under_a_key_of_its_own() -> None:
    @tool(effect="write")
    async def broken() -> str:
        """Fail."""
        raise KeyError("x")

    model = ScriptedModel(ToolCall("1", "broken"), "done")
    agent = Agent(model, tools=[broken], middleware=[EmitsEverywhere()])
    async with agent.stream("Go") as run:
        seen = [(one.name, one.key) for one in await read_own(aiter(run)) if isinstance(one, Phase)]
    model_key, tool_key = "t1.i0.model", "t1.i0.tool.0"
    assert seen[:12] == [
        ("before_turn", "t1.accepted"),
        ("before_iteration", model_key),
        ("wrap_model", model_key),
        ("after_reply", model_key),
        ("before_tools", "t1.i0.begun"),
        ("before_tool", tool_key),
        ("wrap_tool", tool_key),
        ("wrap_attempt", tool_key),
        ("on_error", tool_key),
        ("after_tool", tool_key),
        ("after_iteration", "t1.i0.after"),
        ("before_iteration", "t1.i1.model"),
    ]
    assert seen[-1] == ("after_turn", "t1.closed")


async def test_what_a_hook_emits_before_it_asks_is_shown_before_the_question() -> None:
    class Asks(Middleware):
        async def before_tool(self, context: BeforeTool) -> None:
            context.emit(Phase(name="asking"))
            await context.ask(ClarificationQuestion(question="Go on?"))

    model = ScriptedModel(ToolCall("1", "work"), "done")
    order: list[str] = []
    async with Agent(model, tools=[work], middleware=[Asks()]).stream("Go") as run:
        async for item in run:
            if isinstance(item, Phase):
                order.append(item.name)
            elif isinstance(item, ClarificationQuestion):
                order.append(item.question)
                run.answer(item, "yes")
    assert order == ["asking", "Go on?"]


async def test_a_reader_gets_it_with_the_run_and_the_key() -> None:
    model = ScriptedModel(ToolCall("1", "work"), "done")
    agent = Agent(model, tools=[work], middleware=[Announce()])
    async with agent.stream("Go", session="ada") as run:
        assert await read_own(aiter(run)) == [
            Phase(name="iteration 0", run_id="ada", key="t1.i0.model"),
            Progress(50, run_id="ada", key="t1.i0.tool.0"),
            Phase(name="iteration 1", run_id="ada", key="t1.i1.model"),
        ]


async def test_an_observer_gets_it_without_a_reader() -> None:
    seen: list[Observation] = []
    model = ScriptedModel(ToolCall("1", "work"), "done")
    await Agent(model, tools=[work], observers=[seen.append]).run("Go", session="ada")
    found = [one for one in seen if isinstance(one.item, Progress)]
    assert [(one.run_id, one.item.key) for one in found if isinstance(one.item, Progress)] == [
        ("ada", "t1.i0.tool.0")
    ]


@pytest.mark.parametrize("observed", [False, True])
async def test_a_thread_emits_in_order_and_before_its_result(observed: bool) -> None:
    on_threads: list[int] = []
    observers = [lambda _: on_threads.append(threading.get_ident())] if observed else []
    agent = Agent(ScriptedModel(ToolCall("1", "grind"), "done"), tools=[grind], observers=observers)
    async with agent.stream("Go") as run:
        items = [item async for item in run if isinstance(item, Progress | ToolFinished)]
    assert [getattr(item, "percent", "finished") for item in items] == [1, 2, 3, "finished"]
    finished = items[-1]
    assert isinstance(finished, ToolFinished)
    assert finished.result.text.startswith("holdfast-tool-")
    assert set(on_threads) <= {threading.get_ident()}


async def test_a_notice_of_a_nested_agent_reaches_the_outermost_reader() -> None:
    inner = Agent(ScriptedModel(ToolCall("1", "grind"), "ok"), name="inner", tools=[grind])
    middle = Agent(
        ScriptedModel(ToolCall("1", "inner", '{"task": "a"}'), "ok"),
        name="middle",
        tools=[inner.as_tool()],
    )
    model = ScriptedModel(ToolCall("1", "middle", '{"task": "b"}'), "done")
    async with Agent(model, tools=[middle.as_tool()]).stream("Go") as run:
        found = [
            (item.key, item.chain, item.item.percent, item.item.key)
            async for item in run
            if isinstance(item, FromAgent) and isinstance(item.item, Progress)
        ]
    key = "t1.i0.tool.0"
    assert found == [(key, ("middle", "inner"), percent, key) for percent in (1, 2, 3)]


async def test_a_custom_notice_is_not_saved() -> None:
    journal = MemoryJournal()
    model = ScriptedModel(ToolCall("1", "work"), "done")
    await Agent(model, tools=[work], journal=journal).run("Go", session="ada")
    kinds = [type(record.event).__name__ for record in await journal.read("ada")]
    assert kinds == [
        "TurnOpened",
        "ModelReplied",
        "ToolsBegun",
        "ToolFinished",
        "ModelReplied",
        "TurnClosed",
    ]


async def test_a_custom_notice_without_a_listener_is_no_error() -> None:
    model = ScriptedModel(ToolCall("1", "work"), ToolCall("2", "grind"), "done")
    result = await Agent(model, tools=[work, grind], middleware=[Announce()]).run("Go")
    assert result.output == "done"


async def test_a_notice_after_the_turn_is_no_error() -> None:
    contexts: list[ToolContext] = []
    later: list[asyncio.Task[None]] = []

    @tool(effect="read")
    async def leak(context: ToolContext) -> str:
        """Leave a task behind."""

        async def emit_later() -> None:
            await asyncio.sleep(0.05)
            context.emit(Progress(100))

        contexts.append(context)
        later.append(asyncio.create_task(emit_later()))
        return "ok"

    model = ScriptedModel(ToolCall("1", "leak"), "done")
    async with Agent(model, tools=[leak]).stream("Go") as run:
        assert await read_own(aiter(run)) == []
    await asyncio.gather(*later)
    thread = threading.Thread(target=contexts[0].emit, args=(Progress(1),))
    thread.start()
    await asyncio.to_thread(thread.join)
    await asyncio.sleep(0)
    assert not run._channel._items  # nothing is stored for a reader that has left


def test_a_thread_that_outlives_the_event_loop_may_emit() -> None:
    contexts: list[ToolContext] = []

    @tool(effect="read")
    def keep(context: ToolContext) -> str:
        """Store the context."""
        contexts.append(context)
        return "ok"

    async def read() -> None:
        model = ScriptedModel(ToolCall("1", "keep"), "done")
        async with Agent(model, tools=[keep]).stream("Go") as run:
            await read_own(aiter(run))

    asyncio.run(read())
    thread = threading.Thread(target=contexts[0].emit, args=(Progress(1),))
    thread.start()
    thread.join()


async def test_a_slow_reader_neither_holds_the_tool_nor_fills_the_memory(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(channel_module, "MOST_UNREAD", 50)

    @tool(effect="read")
    async def flood(context: ToolContext) -> str:
        """Emit far more than anybody reads."""
        for percent in range(1000):
            context.emit(Progress(percent))
        return "ok"

    child = Agent(ScriptedModel(ToolCall("1", "flood"), "ok"), name="child", tools=[flood])
    model = ScriptedModel([ToolCall("1", "flood"), ToolCall("2", "child", '{"task": "a"}')], "done")
    agent = Agent(model, tools=[flood, child.as_tool()])
    async with agent.stream("Go") as run:
        while not run._channel._has_dropped:
            await asyncio.sleep(0)
        items = [item async for item in run]
        assert run.result.output == "done"
    assert 0 < sum(isinstance(item, Progress) for item in items) <= 50
    assert sum(isinstance(item, ToolFinished) for item in items) == 2
    assert [record.message.partition(",")[0] for record in caplog.records] == [
        "the reader of a run is 50 items behind"
    ]


@pytest.mark.parametrize("wrong", [{"percent": 5}, Progress, "text"])
async def test_an_object_that_is_no_notice_is_refused(wrong: object) -> None:
    context = ToolContext(run_id="r", key="t1.i0.tool.0")
    with pytest.raises(ConfigurationError, match="notice: must be a CustomNotice, got"):
        context.emit(wrong)  # type: ignore[arg-type]

    class Wrong(Middleware):
        async def after_turn(self, context: AfterTurn) -> None:
            with pytest.raises(ConfigurationError, match="notice: must be a CustomNotice, got"):
                context.emit(wrong)  # type: ignore[arg-type]

    await Agent(ScriptedModel("done"), middleware=[Wrong()]).run("Go")


def test_a_field_that_the_run_sets_cannot_be_taken() -> None:
    with pytest.raises(ConfigurationError, match=r"Mine\.key: is a field of every CustomNotice"):

        class Mine(CustomNotice, frozen=True):
            key: str = "mine"


# The notices of a tool name it, the attempt and the reason of a retry.


@tool(effect="read")
def flaky(context: ToolContext) -> str:
    """Fail once."""
    if context.attempt == 1:
        raise ConnectionError("lost")
    return "ok"


async def test_a_retry_of_a_tool_says_which_one_and_why() -> None:
    agent = Agent(
        ScriptedModel(ToolCall("1", "flaky"), "done"),
        tools=[flaky],
        retry=RetryOptions(max_retries=2),
        clock=FakeClock(),
    )
    async with agent.stream("Go") as run:
        items = [item async for item in run if isinstance(item, ToolStarted | RetryScheduled)]
    started, retry, again = items
    key = "t1.i0.tool.0"
    assert started == ToolStarted(key, "flaky", "{}", 1)
    assert again == ToolStarted(key, "flaky", "{}", 2)
    assert isinstance(retry, RetryScheduled)
    assert (retry.key, retry.tool, retry.attempt, retry.max_retries) == (key, "flaky", 1, 2)
    assert retry.error.safe
    assert retry.error.category is not None


async def test_a_retry_of_a_model_names_no_tool() -> None:
    info = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="down")
    agent = Agent(ScriptedModel(ProviderError("down", info=info), "done"), clock=FakeClock())
    async with agent.stream("Go") as run:
        retries = [item async for item in run if isinstance(item, RetryScheduled)]
    assert [(one.key, one.tool, one.error.safe) for one in retries] == [("t1.i0.model", "", "down")]


# A notice of a tool in a service.


class Handle:
    """Nothing that JSON knows."""


class Opened(CustomNotice, frozen=True):
    name: str
    value: object


@pytest.mark.parametrize("value", [Handle(), {(1, 2): "a pair"}, float("nan"), "\ud800", 2**80])
async def test_a_notice_that_json_cannot_express_ends_no_turn(value: object) -> None:
    is_read = asyncio.Event()

    @tool(effect="read")
    async def look(context: ToolContext) -> str:
        """Look."""
        await is_read.wait()
        context.emit(Opened("first", value))
        return "seen"

    call = Reply((ToolCall("c1", "look", "{}"),))
    service = ServiceTenants(
        Agent(ScriptedModel(call, "Done."), name="a", tools=[look])
    ).for_tenant()
    turn = await service.start("a", "Look.", session="s")
    items = []
    async for entry in service.reader.follow("s", end=ReadingEnd(turn.number)):
        items.append(entry.item)
        if isinstance(entry.item, EventItem) and isinstance(entry.item.event, ToolsBegun):
            is_read.set()
    assert (await service.last_turn("s")).status == "completed"
    assert "opened" in [item.name for item in items if isinstance(item, NoticeItem)]
