"""At the limit a person is asked; any answer but yes ends the turn with the exact text."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Agent, Limits, tool
from holdfast.core.errors import ConfigurationError, LimitError, StoppedError
from holdfast.core.events import LimitExtended, Status
from holdfast.core.messages import ToolCall
from holdfast.core.questions import ContinuationQuestion, Continued, Denied, Question
from holdfast.middleware.continuation_permission import ContinuationPermission
from holdfast.testing import FakeClock, ScriptedModel

TEXT = "Execution terminated: Maximum iteration limit reached and continuation was not approved."
REASON = "Continuation permission denied at iteration limit"


@tool(effect="read")
async def work() -> str:
    """Do some work."""
    return "done"


def looping(calls: int) -> ScriptedModel:
    return ScriptedModel(*[ToolCall("c", "work", "{}")] * calls, "finished")


def agent(model: ScriptedModel, *middleware: ContinuationPermission, **options: Any) -> Agent[Any]:
    options.setdefault("clock", FakeClock(auto=False))
    return Agent(model, tools=[work], middleware=middleware, **options)


class Handler:
    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.requests: list[ContinuationQuestion] = []

    async def __call__(self, request: Question[Any]) -> object:
        assert isinstance(request, ContinuationQuestion)
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_it_asks_at_twenty_and_a_yes_gives_three_more() -> None:
    handler = Handler(Continued(), Denied())
    model = looping(99)
    result = await agent(model, ContinuationPermission(), on_question=handler).run("go")
    assert [(one.iteration, one.limit, one.extension) for one in handler.requests] == [
        (21, 20, 3),
        (24, 23, 3),
    ]
    assert len(model.requests) == 23
    assert result.status is Status.STOPPED
    assert (result.text, result.stop_reason) == (TEXT, REASON)


async def test_below_the_limit_no_question_is_asked() -> None:
    handler = Handler()
    result = await agent(looping(19), ContinuationPermission(), on_question=handler).run("go")
    assert result.text == "finished"
    assert handler.requests == []


async def test_an_answer_may_give_another_number() -> None:
    handler = Handler(Continued(iterations=5))
    model = looping(6)
    asking_agent = agent(model, ContinuationPermission(2), on_question=handler)
    assert (await asking_agent.run("go")).text == "finished"
    assert len(model.requests) == 7


async def test_the_extension_is_an_event_of_the_run() -> None:
    asking_agent = agent(looping(3), ContinuationPermission(2), on_question=Handler(Continued()))
    async with asking_agent.stream("go") as run:
        events = [item async for item in run if isinstance(item, LimitExtended)]
    assert [(event.key, event.iterations) for event in events] == [("t1.i2.extended", 3)]


async def test_every_answer_but_yes_ends_the_turn_with_the_same_text() -> None:
    async def ended(**options: Any) -> tuple[str, str]:
        result = await agent(looping(9), ContinuationPermission(2), **options).run("go")
        return result.text, result.stop_reason

    assert await ended(on_question=Handler(Denied())) == (TEXT, REASON)
    assert await ended(on_question=Handler(RuntimeError("broken"))) == (TEXT, REASON)
    assert await ended(on_question=Handler("yes")) == (TEXT, REASON)
    assert await ended(on_question=Handler(None)) == (TEXT, REASON)
    assert await ended() == (TEXT, REASON)


async def test_it_waits_two_minutes_and_a_dismissal_is_a_no() -> None:
    for dismiss in (False, True):
        clock = FakeClock()
        async with agent(looping(9), ContinuationPermission(2), clock=clock).stream("go") as run:
            async for item in run:
                if dismiss and isinstance(item, ContinuationQuestion):
                    run.dismiss(item)
        assert clock.sleeps == [120.0]
        assert run.result.text == TEXT
        assert run.result.stop_reason == REASON


async def test_an_agent_with_a_typed_output_raises_instead_of_inventing_one() -> None:
    with pytest.raises(StoppedError) as caught:
        await agent(looping(9), ContinuationPermission(2), output=dict[str, int]).run("go")
    assert caught.value.result.stop_reason == REASON  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("permission", "limits", "calls"),
    [
        (ContinuationPermission(), None, 20),
        (ContinuationPermission(), Limits(iterations=4), 4),
        (ContinuationPermission(), Limits(iterations=20), 20),
        (ContinuationPermission(), Limits(iterations=None), 20),
        (ContinuationPermission(20), Limits(iterations=4), 20),
        (ContinuationPermission(3), None, 3),
    ],
)
async def test_the_limit_that_was_configured_is_the_limit(
    permission: ContinuationPermission, limits: Limits | None, calls: int
) -> None:
    for of_agent in (True, False):
        model = looping(99)
        asking_agent = agent(model, permission, **({"limits": limits} if of_agent else {}))
        await asking_agent.run("go", **({} if of_agent else {"limits": limits}))
        assert len(model.requests) == calls


async def test_one_instance_serves_many_runs_without_mixing_their_limits() -> None:
    permission = ContinuationPermission(2)

    async def run(more: int) -> int:
        handler = Handler(Continued(iterations=more), Denied())
        model = looping(99)
        await agent(model, permission, on_question=handler).run("go")
        return len(model.requests)

    assert await asyncio.gather(*(run(n) for n in range(1, 30))) == [2 + n for n in range(1, 30)]


async def test_each_turn_of_a_session_begins_with_the_configured_limit() -> None:
    handler = Handler(Continued(iterations=50), Denied())
    model = ScriptedModel(
        *[ToolCall("c", "work", "{}")] * 5, "one", *[ToolCall("c", "work", "{}")] * 9
    )
    asking_agent = agent(model, ContinuationPermission(2), on_question=handler)
    await asking_agent.run("go", session="s")
    await asking_agent.run("go", session="s")
    assert [one.limit for one in handler.requests] == [2, 2]


async def test_an_extendable_limit_that_is_not_extended_ends_the_turn() -> None:
    model = looping(99)
    limits = Limits(iterations=2, extendable=True)
    with pytest.raises(LimitError, match="Maximum iteration limit reached") as caught:
        await agent(model, limits=limits).run("go")
    assert caught.value.limit == "iterations"
    assert len(model.requests) == 2


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"iterations": 0}, "iterations: must be at least 1"),
        ({"extension": 0}, "extension: must be at least 1"),
        ({"timeout": -1}, "timeout: must be a finite number above 0"),
    ],
)
def test_bad_settings_name_the_argument(options: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        ContinuationPermission(**options)


def test_it_describes_itself() -> None:
    assert ContinuationPermission(20).describe() == {
        "iterations": 20,
        "extension": 3,
        "timeout": "default",
    }
