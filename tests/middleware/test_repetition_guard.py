"""The thresholds of the repetition guard (hint, withdraw, ask) and the state of its fold."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Agent, MemoryJournal, Status, ToolPermission, tool
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import ModelReplied, ToolFinished
from holdfast.core.messages import Reply, Text, ToolCall, ToolResult
from holdfast.core.notices import CircuitBreakerTriggered
from holdfast.core.questions import AnyQuestion, Approved, Denied, PermissionQuestion
from holdfast.middleware import RepetitionGuard
from holdfast.middleware.repetition_guard import (
    HINT,
    QUESTION,
    REASON,
    SOURCE,
    TEXT,
    RecentCalls,
    call_signature,
    count_reply,
    count_result,
)
from holdfast.testing import CrashAt, FakeClock, ScriptedModel, SimulatedCrash


def call(name: str = "work", n: int = 1, call_id: str = "c") -> ToolCall:
    return ToolCall(call_id, name, f'{{"n": {n}}}')


class World:
    """A tool whose result never changes, and a handler of questions."""

    def __init__(self, *answers: object) -> None:
        self.ran: list[int] = []
        self.asked: list[AnyQuestion] = []
        self._answers = list(answers)

    def tools(self) -> list[Any]:
        @tool(effect="read")
        def work(n: int) -> str:
            """Work."""
            self.ran.append(n)
            return "same"

        @tool(effect="read")
        def other(n: int) -> str:
            """Other work."""
            self.ran.append(-n)
            return "same"

        return [work, other]

    async def answer(self, request: AnyQuestion) -> object:
        self.asked.append(request)
        return self._answers.pop(0)

    def agent(self, model: ScriptedModel, guard: RepetitionGuard, **keywords: Any) -> Agent[str]:
        keywords.setdefault("on_question", self.answer)
        return Agent(model, tools=self.tools(), middleware=[guard], **keywords)


async def test_the_thresholds_apply_in_order() -> None:
    world = World(Approved())
    model = ScriptedModel(*[call()] * 5)
    guard = RepetitionGuard(5, hint_at=2, withdraw_at=3, ask_at=4)
    result = await world.agent(model, guard).run("go")
    shown = [request.instructions for request in model.requests]
    assert shown[:3] == ["", "", HINT.format(tool="work", count=2)]
    assert [[spec.name for spec in request.tools] for request in model.requests] == [
        ["work", "other"],
        ["work", "other"],
        ["work", "other"],
        ["other"],
        ["other"],
    ]
    (request,) = world.asked
    assert isinstance(request, PermissionQuestion)
    assert (request.tool, request.arguments, request.source) == ("work", {"n": 1}, SOURCE)
    assert request.description == QUESTION.format(count=4)
    assert world.ran == [1, 1, 1, 1]
    assert result.status is Status.STOPPED
    assert result.stop_reason == REASON.format(tool="work", count=5)
    assert result.text == TEXT.format(tool="work", count=5)


async def test_a_tool_is_withdrawn_for_this_turn_only() -> None:
    model = ScriptedModel(call(), call(), call("other"), "one", "two")
    agent = World().agent(model, RepetitionGuard(withdraw_at=2))
    await agent.run("go", session="s")
    await agent.run("again", session="s")
    offered = [[spec.name for spec in request.tools] for request in model.requests]
    assert offered[2:] == [["other"], ["other"], ["work", "other"]]


@pytest.mark.parametrize("answer", [Denied(), Denied(reason="No more.")])
async def test_a_no_ends_the_turn_before_the_call(answer: Denied) -> None:
    world = World(answer)
    model = ScriptedModel(*[call()] * 3)
    agent = world.agent(model, RepetitionGuard(9, ask_at=3), on_question=None)
    async with agent.stream("go") as run:
        triggered = []
        async for item in run:
            if isinstance(item, PermissionQuestion):
                run.answer(item, answer)
            if isinstance(item, CircuitBreakerTriggered):
                triggered.append((item.tool, item.count, item.iteration))
        result = run.result
    assert triggered == [("work", 3, 2)]
    assert (result.status, result.text) == (Status.STOPPED, TEXT.format(tool="work", count=3))
    assert world.ran == [1, 1]


async def test_a_timeout_a_failing_handler_and_no_handler_count_as_no() -> None:
    async def silent(_request: AnyQuestion) -> object:
        await asyncio.Event().wait()
        return None

    async def broken(_request: AnyQuestion) -> object:
        raise KeyError("x")

    for handler in (None, silent, broken):
        world, clock = World(), FakeClock()
        agent = world.agent(
            ScriptedModel(*[call()] * 2),
            RepetitionGuard(9, ask_at=2, timeout=5.0),
            on_question=handler,
            clock=clock,
        )
        result = await agent.run("go")
        assert (result.status, world.ran) == (Status.STOPPED, [1])


@pytest.mark.parametrize(
    ("remember", "times"),
    [("once", 3), ("call", 1), ("tool", 1)],
)
async def test_a_yes_can_be_remembered_and_does_not_raise_the_limit(
    remember: Any, times: int
) -> None:
    world = World(*[Approved(remember=remember)] * 3)
    model = ScriptedModel(*[call()] * 5)
    result = await world.agent(model, RepetitionGuard(5, ask_at=2)).run("go")
    assert len(world.asked) == times
    assert result.stop_reason == REASON.format(tool="work", count=5)
    assert world.ran == [1] * 4


async def test_a_yes_to_one_call_does_not_apply_to_another() -> None:
    world = World(*[Approved(remember="call")] * 2)
    model = ScriptedModel(call(n=1), call(n=1), call(n=2), call(n=2), "ok")
    await world.agent(model, RepetitionGuard(9, ask_at=2)).run("go")
    assert [request.arguments for request in world.asked] == [{"n": 1}, {"n": 2}]


async def test_edited_arguments_replace_the_models() -> None:
    world = World(Approved(arguments={"n": 7}))
    model = ScriptedModel(call(), call(), call(n=3), "ok")
    result = await world.agent(model, RepetitionGuard(9, ask_at=2)).run("go")
    assert result.output == "ok"
    assert world.ran == [1, 7, 3]


async def test_the_guard_and_a_permission_do_not_mix_up_their_answers() -> None:
    world = World(Approved(), Approved(), Approved())
    agent = Agent(
        ScriptedModel(call(), call(), "ok"),
        tools=world.tools(),
        middleware=[RepetitionGuard(9, ask_at=2), ToolPermission(ask=["work"])],
        on_question=world.answer,
    )
    assert (await agent.run("go")).output == "ok"
    sources = [request.source for request in world.asked]
    assert sources == ["ToolPermission", SOURCE, "ToolPermission"]


@pytest.mark.parametrize("crash_at", range(2, 12))
async def test_after_a_crash_no_question_is_repeated_and_no_answer_is_lost(crash_at: int) -> None:
    script = [call(), call(), "ok"]
    guard = RepetitionGuard(9, ask_at=2)
    journal, world = MemoryJournal(), World(Approved())
    first = world.agent(ScriptedModel(*script), guard, journal=CrashAt(journal, crash_at))
    with pytest.raises(SimulatedCrash):
        await first.run("go", session="s")
    kept = [record.event for record in await journal.read("s")]
    replied = sum(isinstance(event, ModelReplied) for event in kept)
    if any(type(event).__name__ == "QuestionAnswered" for event in kept):
        assert len(world.asked) == 1
    else:
        world = World(Approved())
    second = world.agent(ScriptedModel(*script[replied:]), guard, journal=journal)
    assert (await second.resume("s")).output == "ok"
    assert len(world.asked) == 1


async def test_a_hundred_runs_of_one_agent_count_each_alone() -> None:
    def script(request: Any) -> ToolCall | str:
        wanted = int(request.messages[0].text)
        done = sum(message.role == "tool" for message in request.messages)
        return call() if done < wanted else "done"

    world = World(*[Denied()] * 100)
    agent = world.agent(ScriptedModel(*[script] * 1000), RepetitionGuard(9, ask_at=3))
    results = await asyncio.gather(*(agent.run(str(number % 4)) for number in range(100)))
    stopped = [result.status is Status.STOPPED for result in results]
    assert stopped == [number % 4 == 3 for number in range(100)]
    assert len(world.asked) == 25


@pytest.mark.parametrize("rung", ["hint_at", "withdraw_at", "ask_at"])
def test_a_threshold_that_is_never_reached_names_both_settings(rung: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{rung}: is never reached.*max_consecutive"):
        RepetitionGuard(3, **{rung: 3})  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=rung):
        RepetitionGuard(3, **{rung: 0})  # type: ignore[arg-type]


def test_it_describes_its_thresholds() -> None:
    assert RepetitionGuard(5, ask_at=4).describe() == {
        "max_consecutive_calls": 5,
        "hint_at": None,
        "withdraw_at": None,
        "ask_at": 4,
    }


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ('{"a": 1, "b": [2.0, {"x": 1e0}]}', '{"b":[2,{"x":1}],"a":1.0}'),
        ("", "{}"),
        ('{"a": "1.0"}', '{ "a" : "1.0" }'),
    ],
)
def test_equal_arguments_have_one_signature(one: str, two: str) -> None:
    assert call_signature(ToolCall("1", "f", one)) == call_signature(ToolCall("2", "f", two))


def test_other_arguments_have_another_signature() -> None:
    texts = ['{"a": 1}', '{"a": "1"}', '{"a": 1.5}', '{"a": [1]}', '{"a": 1', "{}", '{"a": true}']
    assert len({call_signature(ToolCall("1", "f", text)) for text in texts}) == len(texts)


def finished(index: int, text: str) -> ToolFinished:
    return ToolFinished(f"t1.i0.tool.{index}", 0.0, ToolResult("c", "f", (Text(text),)))


@given(st.permutations([0, 1, 2]))
def test_the_order_in_which_tools_finish_changes_nothing(order: list[int]) -> None:
    state = RecentCalls()
    for _ in range(2):
        state = count_reply(state, (call("a"), call("b"), call("c")), 5)
        for index in order:
            state = count_result(state, finished(index, "same"))
    assert {name: last.count for name, last in state.last.items()} == {"a": 2, "b": 2, "c": 2}


def test_a_changed_result_resets_the_count() -> None:
    state = RecentCalls()
    for number in range(6):
        state = count_reply(state, (call(),), 5)
        state = count_result(state, finished(0, str(number)))
        assert state.worst.count <= 1
        assert len(state.recent) == 1


def test_the_state_does_not_grow_with_the_turn() -> None:
    state = RecentCalls()
    for number in range(500):
        state = count_reply(state, (call(n=number),), 3)
        state = count_result(state, finished(0, str(number)))
    assert len(state.recent) <= 9
    assert len(state.results) <= 32


def test_a_reply_without_calls_repeats_nothing() -> None:
    guard = RepetitionGuard()
    state = guard.fold(guard.initial, ModelReplied("t1.i0.model", 0.0, Reply((Text("hi"),))))
    assert state.calls.worst.count == 0
