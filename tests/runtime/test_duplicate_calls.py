"""A call that a reply has twice, with one id and equal arguments, is one call, whatever happens."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Agent, Limits, Middleware, Status, ToolError, ToolFinished, ToolStarted, tool
from holdfast.core.batch import find_duplicate_calls
from holdfast.core.json_strict import read_strict_json
from holdfast.core.messages import Message, Reply, ToolCall, ToolResult
from holdfast.core.model_request import ModelRequest
from holdfast.core.questions import Approved, PermissionQuestion
from holdfast.events import DuplicateCall
from holdfast.journal import MemoryJournal
from holdfast.middleware import (
    AfterIteration,
    BeforeTool,
    BeforeTools,
    RepetitionGuard,
    ToolPermission,
    TotalErrorThreshold,
    UseReply,
)
from holdfast.testing import CrashAt, ScriptedModel, SimulatedCrash
from holdfast.tools import ClientTool
from holdfast.tools.context import ToolContext

PAY = ToolCall("c1", "pay", '{"amount": 5, "to": "Ada"}')
AGAIN = ToolCall("c1", "pay", '{"to": "Ada", "amount": 5.0}')
LOOK = ToolCall("c2", "look", "{}")
TWICE = Reply((PAY, LOOK, AGAIN))


class Payments:
    """What a writing tool did, across all processes."""

    def __init__(self, *, fails: bool = False) -> None:
        self.paid: list[str] = []
        self.fails = fails

    def tools(self) -> list[Any]:
        @tool(effect="write")
        def pay(ctx: ToolContext, amount: int, to: str) -> str:
            """Pay."""
            self.paid.append(ctx.idempotency_key)
            if self.fails:
                raise ToolError("There is no money.")
            return f"paid {amount} to {to}"

        @tool(effect="read")
        def look() -> str:
            """Look."""
            return "seen"

        return [pay, look]

    def agent(self, *replies: Any, **keywords: Any) -> Agent[str]:
        return Agent(ScriptedModel(*(replies or (TWICE, "done"))), tools=self.tools(), **keywords)


def results_of(message: Message) -> list[tuple[str, str]]:
    return [(one.call_id, one.text) for one in message.parts if isinstance(one, ToolResult)]


WHOLE = [("c1", "paid 5 to Ada"), ("c2", "seen"), ("c1", "paid 5 to Ada")]


async def test_the_second_call_gets_the_result_of_the_first_and_a_notice_tells() -> None:
    payments = Payments()
    async with payments.agent().stream("go") as run:
        items = [item async for item in run]
    assert len(payments.paid) == 1
    assert results_of(run.result.messages[-2]) == WHOLE
    (notice,) = [item for item in items if isinstance(item, DuplicateCall)]
    assert notice == DuplicateCall("t1.i0.tool.2", "t1.i0.tool.0", "pay")
    assert [item.name for item in items if isinstance(item, ToolStarted)] == ["pay", "look"]
    last = [item for item in items if isinstance(item, ToolFinished)][-1]
    assert (last.key, last.same_as, last.attempts) == ("t1.i0.tool.2", "t1.i0.tool.0", 0)


@pytest.mark.parametrize(
    "other",
    [
        ToolCall("c3", "pay", PAY.arguments),
        ToolCall("c1", "pay", '{"amount": 6, "to": "Ada"}'),
        ToolCall("c1", "refund", PAY.arguments),
    ],
)
async def test_calls_that_differ_in_id_name_or_arguments_all_run(other: ToolCall) -> None:
    ran: list[str] = []

    @tool(effect="write")
    def pay(amount: int, to: str) -> str:
        """Pay."""
        ran.append("pay")
        return f"paid {amount} to {to}"

    @tool(effect="write")
    def refund(amount: int, to: str) -> str:
        """Give back."""
        ran.append("refund")
        return f"gave {amount} to {to}"

    agent = Agent(ScriptedModel(Reply((PAY, other)), "done"), tools=[pay, refund])
    await agent.run("go")
    assert sorted(ran) == sorted(["pay", other.name])


async def test_calls_without_an_id_all_run() -> None:
    payments, bare = Payments(), ToolCall("", "pay", PAY.arguments)
    await payments.agent(Reply((bare, bare)), "done").run("go")
    assert len(payments.paid) == 2


async def test_a_call_that_a_reply_has_five_times_runs_once() -> None:
    payments = Payments()
    result = await payments.agent(Reply((PAY, AGAIN) * 2 + (PAY,)), "done").run("go")
    assert len(payments.paid) == 1
    assert results_of(result.messages[-2]) == [WHOLE[0]] * 5


async def test_a_reply_of_a_hook_is_judged_like_one_of_the_model() -> None:
    class Instead(Middleware):
        async def before_iteration(self, context: Any) -> UseReply | None:
            return UseReply(TWICE) if context.iteration == 0 else None

    payments = Payments()
    await payments.agent("done", middleware=[Instead()]).run("go")
    assert len(payments.paid) == 1


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("moment", range(1, 9))
async def test_it_runs_once_wherever_the_process_dies(moment: int, before: bool) -> None:
    payments, journal = Payments(), MemoryJournal()

    def answer(request: ModelRequest) -> Reply | str:
        return TWICE if request.messages[-1].role == "user" else "done"

    async def go_on(journal: Any) -> Any:
        agent = payments.agent(*[answer] * 9, journal=journal)
        known = await journal.read("s")
        return await (agent.resume("s") if known else agent.run("go", session="s"))

    with pytest.raises(SimulatedCrash):
        await go_on(CrashAt(journal, moment, before=before))
    result = await go_on(journal)
    assert len(payments.paid) <= 1
    (first, _, again) = results_of(result.messages[-2])
    assert first == again
    if payments.paid:
        assert first[1] == "paid 5 to Ada" or "Whether it took effect is unknown" in first[1]


async def test_a_person_is_asked_once_and_another_process_goes_on() -> None:
    payments, journal = Payments(), MemoryJournal()
    asked = {
        "middleware": [ToolPermission(allow=["look"], ask=["pay"])],
        "journal": journal,
        "on_wait": "suspend",
    }
    waiting = await payments.agent(**asked).run("go", session="s")
    assert waiting.status is Status.WAITING
    (question,) = waiting.questions
    assert isinstance(question, PermissionQuestion)
    agent = payments.agent("done", **asked)
    await agent.answer("s", question, Approved())
    result = await agent.resume("s")
    assert len(payments.paid) == 1
    assert results_of(result.messages[-2]) == WHOLE


async def test_a_client_runs_its_tool_once() -> None:
    where = ClientTool("locate", "Where the user is.", {"type": "object"})
    call = ToolCall("c1", "locate", "{}")
    journal = MemoryJournal()
    agent = Agent(ScriptedModel(Reply((call, call)), "done"), journal=journal, on_wait="suspend")
    await agent.run("Where am I?", session="s", tools=[where])
    (question,) = await agent.questions("s")
    await agent.answer("s", question.give("Porto"))
    result = await agent.resume("s")
    assert results_of(result.messages[-2]) == [("c1", "Porto")] * 2


async def test_a_subagent_runs_once_and_its_tokens_count_once() -> None:
    clerk = ScriptedModel("looked up", "looked up")
    inner = Agent(clerk, name="clerk")
    call = ToolCall("c1", "clerk", '{"task": "go"}')
    agent = Agent(ScriptedModel(Reply((call, call)), "done"), tools=[inner.as_tool()])
    alone = Agent(ScriptedModel(Reply((call,)), "done"), tools=[inner.as_tool()])
    assert (await agent.run("go")).usage == (await alone.run("go")).usage
    assert len(clerk.requests) == 2


async def test_hooks_see_one_call_and_learn_of_the_other() -> None:
    seen: list[object] = []

    class Watch(Middleware):
        async def before_tools(self, context: BeforeTools[Any]) -> None:
            seen.append(context.duplicates)

        async def before_tool(self, context: BeforeTool[Any]) -> None:
            seen.append(context.index)

        async def after_iteration(self, context: AfterIteration[Any]) -> None:
            seen.append([one.text for one in context.results])

    await Payments().agent(middleware=[Watch()]).run("go")
    assert seen == [frozenset({2}), 0, 1, ["paid 5 to Ada", "seen", "paid 5 to Ada"], []]


async def test_it_counts_once_for_limits_and_guards() -> None:
    payments = Payments(fails=True)
    guards = [TotalErrorThreshold(2), RepetitionGuard(max_consecutive_calls=2)]
    agent = payments.agent(middleware=guards, limits=Limits(tool_calls=2))
    result = await agent.run("go")
    assert result.status is Status.COMPLETED
    assert results_of(result.messages[-2])[2] == ("c1", "There is no money.")


async def test_a_cancelled_turn_leaves_each_call_with_the_same_result() -> None:
    begun = asyncio.Event()

    @tool(effect="write")
    async def pay(amount: int, to: str) -> str:
        """Pay."""
        begun.set()
        await asyncio.Event().wait()
        return f"paid {amount} to {to}"

    journal = MemoryJournal()
    agent = Agent(ScriptedModel(Reply((PAY, AGAIN)), "done"), tools=[pay], journal=journal)
    task = asyncio.create_task(agent.run("go", session="s"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    result = await agent.run("and now?", session="s")
    first, again = results_of(result.messages[2])
    assert first == again
    assert "Whether it took effect is unknown" in first[1]


@pytest.mark.parametrize(
    ("arguments", "runs"),
    [
        ('{"value": 1}', 1),
        ('{"value": 1.0}', 1),
        ('{"value": 10e-1}', 1),
        ('{"value": true}', 2),
        ('{"value": "1"}', 2),
        ('{"value": null}', 2),
        ('{"value": [1]}', 2),
        ('{"value": 1, "value": 1}', 1),
    ],
)
async def test_arguments_are_compared_as_json(arguments: str, runs: int) -> None:
    ran: list[object] = []

    @tool(effect="write")
    def note(value: object) -> str:
        """Note."""
        ran.append(value)
        return "noted"

    calls = ToolCall("1", "note", '{"value": 1}'), ToolCall("1", "note", arguments)
    await Agent(ScriptedModel(Reply(calls), "done"), tools=[note]).run("go")
    assert len(ran) == runs


def test_each_call_is_read_once_however_many_share_an_id(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def count(text: str) -> object:
        read.append(text)
        return read_strict_json(text)

    monkeypatch.setattr("holdfast.core.batch.read_strict_json", count)
    calls = [ToolCall("call_0", "look", f'{{"page": {number % 900}}}') for number in range(1000)]
    assert find_duplicate_calls(calls) == {number: number - 900 for number in range(900, 1000)}
    assert len(read) == 1000
