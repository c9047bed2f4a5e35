from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.resilience.operations import OK, Bench, C, Script, fail, held, never

from holdfast.core.errors import ConfigurationError, ErrorCategory
from holdfast.core.messages import user
from holdfast.core.model_request import ModelRequest
from holdfast.resilience.fallback.options import ELSEWHERE, FallbackTarget
from holdfast.resilience.fallback.strategy import Fallback
from holdfast.resilience.pipeline import Done, Failed, FailedTarget
from holdfast.resilience.retry.strategy import Retry


def fallback(*acts: Script, **known: Any) -> Fallback:
    targets = tuple(FallbackTarget(f"b{at}", act, f"model-b{at}") for at, act in enumerate(acts))
    return Fallback("a", targets, **known)


REQUEST = ModelRequest(model="model-a", messages=[user("hi")])


async def test_without_a_failure_the_others_are_not_asked() -> None:
    other = Script(OK)
    assert await Bench().run(Script(OK), fallback(other), payload=REQUEST) == OK
    assert other.calls == []


async def test_the_next_one_answers_and_what_was_tried_is_recorded() -> None:
    first, second = fail(C.RATE_LIMIT_TERMINAL), fail(C.MODEL_NOT_FOUND)
    other = Script(second)
    outcome = await Bench().run(Script(first), fallback(other, Script(OK)), payload=REQUEST)
    assert outcome == Done(
        "ok", 3, (FailedTarget("a", 1, first.info), FailedTarget("b0", 1, second.info))
    )


async def test_each_target_gets_its_own_model_and_the_same_history() -> None:
    act, other = Script(fail()), Script(OK)
    await Bench().run(act, fallback(other), payload=REQUEST)
    assert act.calls[0].payload is REQUEST
    assert other.calls[0].payload.model == "model-b0"
    assert other.calls[0].payload.messages is REQUEST.messages


async def test_attempts_are_counted_on_across_the_targets() -> None:
    act, other = Script(fail()), Script(fail(), OK)
    targets = Fallback("a", (FallbackTarget("b", Retry().wrap(other)),))
    outcome = await Bench().run(act, targets, Retry())
    assert [call.attempt for call in act.calls] == [1, 2, 3, 4]
    assert [call.attempt for call in other.calls] == [5, 6]
    assert outcome.attempts == 6


async def test_when_all_fail_the_error_tells_of_each() -> None:
    act, other = Script(fail(safe="a is down")), Script(fail(C.AUTH_ERROR, safe="b has no key"))
    outcome = await Bench().run(act, fallback(other), payload=REQUEST)
    assert isinstance(outcome, Failed)
    assert outcome.info.category is C.AUTH_ERROR
    assert outcome.info.safe == "b has no key (before that, a: a is down)"
    assert [record.target for record in outcome.tried] == ["a"]


@pytest.mark.parametrize("category", sorted(set(ErrorCategory) - ELSEWHERE))
async def test_what_would_fail_everywhere_or_must_not_be_got_elsewhere_ends_it(
    category: ErrorCategory,
) -> None:
    other = Script(OK)
    outcome = await Bench().run(Script(fail(category)), fallback(other), payload=REQUEST)
    assert isinstance(outcome, Failed)
    assert other.calls == []


async def test_a_filter_may_be_fallen_back_from_when_asked_for() -> None:
    choice = fallback(Script(OK), categories=frozenset({C.CONTENT_FILTERED}))
    assert isinstance(
        await Bench().run(Script(fail(C.CONTENT_FILTERED)), choice, payload=REQUEST), Done
    )


async def test_an_open_breaker_is_a_reason_to_ask_the_next_one() -> None:
    assert isinstance(
        await Bench().run(Script(held(None)), fallback(Script(OK)), payload=REQUEST), Done
    )


async def test_an_act_in_doubt_is_not_done_elsewhere() -> None:
    other = Script(OK)
    await Bench().run(Script(fail(C.TIMEOUT, may_repeat=False)), fallback(other), payload=REQUEST)
    assert other.calls == []


async def test_no_target_is_asked_when_no_time_is_left() -> None:
    other = Script(OK)
    outcome = await Bench().run(Script(fail()), fallback(other), payload=REQUEST, deadline=0.0)
    assert isinstance(outcome, Failed)
    assert other.calls == []


async def test_cancellation_is_no_failure() -> None:
    other = Script(OK)
    task = asyncio.ensure_future(Bench().run(never, fallback(other), payload=REQUEST))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert other.calls == []


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(ConfigurationError, match="has no targets"):
        Fallback("a", ())
    with pytest.raises(ConfigurationError, match="'a' is named twice"):
        Fallback("a", (FallbackTarget("a", Script(OK)),))
    with pytest.raises(ConfigurationError, match="is not an ErrorCategory"):
        Fallback("a", (FallbackTarget("b", Script(OK)),), frozenset({"overload"}))  # type: ignore[arg-type]


def test_describe_names_the_targets_in_order() -> None:
    assert fallback(Script(OK), Script(OK)).describe()["targets"] == ["a", "b0", "b1"]
