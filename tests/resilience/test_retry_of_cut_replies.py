"""What the retry strategy does with a reply that broke off: hands it on, or has it forgotten, once."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.resilience.operations import OK, Bench, C, Script, fail, held

from holdfast.core.messages import Reply, ReplyKind, Text
from holdfast.core.notices import AttemptAbandoned, RetryScheduled
from holdfast.models.reply_carry import ReplyCarry, read_carry
from holdfast.resilience.budget.options import BudgetOptions
from holdfast.resilience.budget.retry_budget import RetryBudget
from holdfast.resilience.pipeline import Done, Failed
from holdfast.resilience.retry.options import RetryOptions
from holdfast.resilience.retry.strategy import Retry

ONE = Reply((Text("Once"),), kind=ReplyKind.UNTERMINATED)
TWO = Reply((Text("Once upon"),), kind=ReplyKind.UNTERMINATED)
CONTINUES = ReplyCarry(continues=True)


def broken(kept: Reply | None, category: C = C.TRANSIENT, **known: Any) -> Failed:
    carry = None if kept is None else msgspec.structs.replace(CONTINUES, reply_so_far=kept)
    return msgspec.structs.replace(fail(category, **known), carry=carry)


def handed(act: Script) -> list[str | None]:
    replies = [read_carry(call).reply_so_far for call in act.calls]
    return [reply.text if reply else None for reply in replies]


async def test_what_an_attempt_kept_is_handed_to_the_next_one() -> None:
    bench, act = Bench(), Script(broken(ONE), broken(TWO), OK)
    outcome = await bench.run(act, Retry(), carry=CONTINUES)
    assert (outcome.value, outcome.attempts) == ("ok", 3)
    assert handed(act) == [None, "Once", "Once upon"]
    assert all(read_carry(call).may_continue for call in act.calls)
    assert bench.seen(AttemptAbandoned) == []
    assert len(bench.seen(RetryScheduled)) == 2


async def test_without_the_setting_no_attempt_is_told_that_it_may_be_continued() -> None:
    act = Script(fail(), OK)
    await Bench().run(act, Retry(), carry=ReplyCarry())
    assert [read_carry(call).may_continue for call in act.calls] == [False, False]


async def test_one_that_was_held_back_between_them_loses_nothing() -> None:
    bench, act = Bench(), Script(broken(ONE), held(5.0), held(1.0), OK)
    await bench.run(act, Retry(RetryOptions(max_breaker_wait=60.0)), carry=CONTINUES)
    assert handed(act) == [None, "Once", "Once", "Once"]
    assert bench.seen(AttemptAbandoned) == []


async def test_what_cannot_be_continued_any_more_is_forgotten_once() -> None:
    bench, act = Bench(), Script(broken(ONE), broken(None), OK)
    await bench.run(act, Retry(), carry=CONTINUES)
    assert handed(act) == [None, "Once", None]
    (notice,) = bench.seen(AttemptAbandoned)
    assert (notice.key, notice.attempt) == ("t1.i0.model", 2)


@pytest.mark.parametrize(
    "last",
    [
        [broken(TWO)],
        [broken(TWO, may_repeat=False)],
        [held(None)],
        [broken(None, C.AUTH_ERROR)],
        [broken(TWO, C.RATE_LIMIT_RETRYABLE, retry_after=1e6)],
    ],
    ids=["exhausted", "in doubt", "held", "final", "too long a wait"],
)
async def test_when_it_is_given_up_what_was_kept_is_forgotten_once(last: list[Failed]) -> None:
    bench, act = Bench(), Script(broken(ONE), *last)
    handling = RetryOptions(max_retries=1)
    outcome = await bench.run(act, Retry(handling), carry=CONTINUES)
    assert isinstance(outcome, Failed)
    assert len(bench.seen(AttemptAbandoned)) == 1


async def test_a_failure_that_kept_nothing_is_not_declared_abandoned_here() -> None:
    bench = Bench()
    await bench.run(Script(fail(C.AUTH_ERROR)), Retry(), carry=CONTINUES)
    assert bench.seen(AttemptAbandoned) == []


async def test_a_refused_beginning_is_no_retry_and_nothing_is_continued_after_it() -> None:
    bench = Bench()
    act = Script(broken(ONE), broken(None, C.CLIENT_ERROR), broken(None), OK)
    handling = RetryOptions(max_retries=2)
    outcome = await bench.run(act, Retry(handling), carry=CONTINUES)
    assert (outcome.value, outcome.attempts) == ("ok", 4)
    assert handed(act) == [None, "Once", None, None]
    assert [read_carry(call).may_continue for call in act.calls] == [True, True, False, False]
    assert [call.attempt for call in act.calls] == [1, 2, 3, 4]
    assert bench.clock.sleeps == [1.0, 2.0]
    assert len(bench.seen(AttemptAbandoned)) == 1


async def test_a_refusal_of_the_question_itself_is_final_as_ever() -> None:
    act = Script(fail(C.CLIENT_ERROR))
    await Bench().run(act, Retry(), carry=CONTINUES)
    assert len(act.calls) == 1


async def test_a_refused_beginning_is_not_asked_again_when_no_time_is_left() -> None:
    bench = Bench()

    async def slow(_: Any) -> Failed:
        bench.clock.advance(100.0)
        return broken(None, C.CLIENT_ERROR)

    outcome = await bench.run(Script(broken(ONE), slow), Retry(), carry=CONTINUES, deadline=10.0)
    assert isinstance(outcome, Failed)
    assert outcome.out_of_time


async def test_an_empty_budget_ends_it_and_has_the_text_forgotten() -> None:
    bench = Bench()
    budget = RetryBudget(BudgetOptions(ratio=0.0, reserve=0, reserve_per_second=0))
    outcome = await bench.run(Script(broken(ONE), OK), Retry(budget=budget), carry=CONTINUES)
    assert isinstance(outcome, Failed)
    assert len(bench.seen(AttemptAbandoned)) == 1


async def test_cancelled_while_it_waits_what_was_kept_is_the_partial_reply() -> None:
    bench, kept = Bench(auto=False), []
    env = msgspec.structs.replace(bench.env, keep_partial=kept.append)
    call = msgspec.structs.replace(bench.call(), execution=env, carry=CONTINUES)
    task = asyncio.ensure_future(Retry().wrap(Script(broken(ONE), OK))(call))
    while not bench.clock.sleeps:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert kept == [ONE]


async def test_a_strategy_passes_on_what_it_does_not_know() -> None:
    act = Script(fail(), OK)
    outcome = await Bench().run(act, Retry())
    assert outcome == Done("ok", 2)
    assert [call.carry for call in act.calls] == [None, None]
