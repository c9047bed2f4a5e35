from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.resilience.operations import OK, Bench, C, Script, fail, never

from holdfast.core.errors import ConfigurationError, Landed
from holdfast.core.notices import AttemptAbandoned
from holdfast.resilience.pipeline import CallContext, Done, Failed, Outcome
from holdfast.resilience.retry.strategy import Retry
from holdfast.resilience.timeout.strategy import AttemptTimeout, Deadline


async def test_an_attempt_that_is_cut_is_a_timeout_that_may_have_landed() -> None:
    bench = Bench()
    outcome = await bench.run(never, AttemptTimeout(0.005))
    assert isinstance(outcome, Failed)
    assert (outcome.info.category, outcome.info.landed) == (C.TIMEOUT, Landed.UNKNOWN)
    assert "0.005 s, the limit for one attempt" in outcome.info.safe
    assert bench.seen(AttemptAbandoned)


async def test_the_limit_is_for_each_attempt_and_a_slow_one_is_repeated() -> None:
    act = Script(never, OK)
    assert await Bench().run(act, Retry(), AttemptTimeout(0.005)) == Done("ok", 2)


async def test_a_write_that_was_cut_is_in_doubt_and_not_repeated() -> None:
    act = Script(never)
    outcome = await Bench().run(act, Retry(), AttemptTimeout(0.005, may_repeat=False))
    assert isinstance(outcome, Failed)
    assert len(act.calls) == 1


async def test_the_work_is_cancelled_and_not_abandoned() -> None:
    ended: list[str] = []

    async def work(call: CallContext[Any]) -> Outcome[Any]:
        try:
            return await never(call)
        finally:
            ended.append("yes")

    await Bench().run(work, AttemptTimeout(0.005))
    assert ended == ["yes"]


@pytest.mark.parametrize("strategy", [AttemptTimeout(60), Deadline(60)])
async def test_a_cancellation_from_outside_stays_one(strategy: Any) -> None:
    task = asyncio.ensure_future(Bench().run(never, strategy))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("strategy", [AttemptTimeout(60), Deadline(60)])
async def test_a_timeout_error_of_the_act_itself_is_not_taken_for_ours(strategy: Any) -> None:
    async def act(call: CallContext[Any]) -> Outcome[Any]:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await Bench().run(act, strategy)


async def test_the_deadline_is_for_all_attempts_and_waits_together() -> None:
    bench, act = Bench(), Script(fail())
    outcome = await bench.run(act, Deadline(6.0), Retry())
    assert isinstance(outcome, Failed)
    assert act.times == [0.0, 1.0, 3.0]
    assert "would pass the deadline" in outcome.info.safe


async def test_the_deadline_cuts_an_attempt_too_and_nothing_repeats_it() -> None:
    act = Script(never)
    outcome = await Bench().run(act, Deadline(0.005), Retry())
    assert isinstance(outcome, Failed)
    assert (len(act.calls), outcome.info.category, outcome.may_repeat) == (1, C.TIMEOUT, False)


async def test_the_nearer_deadline_of_the_run_stays() -> None:
    act = Script(OK)
    await Bench().run(act, Deadline(100.0), deadline=3.0)
    await Bench().run(act, Deadline(100.0), deadline=300.0)
    assert [call.deadline for call in act.calls] == [3.0, 100.0]


@pytest.mark.parametrize("bad", [0, -1, float("nan"), None, "3", True])
def test_a_bad_setting_is_named(bad: Any) -> None:
    with pytest.raises(ConfigurationError, match="attempt_timeout"):
        AttemptTimeout(bad)
    with pytest.raises(ConfigurationError, match="deadline"):
        Deadline(bad)
