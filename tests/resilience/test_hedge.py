from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.resilience.operations import OK, Bench, Script, fail, never

from holdfast.core.deltas import TextDelta
from holdfast.core.errors import ConfigurationError
from holdfast.core.notices import AttemptStarted
from holdfast.resilience.hedge.decision import delay_before
from holdfast.resilience.hedge.options import HedgeOptions
from holdfast.resilience.hedge.strategy import Hedge, Latencies
from holdfast.resilience.pipeline import CallContext, Done, Outcome

EAGER = HedgeOptions(delay=1.0, max_share=1.0)


def slow(seconds: float, outcome: Outcome[Any] = OK) -> Any:
    async def act(call: CallContext[Any]) -> Outcome[Any]:
        await call.execution.clock.sleep(seconds)
        return outcome

    return act


def hedge(options: HedgeOptions = EAGER) -> Hedge:
    return Hedge(Latencies(options))


async def test_a_fast_attempt_has_no_second_one() -> None:
    act = Script(slow(0.5))
    assert await Bench().run(act, hedge()) == OK
    assert len(act.calls) == 1


async def test_the_second_attempt_wins_when_the_first_is_slow() -> None:
    bench, act = Bench(), Script(slow(60.0, Done("first")), slow(0.5, Done("second")))
    assert await bench.run(act, hedge()) == Done("second")
    assert act.times == [0.0, 1.0]
    assert bench.clock.monotonic() == 1.5


async def test_the_first_may_still_win() -> None:
    act = Script(slow(1.2, Done("first")), slow(9.0, Done("second")))
    assert await Bench().run(act, hedge()) == Done("first")


async def test_an_answer_at_the_moment_when_the_other_attempt_shows_text_is_not_the_result() -> (
    None
):
    gate, bench = asyncio.Event(), Bench()

    async def silent(_: CallContext[Any]) -> Outcome[Any]:
        await gate.wait()
        return Done("silent")

    async def shown(call: CallContext[Any]) -> Outcome[Any]:
        asyncio.get_running_loop().call_soon(gate.set)
        await gate.wait()
        call.execution.emit(TextDelta("shown"))
        await asyncio.sleep(0)
        return Done("shown")

    assert await bench.run(Script(silent, shown), hedge()) == Done("shown")
    assert TextDelta("shown") in bench.notices


async def test_the_loser_is_cancelled_and_awaited() -> None:
    ended: list[str] = []

    async def loser(call: CallContext[Any]) -> Outcome[Any]:
        try:
            return await never(call)
        finally:
            await asyncio.sleep(0)
            ended.append("cleaned up")

    before = asyncio.all_tasks()
    assert await Bench().run(Script(loser, OK), hedge()) == OK
    assert ended == ["cleaned up"]
    assert asyncio.all_tasks() == before


async def test_cancelling_the_call_cancels_both() -> None:
    before = asyncio.all_tasks()
    act = Script(never)
    task = asyncio.ensure_future(Bench().run(act, hedge()))
    while len(act.calls) < 2:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == before


async def test_a_fast_failure_is_left_to_retry() -> None:
    act = Script(fail())
    await Bench().run(act, hedge())
    assert len(act.calls) == 1


async def test_when_one_fails_the_other_decides() -> None:
    act = Script(slow(5.0, Done("first")), slow(0.5, fail()))
    assert await Bench().run(act, hedge()) == Done("first")


async def test_when_both_fail_it_is_a_failure() -> None:
    failure = fail()
    act = Script(slow(5.0, failure), slow(0.5, failure))
    outcome = await Bench().run(act, hedge())
    assert outcome.info == failure.info  # type: ignore[union-attr]


async def test_nothing_is_hedged_before_enough_is_known() -> None:
    using, act = hedge(HedgeOptions(samples=5, max_share=1.0)), Script(slow(1.0))
    for moment in range(5):
        bench = Bench()
        bench.clock.advance(100.0 * moment)
        await bench.run(act, using)
    assert len(act.calls) == 5
    late = Script(slow(50.0), OK)
    await Bench().run(late, using)
    assert late.times == [0.0, 1.0]


async def test_the_guard_keeps_second_attempts_to_their_share() -> None:
    using, act = hedge(HedgeOptions(delay=1.0, max_share=0.05)), Script(slow(2.0))
    for _ in range(100):
        await Bench().run(act, using)
    assert 104 <= len(act.calls) <= 105


def shows(text: str, after: float, ends: float) -> Any:
    async def act(call: CallContext[Any]) -> Outcome[Any]:
        call.execution.emit(AttemptStarted(call.key, call.attempt, text))
        await call.execution.clock.sleep(after)
        call.execution.emit(TextDelta(text))
        await call.execution.clock.sleep(ends)
        call.execution.emit(TextDelta("."))
        return Done(text)

    return act


async def test_nobody_ever_reads_two_answers_at_once() -> None:
    bench = Bench()
    act = Script(shows("slow", 3.0, 3.0), shows("fast", 0.5, 9.0))
    assert await bench.run(act, hedge()) == Done("fast")
    assert bench.seen(TextDelta) == [TextDelta("fast"), TextDelta(".")]
    assert [notice.target for notice in bench.seen(AttemptStarted)] == ["slow", "fast"]


async def test_an_attempt_that_shows_something_is_not_hedged() -> None:
    act = Script(shows("first", 0.5, 60.0))
    await Bench().run(act, hedge())
    assert len(act.calls) == 1


async def test_an_attempt_that_was_heard_and_fails_is_the_outcome() -> None:
    async def breaks(call: CallContext[Any]) -> Outcome[Any]:
        await call.execution.clock.sleep(2.0)
        call.execution.emit(TextDelta("half an ans"))
        await call.execution.clock.sleep(2.0)
        return fail()

    act = Script(breaks, slow(60.0))
    outcome = await Bench().run(act, hedge())
    assert outcome.info == fail().info  # type: ignore[union-attr]


async def test_only_what_was_heard_is_kept_as_a_partial_reply() -> None:
    kept: list[Any] = []

    def keeps(name: str, after: float) -> Any:
        async def act(call: CallContext[Any]) -> Outcome[Any]:
            try:
                await call.execution.clock.sleep(after)
                call.execution.emit(TextDelta(name))
                return await never(call)
            except asyncio.CancelledError:
                assert call.execution.keep_partial is not None
                call.execution.keep_partial(name)  # type: ignore[arg-type]
                raise

        return act

    import msgspec

    bench = Bench()
    env = msgspec.structs.replace(bench.env, keep_partial=kept.append)
    call = msgspec.structs.replace(bench.call(), execution=env)
    act = Script(keeps("slow", 50.0), keeps("fast", 1.0))
    task = asyncio.ensure_future(hedge().wrap(act)(call))
    while not bench.seen(TextDelta):
        await asyncio.sleep(0)
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert kept == ["fast"]


async def test_a_bug_in_the_act_passes() -> None:
    async def broken(call: CallContext[Any]) -> Outcome[Any]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await Bench().run(broken, hedge())


def test_the_defaults() -> None:
    assert HedgeOptions() == HedgeOptions(
        quantile=0.95, samples=20, window=200, delay=None, max_share=0.05
    )
    assert HedgeOptions(samples=200).samples == 200


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60), st.floats(0.01, 1))
def test_the_delay_is_one_of_the_latencies(latencies: list[float], quantile: float) -> None:
    options = HedgeOptions(quantile=quantile, samples=1)
    delay = delay_before(options, latencies)
    assert delay in latencies
    assert sum(latency <= delay for latency in latencies) >= quantile * len(latencies) - 1


@pytest.mark.parametrize(
    "bad",
    [
        {"quantile": 0},
        {"quantile": 1.5},
        {"samples": 0},
        {"samples": 500},
        {"delay": 0},
        {"max_share": 2},
    ],
    ids=str,
)
def test_a_bad_setting_is_named(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"hedge.{next(iter(bad))}"):
        HedgeOptions(**bad)
