"""A tool without a time limit hangs: its call fails, the model reads that, and the turn goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from holdfast import Agent, LimitError, Limits, Middleware, Result, RetryOptions, tool
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.core.questions import ClarificationQuestion
from holdfast.resilience.timeout.pausable_timeout import find_share
from holdfast.runtime.subagent import _cap_limits
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.tools.context import ToolContext
from holdfast.tools.tool_failures import ToolError

pytestmark = pytest.mark.anyio


class Time:
    """The time of the event loop and of the agent's clock, which only a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = FakeClock(auto=False)
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "time", self.clock.monotonic)

    async def pass_by(self, *steps: float) -> None:
        """Let seconds pass in steps, and what is due then happen."""
        for seconds in steps:
            await settle()
            self.clock.advance(seconds)
        await settle()


async def settle() -> None:
    for _ in range(60):
        await asyncio.sleep(0)


@pytest.fixture
async def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


def calls(*names: str) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(f"c{n}", name, "{}") for n, name in enumerate(names))


async def ended(running: asyncio.Future[Result[Any]]) -> Result[Any]:
    """Return the result of a run that is over; no time passes by itself that could end it."""
    await settle()
    assert running.done()
    return running.result()


def results(result: Result[Any]) -> list[ToolResult]:
    return [p for m in result.history for p in m.parts if isinstance(p, ToolResult)]


def hang(name: str, effect: Any = "read", **options: Any) -> Any:
    async def work() -> str:
        """Never end."""
        await asyncio.Event().wait()
        return ""

    return tool(name=name, effect=effect, **options)(work)


def make_agent(time: Time, *tools: Any, names: tuple[str, ...] = (), **options: Any) -> Agent[str]:
    wanted = calls(*(names or [one.name for one in tools]))
    options = {"model": ScriptedModel(wanted, "Done."), "clock": time.clock, **options}
    return Agent(tools=tools, **options)


@pytest.mark.parametrize(
    ("left", "share"), [(3600, 3540), (300, 240), (299, 239.2), (10, 8), (0, 0), (-1, 0)]
)
def test_a_share_leaves_sixty_seconds_or_a_fifth(left: float, share: float) -> None:
    assert find_share(left) == pytest.approx(share)


async def test_a_hanging_tool_costs_its_result_and_not_the_turn(time: Time) -> None:
    running = asyncio.ensure_future(make_agent(time, hang("look")).run("Go."))
    await time.pass_by(239.9)
    assert not running.done()
    await time.pass_by(0.2)
    assert running.done()  # it is not tried again, though it only reads: there is no time for that
    result = await ended(running)
    assert result.output == "Done."
    [found] = results(result)
    assert found.is_error
    assert not found.in_doubt


@pytest.mark.parametrize("effect", ["write", None])
async def test_a_write_that_was_cut_is_in_doubt(time: Time, effect: Any) -> None:
    running = asyncio.ensure_future(make_agent(time, hang("pay", effect)).run("Go."))
    await time.pass_by(241)
    [found] = results(await ended(running))
    assert found.in_doubt
    assert "may have taken effect" in found.text


async def test_the_model_may_read_how_long_it_took(time: Time) -> None:
    agent = make_agent(time, hang("look"), detailed_errors=True, limits=Limits(seconds=10))
    running = asyncio.ensure_future(agent.run("Go."))
    await time.pass_by(8.1)
    assert "timed out after 8.0 seconds" in results(await ended(running))[0].text


async def test_tools_of_one_reply_each_have_a_share(time: Time) -> None:
    """Those that begin later have a share of what is left then."""
    tools = [hang("one"), hang("two"), hang("three")]
    running = asyncio.ensure_future(make_agent(time, *tools, parallel_tools=2).run("Go."))
    await time.pass_by(240.1, 47)
    assert not running.done()
    await time.pass_by(1)
    result = await ended(running)
    assert [one.is_error for one in results(result)] == [True] * 3
    assert result.output == "Done."


async def test_a_tool_that_never_waits_sets_no_timer(
    time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, timers = asyncio.get_running_loop(), 0
    call_at = loop.call_at

    def count_timers(*arguments: Any, **options: Any) -> asyncio.TimerHandle:
        nonlocal timers
        timers += 1
        return call_at(*arguments, **options)

    async def look() -> str:
        """Look."""
        return "Found."

    async def wait() -> str:
        """Wait a moment."""
        await asyncio.sleep(0)
        return "Waited."

    monkeypatch.setattr(loop, "call_at", count_timers)
    found = []
    for function in (look, wait):
        before = timers
        result = await make_agent(time, tool(effect="read")(function)).run("Go.")
        found.append((results(result)[0].text, timers - before))
    assert found == [("Found.", 1), ("Waited.", 2)]  # one timer is the turn's


async def test_a_share_begins_when_the_tool_begins_to_wait(time: Time) -> None:
    async def block() -> str:
        """Block the event loop, and then hang."""
        time.clock.advance(200)
        await asyncio.Event().wait()
        return ""

    running = asyncio.ensure_future(make_agent(time, tool(effect="read")(block)).run("Go."))
    await time.pass_by(79.9)
    assert not running.done()
    await time.pass_by(0.2)
    assert (await ended(running)).output == "Done."


async def test_a_tool_may_go_on_after_its_first_wait_was_cut(time: Time) -> None:
    async def look() -> str:
        """Wait for something for ten seconds, and then for a moment."""
        try:
            async with asyncio.timeout(10):
                await asyncio.Event().wait()
        except TimeoutError:
            await asyncio.sleep(0)
        return "Not there."

    running = asyncio.ensure_future(make_agent(time, tool(effect="read")(look)).run("Go."))
    await time.pass_by(10.1)
    [found] = results(await ended(running))
    assert found.text == "Not there."


async def test_a_tool_with_a_limit_keeps_it(time: Time) -> None:
    longer = make_agent(time, hang("look", timeout=290), retry=RetryOptions(max_retries=0))
    running = asyncio.ensure_future(longer.run("Go."))
    await time.pass_by(289)
    assert not running.done()
    await time.pass_by(2)
    assert (await ended(running)).output == "Done."
    of_agent = make_agent(time, hang("look", "write"), tool_timeout=5)
    running = asyncio.ensure_future(of_agent.run("Go."))
    await time.pass_by(5.1)
    assert (await ended(running)).output == "Done."


async def test_a_turn_without_a_limit_limits_no_tool(time: Time) -> None:
    agent = make_agent(time, hang("look"), limits=Limits(seconds=None))
    running = asyncio.ensure_future(agent.run("Go."))
    await time.pass_by(1e7)
    assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_tool_that_ignores_its_end_leaves_the_turn_its_time(time: Time) -> None:
    @tool(effect="write")
    async def stubborn() -> str:
        """Ignore a cancellation, and one more."""
        for _ in range(2):
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        return "late"

    running = asyncio.ensure_future(
        make_agent(time, stubborn, limits=Limits(seconds=10)).run("Go.")
    )
    await time.pass_by(8.01, 1.01)
    result = await running  # half of the 2 s that are left, though a cleanup may take 5
    assert result.output == "Done."
    assert results(result)[0].in_doubt


async def test_a_plain_function_is_left_in_its_thread(time: Time) -> None:
    go_on = threading.Event()

    @tool(effect="read")
    def block() -> str:
        """Block a thread."""
        go_on.wait(30)
        return "late"

    running = asyncio.ensure_future(make_agent(time, block).run("Go."))
    await time.pass_by(240.1)
    assert (await ended(running)).output == "Done."
    go_on.set()


class People:
    """Someone who answers when the test says so."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answers = asyncio.Event()

    async def __call__(self, _question: object) -> str:
        self.asked.set()
        await self.answers.wait()
        return "yes"


@tool(effect="read")
async def ask(context: ToolContext) -> str:
    """Ask, and hang then."""
    await context.ask(ClarificationQuestion(question="Sure?"), timeout=None)
    await asyncio.Event().wait()
    return ""


@pytest.mark.parametrize("parallel", [2, 1])
async def test_no_time_counts_while_a_question_is_open(time: Time, parallel: int) -> None:
    """Nor for the tools beside the one that asks: the turn has as much left as before."""
    people = People()
    cut: list[float] = []

    @tool(effect="read")
    async def look() -> str:
        """Never end."""
        try:
            await asyncio.Event().wait()
        finally:
            cut.append(time.clock.monotonic())
        return ""

    agent = make_agent(time, ask, look, on_question=people, parallel_tools=parallel)
    running = asyncio.ensure_future(agent.run("Go."))
    await time.pass_by(100)
    assert people.asked.is_set()
    await time.pass_by(100, 1000, 10_000)
    assert not running.done()
    people.answers.set()
    await time.pass_by(239)
    assert not running.done()
    assert not cut
    await time.pass_by(*[5.0] * 11)
    assert (await ended(running)).output == "Done."
    assert len(cut) == 1


async def test_an_agent_as_a_tool_leaves_time_to_its_caller(time: Time) -> None:
    """And its own hanging tool leaves time to it."""
    scout = make_agent(time, hang("look"), name="scout")
    task = ToolCall("c", "scout", '{"task": "Look."}')
    boss = make_agent(time, scout.as_tool(), model=ScriptedModel((task,), "Over."))
    running = asyncio.ensure_future(boss.run("Go."))
    await time.pass_by(191)
    assert not running.done()
    await time.pass_by(1.1)
    result = await ended(running)
    assert (results(result)[0].text, result.output) == ("Done.", "Over.")


async def test_an_agent_as_a_tool_that_takes_too_long_is_told(time: Time) -> None:
    slow = hang("look", timeout=1000)
    scout = make_agent(time, slow, name="scout")
    task = ToolCall("c", "scout", '{"task": "Look."}')
    boss = make_agent(time, scout.as_tool(), model=ScriptedModel((task,), "Over."))
    running = asyncio.ensure_future(boss.run("Go."))
    await time.pass_by(240.1, 5)
    result = await ended(running)
    assert result.output == "Over."
    assert "The time limit of 240 seconds is reached." in results(result)[0].text


async def test_hooks_around_an_attempt_see_the_timeout(time: Time) -> None:
    seen: list[str] = []

    class Watch(Middleware):
        async def wrap_attempt(
            self, context: object, call_next: Callable[[], Awaitable[ToolResult]]
        ) -> ToolResult:
            try:
                return await call_next()
            except TimeoutError as error:
                seen.append(str(error))
                raise

    running = asyncio.ensure_future(make_agent(time, hang("look"), middleware=[Watch()]).run("Go."))
    await time.pass_by(240.1)
    assert (await ended(running)).output == "Done."
    assert seen == ["Function 'look' timed out after 240.0 seconds"]


async def test_the_limit_of_the_turn_still_ends_what_has_a_longer_one(time: Time) -> None:
    running = asyncio.ensure_future(make_agent(time, hang("look", timeout=1000)).run("Go."))
    await time.pass_by(300.1, 5)
    with pytest.raises(LimitError):
        await running


def test_describe_tells() -> None:
    tools = [hang("look"), hang("peek", timeout=3)]
    text = Agent(ScriptedModel(), tools=tools).describe()
    assert "less a fifth if that is less (at most 240 s), and are not repeated then: look" in text
    unlimited = Agent(ScriptedModel(), tools=tools, limits=Limits(seconds=None)).describe()
    assert "without a time limit, as the turn has none: look" in unlimited
    own_limits: tuple[dict[str, Any], ...] = (
        {"tools": tools, "tool_timeout": 3},
        {"tools": tools[1:]},
    )
    for options in own_limits:
        assert "may use what" not in Agent(ScriptedModel(), **options).describe()


def test_a_subagent_does_not_begin_without_time() -> None:
    with pytest.raises(ToolError, match="no time left"):
        _cap_limits(Limits(), 0.0)
    assert _cap_limits(Limits(), 10.0).seconds == pytest.approx(8)
    assert _cap_limits(Limits(seconds=2), 10.0).seconds == 2


def test_the_description_lists_the_hooks_in_call_order_if_there_are_any() -> None:
    class Watch(Middleware):
        async def after_turn(self, context: object) -> None:
            """Do nothing."""

    assert "middleware, in the order" not in Agent(ScriptedModel()).describe()
    assert "middleware, in the order" in Agent(ScriptedModel(), middleware=[Watch()]).describe()
