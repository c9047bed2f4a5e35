"""Tools and turns that are cancelled, by their caller or by themselves."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest

from holdfast import (
    Agent,
    MemoryJournal,
    Middleware,
    Result,
    RetryOptions,
    ToolContext,
    Usage,
    tool,
)
from holdfast.core.effects import Effect
from holdfast.core.events import Event, ModelReplied, ToolFinished, TurnInterrupted
from holdfast.core.messages import Reply, ToolCall, ToolResult
from holdfast.events import Observation
from holdfast.journal.port import Record
from holdfast.middleware.hook_contexts import ToolUse
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.testing.emulator import call

# A library below a tool may cancel a task of its own, which the tool then awaits. CancelledError
# comes out of it, and nobody has asked the run to stop.

ONCE = RetryOptions(max_retries=0)


async def library() -> None:
    own = asyncio.ensure_future(asyncio.Event().wait())
    own.cancel()
    await own


def texts(result: Result[str]) -> list[str]:
    return [part.text for part in result.messages[2].parts if isinstance(part, ToolResult)]


PAY = call("pay", {}, id="1")
LOOK = call("look", {}, id="2")


@pytest.mark.parametrize("calls", [[PAY], [PAY, LOOK]])
async def test_a_write_whose_own_task_is_cancelled_runs_once_and_is_in_doubt(
    calls: list[ToolCall],
) -> None:
    runs = 0

    @tool(effect="write")
    async def pay() -> str:
        """Pay."""
        nonlocal runs
        runs += 1
        await library()
        return "paid"

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return "there"

    agent = Agent(ScriptedModel(calls, "I will check."), tools=[pay, look], journal=MemoryJournal())
    result = await agent.run("Pay.")
    assert (runs, result.output) == (1, "I will check.")
    assert texts(result)[0] == (
        "Error: Function 'pay' failed. It may have taken effect: check before calling it again."
    )


async def test_a_read_whose_own_task_is_cancelled_is_tried_again() -> None:
    tries = 0

    @tool(effect="read", timeout=60)
    async def look() -> str:
        """Look."""
        nonlocal tries
        tries += 1
        if tries == 1:
            await library()
        return "there"

    handling = RetryOptions(retry_delay=0.001)
    agent = Agent(ScriptedModel(LOOK, "There."), tools=[look], retry=handling)
    assert texts(await agent.run("Look.")) == ["there"]


async def test_whoever_cancels_the_run_still_cancels_it() -> None:
    begun = asyncio.Event()

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    task = asyncio.ensure_future(Agent(ScriptedModel(LOOK), tools=[look]).run("Look."))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_hook_that_is_cancelled_in_itself_lets_no_write_run_twice() -> None:
    runs = 0

    @tool(effect="write")
    async def pay() -> str:
        """Pay."""
        nonlocal runs
        runs += 1
        return "paid"

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return "there"

    class Careless(Middleware):
        tools = ("pay",)

        async def wrap_tool(
            self, context: ToolUse, call_next: Callable[[ToolUse], Awaitable[ToolResult]]
        ) -> ToolResult:
            result = await call_next(context)
            await library()
            return result

    agent = Agent(ScriptedModel([PAY, LOOK]), tools=[pay, look], middleware=[Careless()])
    with pytest.raises(asyncio.CancelledError):
        await agent.run("Pay.")
    assert runs == 1


def test_a_sync_tool_that_raises_cancelled_error_fails() -> None:
    @tool(effect="read")
    def look() -> str:
        """Look."""
        raise asyncio.CancelledError

    agent = Agent(ScriptedModel(LOOK, "No."), tools=[look], retry=ONCE)
    assert texts(agent.run_sync("Look.")) == ["Error: Function 'look' failed."]


# A tool below which a library cancels the task in which it was called. Nobody has asked the run to stop.


def this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


async def cancel_and_wait() -> str:
    this_task().cancel()
    await asyncio.Event().wait()
    return "never"


async def cancel_and_return() -> str:
    this_task().cancel()
    return "too soon"


async def cancel_and_raise() -> str:
    this_task().cancel()
    raise ValueError("too soon")


async def cancel_and_raise_that() -> str:
    this_task().cancel()
    raise asyncio.CancelledError


async def cancel_twice() -> str:
    this_task().cancel()
    this_task().cancel()
    return await cancel_and_wait()


async def cancel_by_the_loop() -> str:
    asyncio.get_running_loop().call_soon(this_task().cancel)
    await asyncio.Event().wait()
    return "never"


async def cancel_by_another_task() -> str:
    this = this_task()

    async def cancel() -> None:
        this.cancel()

    other = asyncio.create_task(cancel())
    await asyncio.Event().wait()
    return f"never {other}"


async def leave_a_timeout_open() -> str:
    timeout = asyncio.timeout(0)
    await timeout.__aenter__()  # and never left
    await asyncio.Event().wait()
    return "never"


async def leave_a_cancel_scope_open() -> str:
    scope = anyio.CancelScope()
    scope.__enter__()  # and never left
    scope.cancel()
    await asyncio.Event().wait()
    return "never"


async def open_a_session() -> str:
    """Open a task group as a client of a protocol does, and lose its connection."""

    async def read() -> None:
        raise ConnectionError

    stack = AsyncExitStack()
    group = await stack.enter_async_context(anyio.create_task_group())
    group.start_soon(read)
    await asyncio.Event().wait()
    return "never"


def give_a_coroutine() -> Awaitable[str]:
    return cancel_and_wait()


def cancel_in_a_thread() -> str:
    raise asyncio.CancelledError


async def yield_and_cancel() -> AsyncIterator[str]:
    yield "one"
    yield await cancel_and_wait()


LIBRARIES: tuple[Callable[[], Any], ...] = (
    cancel_and_wait,
    cancel_and_return,
    cancel_and_raise,
    cancel_and_raise_that,
    cancel_twice,
    cancel_by_the_loop,
    cancel_by_another_task,
    leave_a_timeout_open,
    leave_a_cancel_scope_open,
    open_a_session,
    give_a_coroutine,
    cancel_in_a_thread,
    yield_and_cancel,
)


@tool(effect="read")
async def look() -> str:
    """Look."""
    await asyncio.sleep(0)
    return "a wall"


def make_agent(*tools: Any, calls: Sequence[str], **options: Any) -> Agent[str]:
    written = tuple(ToolCall(f"c{at}", name, "{}") for at, name in enumerate(calls))
    model = ScriptedModel(Reply(written), "Done.", "Well.")
    return Agent(model, tools=tools, journal=MemoryJournal(), **options)


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
@pytest.mark.parametrize("timeout", [None, 60.0])
async def test_a_tool_that_cancels_its_own_task_fails_alone(
    library: Callable[[], Any], timeout: float | None
) -> None:
    spoilt = tool(effect="write", timeout=timeout)(library)
    for calls in ((spoilt.name,), ("look", spoilt.name, spoilt.name)):
        agent = make_agent(spoilt, look, calls=calls)
        run = asyncio.create_task(agent.run("Go.", session="s"))
        result = await run
        assert result.output == "Done."
        assert run.cancelling() == 0
        for name, text in zip(calls, texts(result), strict=True):
            failed = f"Error: Function '{name}' failed. It may have taken effect"
            assert text == "a wall" if name == "look" else text.startswith(failed)
        assert (await agent.run("And now?", session="s")).output == "Well."


async def test_a_failure_by_a_cancellation_says_so() -> None:
    seen: list[str] = []

    def observer(one: Observation) -> None:
        if isinstance(one.item, ToolFinished) and one.item.error is not None:
            seen.append(one.item.error.safe)

    tools = [tool(cancel_by_the_loop)]
    clock = FakeClock()
    agent = make_agent(*tools, calls=["cancel_by_the_loop"], observers=[observer], clock=clock)
    await agent.run("Go.")
    assert seen == [
        "Function 'cancel_by_the_loop' cancelled itself, or waited for something that was cancelled."
    ]


async def test_a_tool_of_a_subagent_that_cancels_its_own_task_fails_alone() -> None:
    inner = Agent(
        ScriptedModel(call("leave_a_cancel_scope_open", {}, id="1"), "It failed."),
        tools=[tool(leave_a_cancel_scope_open)],
        name="inner",
        clock=FakeClock(),
    )
    outer = Agent(
        ScriptedModel(call("inner", {"task": "Go."}, id="1"), "Done."),
        tools=[inner.as_tool(), look],
        journal=MemoryJournal(),
    )
    result = await outer.run("Go.")
    assert (result.output, texts(result)) == ("Done.", ["It failed."])


async def test_a_tool_that_deals_with_its_own_cancellation_returns() -> None:
    async def careful() -> str:
        this_task().cancel()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "careful"
        return "never"

    result = await make_agent(tool(careful), calls=["careful"]).run("Go.")
    assert texts(result) == ["careful"]


async def test_a_timeout_within_a_tool_is_its_own() -> None:
    async def impatient() -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            with anyio.move_on_after(0):
                await asyncio.Event().wait()
        return "moved on"

    result = await make_agent(tool(impatient), calls=["impatient"]).run("Go.")
    assert texts(result) == ["moved on"]


class Waiting:
    """Tools of all kinds that wait until they are cancelled."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.ended: list[str] = []

    async def wait(self, swallows: bool = False) -> str:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            if not swallows:
                raise
        return "late"

    async def swallow(self) -> str:
        return await self.wait(swallows=True)

    async def iterate(self) -> AsyncIterator[str]:
        yield await self.wait()

    def from_thread(self) -> Awaitable[str]:
        return self.wait()

    def agent(self) -> Any:
        model = ScriptedModel(call("wait", {}, id="1"), "Never.")
        return Agent(model, tools=[tool(self.wait)], name="inner").as_tool()


@pytest.mark.parametrize("kind", ["wait", "swallow", "iterate", "from_thread", "agent"])
@pytest.mark.parametrize("others", [(), ("look",)])
async def test_a_run_that_is_cancelled_cancels_its_tools(kind: str, others: Sequence[str]) -> None:
    waiting = Waiting()
    one = waiting.agent() if kind == "agent" else tool(effect="read")(getattr(waiting, kind))
    written = [
        call(name, {"task": "Go."} if name == "inner" else {}, id=name)
        for name in (one.name, *others)
    ]
    agent = Agent(ScriptedModel(written, "Done."), tools=[one, look], journal=MemoryJournal())
    run = asyncio.create_task(agent.run("Go.", session="s"))
    await waiting.begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert waiting.ended == ["cancelled"]
    assert (await agent.run("And now?", session="s")).output == "Done."


async def test_a_run_is_cancelled_although_its_tool_was_cancelled_before() -> None:
    waiting = Waiting()

    async def spoilt() -> str:
        this_task().cancel()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            this_task().uncancel()
        return await waiting.wait()

    run = asyncio.create_task(make_agent(tool(spoilt), calls=["spoilt"]).run("Go."))
    await waiting.begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert waiting.ended == ["cancelled"]


async def test_a_run_is_cancelled_while_its_tool_cancels_itself() -> None:
    at_once = asyncio.Event()

    async def spoilt() -> str:
        this_task().cancel()
        at_once.set()
        return "too soon"

    run = asyncio.create_task(make_agent(tool(spoilt), calls=["spoilt"]).run("Go."))
    await at_once.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


async def test_a_tool_that_could_wait_and_does_not_returns() -> None:
    async def at_once() -> str:
        return "at once"

    async def ready(fails: bool = False) -> str:
        if fails:
            raise ValueError
        return await at_once()

    calls = [call("ready", {"fails": fails}, id=str(fails)) for fails in (False, True)]
    for written, text in zip(calls, ("at once", "Error: Function 'ready' failed."), strict=True):
        one = tool(effect="read")(ready)
        agent = Agent(ScriptedModel(written, "Done."), tools=[one], retry=ONCE)
        assert texts(await agent.run("Go.")) == [text]


def test_only_code_that_waits_gets_a_task() -> None:
    async def ready(n: int = 1) -> int:
        return n

    async def loops() -> None:
        async for _ in yield_and_cancel():
            pass

    class Reader:
        async def __call__(self, n: int = 1) -> int:
            return n

    kinds = [ready, functools.partial(ready, 1), Reader(), look.function, loops]
    assert [tool(name="t")(one).waits for one in kinds] == [False, False, False, True, True]
    assert tool(yield_and_cancel).waits
    assert tool(name="t")(functools.wraps(ready)(look.function)).waits


# A turn that is cancelled again while it reads its saved end.


class CancelledAtTheEnd(MemoryJournal):
    """Keeps the end of a turn, whose task is cancelled then, and again while it reads that."""

    task: asyncio.Task[object]
    reads = 0

    async def append(
        self, run: str, event: Event, effect: Effect | None = None, *, marker: Event | None = None
    ) -> None:
        await super().append(run, event, effect, marker=marker)
        if marker is not None and marker.key == "t1.closed":
            self.task.cancel()
            await asyncio.sleep(0)

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        self.reads += 1
        if self.reads == 2:  # the first is at the beginning of the turn
            asyncio.get_running_loop().call_soon(self.task.cancel)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return await super().read(run, after)


async def test_a_turn_that_is_cancelled_twice_has_one_end() -> None:
    journal = CancelledAtTheEnd()
    agent = Agent(ScriptedModel("Hi.", "Here I am."), journal=journal)
    journal.task = asyncio.create_task(agent.run("Hello", session="ada"))
    with pytest.raises(asyncio.CancelledError):
        await journal.task
    keys = [record.event.key for record in await journal.read("ada")]
    assert keys == ["t1", "t1.i0.model", "t1.closed"]
    assert (await agent.run("Are you there?", session="ada")).text == "Here I am."


# A turn that is cancelled while several results are being saved.

TOOL_COUNT = 12


class Silent(MemoryJournal):
    """Keeps the results of tools, and never comes to say so."""

    def __init__(self) -> None:
        super().__init__()
        self.results = 0
        self.all_there = asyncio.Event()

    async def append(
        self, run: str, event: Event, effect: Effect | None = None, *, marker: Event | None = None
    ) -> None:
        await super().append(run, event, effect, marker=marker)
        if isinstance(event, ToolFinished):
            self.results += 1
            if self.results == TOOL_COUNT:
                self.all_there.set()
            await asyncio.Event().wait()


async def test_results_of_a_cancelled_turn_are_folded_in_the_order_of_the_journal() -> None:
    seen: list[str] = []

    def observer(one: Observation) -> None:
        if isinstance(one.item, Event):
            seen.append(one.item.key)

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return "a wall"

    journal = Silent()
    calls = [call("look", {}, id=str(number)) for number in range(TOOL_COUNT)]
    agent = Agent(ScriptedModel(calls), tools=[look], journal=journal, observers=[observer])
    run = asyncio.create_task(agent.run("Go.", session="ada"))
    await journal.all_there.wait()
    run.cancel()
    await asyncio.wait([run])
    assert run.cancelled()
    assert seen == [record.event.key for record in await journal.read("ada")]
    assert len([key for key in seen if ".tool." in key]) == TOOL_COUNT


# A turn that is cancelled while the result of a tool is being saved.

SPENT = Usage(100, 50)


class Slow(MemoryJournal):
    """Never comes to keep the result of a tool."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()

    async def append(
        self, run: str, event: Event, effect: Effect | None = None, *, marker: Event | None = None
    ) -> None:
        if isinstance(event, ToolFinished):
            self.reached.set()
            await asyncio.Event().wait()
        await super().append(run, event, effect, marker=marker)


async def test_the_usage_of_a_tool_counts_when_its_result_is_not_saved() -> None:
    @tool(effect="write")
    async def pay(context: ToolContext) -> str:
        """Pay."""
        context.add_usage(SPENT)
        return "paid"

    journal = Slow()
    agent = Agent(ScriptedModel(call("pay", {}, id="1")), tools=[pay], journal=journal)
    run = asyncio.create_task(agent.run("Go.", session="ada"))
    await journal.reached.wait()
    run.cancel()
    await asyncio.wait([run])
    assert run.cancelled()
    events = [record.event for record in await journal.read("ada")]
    assert [one.usage for one in events if isinstance(one, TurnInterrupted)] == [SPENT]


# A process that is asked to end while it saves that the tools of a reply begin.


async def test_a_tool_that_was_saved_as_begun_runs_before_its_process_ends() -> None:
    paid: list[str] = []

    @tool(effect="write")
    async def pay(whom: str) -> str:
        """Pay."""
        paid.append(whom)
        await asyncio.sleep(0)
        return "paid"

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return "seen"

    calls = [ToolCall(whom, "pay", f'{{"whom": "{whom}"}}') for whom in ("ada", "bob")]
    reply = Reply((*calls, ToolCall("c", "look", "{}")))
    leaving: list[asyncio.Task[None]] = []

    class SlowJournal(MemoryJournal):
        async def append(self, run: str, event: Event, *more: Any, **named: Any) -> None:
            if isinstance(event, ModelReplied) and not leaving:
                leaving.append(asyncio.create_task(stream.leave_open(grace=10)))
                await asyncio.sleep(0.01)
            await super().append(run, event, *more, **named)

    journal = SlowJournal()

    def make(*replies: Reply | str) -> Agent[str]:
        model = ScriptedModel(*replies)
        return Agent(model, tools=[pay, look], journal=journal)

    async with make(reply).stream("Pay.", session="s") as stream:
        async for _ in stream:
            pass
    await leaving[0]
    assert paid == ["ada", "bob"]
    result = await make("Done.").resume("s")
    assert result.text == "Done."
    assert paid == ["ada", "bob"]
    results: list[Any] = [part for message in result.messages for part in message.parts]
    assert "It may have taken effect" not in repr(results)
    assert "stopped before it finished" not in repr(results)
