from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.resilience.operations import OK, Bench, C, Script, fail, held, info, never

from holdfast.core.errors import ConfigurationError, ErrorCategory, ErrorInfo
from holdfast.core.notices import RetryScheduled
from holdfast.resilience.budget.options import BudgetOptions
from holdfast.resilience.budget.retry_budget import RetryBudget
from holdfast.resilience.pipeline import Done, Failed
from holdfast.resilience.retry import strategy as retry_strategy
from holdfast.resilience.retry.decision import (
    StopRetrying,
    WaitAndRetry,
    decide_retry,
    decide_unsent,
)
from holdfast.resilience.retry.options import DEFER, RetryOptions
from holdfast.resilience.retry.strategy import Retry


async def waits(handling: RetryOptions, *outcomes: Any, **known: Any) -> list[float]:
    bench = Bench()
    await bench.run(Script(*outcomes), Retry(handling), **known)
    return bench.clock.sleeps


class TestSeed000:
    async def test_always_failing_with_three_retries_is_four_calls(self) -> None:
        bench, act = Bench(), Script(fail())
        outcome = await bench.run(act, Retry())
        assert isinstance(outcome, Failed)
        assert (len(act.calls), outcome.attempts) == (4, 4)
        assert [call.attempt for call in act.calls] == [1, 2, 3, 4]

    async def test_no_wait_before_the_first_attempt_nor_after_the_last(self) -> None:
        assert await waits(RetryOptions(), fail()) == [1.0, 2.0, 4.0]
        assert await waits(RetryOptions(), OK) == []
        assert await waits(RetryOptions(max_retries=0), fail()) == []

    async def test_success_after_two_failures(self) -> None:
        bench, act = Bench(), Script(fail(), fail(), OK)
        assert await bench.run(act, Retry()) == Done("ok", 3)

    async def test_a_wait_never_exceeds_the_cap_jitter_included(self) -> None:
        handling = RetryOptions(max_retry_delay=3.0)
        bench = Bench(0.999)
        await bench.run(Script(fail()), Retry(handling))
        assert bench.clock.sleeps == pytest.approx([1.1, 2.2, 3.0], abs=0.01)

    async def test_the_event_counts_attempts_from_one(self) -> None:
        bench = Bench()
        await bench.run(Script(fail(), OK), Retry())
        assert bench.seen(RetryScheduled) == [RetryScheduled("t1.i0.model", 1, 3, 1.0, info())]

    async def test_a_category_limit_of_two_with_a_global_five_is_three_calls(self) -> None:
        handling = RetryOptions(max_retries=5, max_retries_by_category={C.SERVER_ERROR: 2})
        act = Script(fail())
        await Bench().run(act, Retry(handling))
        assert len(act.calls) == 3

    async def test_flaw_a_category_missing_from_the_map_has_the_global_limit_and_not_zero(
        self,
    ) -> None:
        handling = RetryOptions(max_retries_by_category={C.SERVER_ERROR: 0})
        act = Script(fail(C.TRANSIENT))
        await Bench().run(act, Retry(handling))
        assert len(act.calls) == 4

    async def test_a_client_error_is_one_call(self) -> None:
        act = Script(fail(C.CLIENT_ERROR))
        await Bench().run(act, Retry())
        assert len(act.calls) == 1

    async def test_retry_after_is_obeyed_exactly_without_jitter(self) -> None:
        assert await waits(RetryOptions(), fail(retry_after=0.2), OK) == [0.2]

    async def test_retry_after_may_exceed_the_cap_of_the_backoff(self) -> None:
        assert await waits(RetryOptions(), fail(retry_after=45.0), OK) == [45.0]

    async def test_retry_after_can_be_ignored(self) -> None:
        handling = RetryOptions(use_provider_retry_delays=False)
        assert await waits(handling, fail(retry_after=45.0), OK) == [1.0]

    async def test_flaw_d7_d8_a_wait_of_an_hour_is_a_terminal_answer_that_says_so(self) -> None:
        act = Script(fail(C.RATE_LIMIT_RETRYABLE, retry_after=3600.0))
        outcome = await Bench().run(act, Retry())
        assert isinstance(outcome, Failed)
        assert len(act.calls) == 1
        assert "asks to wait 3600 s" in outcome.info.safe
        assert "3600" in "".join(outcome.error.__notes__)

    async def test_a_wait_of_just_the_longest_allowed_is_waited(self) -> None:
        assert await waits(RetryOptions(), fail(retry_after=120.0), OK) == [120.0]

    async def test_flaw_d6_d7_an_exhausted_quota_is_one_call(self) -> None:
        act = Script(fail(C.RATE_LIMIT_TERMINAL))
        await Bench().run(act, Retry())
        assert len(act.calls) == 1

    async def test_flaw_d20_an_overload_as_the_first_stream_event_is_retried(self) -> None:
        act = Script(fail(C.SERVER_ERROR, status=200, code="overloaded_error"), OK)
        assert await Bench().run(act, Retry()) == Done("ok", 2)

    async def test_flaw_a_final_failure_is_a_failure_and_never_an_answer(self) -> None:
        assert isinstance(await Bench().run(Script(fail()), Retry()), Failed)

    async def test_flaw_cancellation_in_the_act_passes_and_is_not_retried(self) -> None:
        act = Script(never)
        task = asyncio.ensure_future(Bench().run(act, Retry()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(act.calls) == 1

    async def test_flaw_cancellation_during_a_wait_passes(self) -> None:
        bench, act = Bench(auto=False), Script(fail())
        task = asyncio.ensure_future(bench.run(act, Retry()))
        while not bench.clock.sleeps:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(act.calls) == 1


class TestInDoubt:
    async def test_a_write_that_may_have_landed_is_not_repeated(self) -> None:
        act = Script(fail(C.TIMEOUT, may_repeat=False))
        outcome = await Bench().run(act, Retry())
        assert isinstance(outcome, Failed)
        assert len(act.calls) == 1
        assert "may have taken effect" in outcome.info.safe

    async def test_not_even_when_the_custom_strategy_says_so(self) -> None:
        act = Script(fail(C.TIMEOUT, may_repeat=False))
        await Bench().run(act, Retry(RetryOptions(custom_retry=lambda error, attempt: 1.0)))
        assert len(act.calls) == 1


class TestDeadline:
    async def test_a_wait_that_would_pass_the_deadline_fails_at_once_and_says_so(self) -> None:
        bench, act = Bench(), Script(fail(retry_after=10.0))
        outcome = await bench.run(act, Retry(), deadline=10.0)
        assert isinstance(outcome, Failed)
        assert bench.clock.sleeps == []
        assert "would pass the deadline" in outcome.info.safe
        assert outcome.out_of_time

    async def test_other_failures_are_not_for_want_of_time(self) -> None:
        outcome = await Bench().run(Script(fail()), Retry(), deadline=99.0)
        assert isinstance(outcome, Failed)
        assert not outcome.out_of_time

    async def test_attempts_go_on_while_there_is_time(self) -> None:
        bench, act = Bench(), Script(fail())
        await bench.run(act, Retry(), deadline=5.0)
        assert act.times == [0.0, 1.0, 3.0]


class TestCustomStrategy:
    async def test_its_answer_is_final_also_for_what_is_never_retried(self) -> None:
        act = Script(fail(C.AUTH_ERROR), OK)
        handling = RetryOptions(custom_retry=lambda error, attempt: 0.5)
        bench = Bench()
        assert await bench.run(act, Retry(handling)) == Done("ok", 2)
        assert bench.clock.sleeps == [0.5]

    async def test_none_stops(self) -> None:
        async def strategy(error: BaseException, attempt: int) -> float | None:
            return None

        act = Script(fail())
        await Bench().run(act, Retry(RetryOptions(custom_retry=strategy)))
        assert len(act.calls) == 1

    async def test_defer_leaves_it_to_the_provider_and_the_backoff(self) -> None:
        handling = RetryOptions(custom_retry=lambda error, attempt: DEFER)
        assert await waits(handling, fail(retry_after=7.0), OK) == [7.0]

    async def test_it_sees_the_exception_and_the_attempt_from_zero_and_not_the_last_one(
        self,
    ) -> None:
        asked: list[tuple[str, int]] = []

        async def strategy(error: BaseException, attempt: int) -> float:
            asked.append((str(error), attempt))
            return 0.0

        await Bench().run(Script(fail()), Retry(RetryOptions(max_retries=2, custom_retry=strategy)))
        assert asked == [("server_error", 0), ("server_error", 1)]

    async def test_its_wait_is_capped(self) -> None:
        handling = RetryOptions(custom_retry=lambda error, attempt: 1e6, max_retry_delay=9.0)
        assert await waits(handling, fail(), OK) == [9.0]

    @pytest.mark.parametrize(
        "nonsense", [math.nan, math.inf, -1, "2", True, [], object()], ids=lambda v: str(type(v))
    )
    async def test_nonsense_stops_and_says_so(self, nonsense: Any) -> None:
        act = Script(fail())
        outcome = await Bench().run(
            act, Retry(RetryOptions(custom_retry=lambda error, attempt: nonsense))
        )
        assert isinstance(outcome, Failed)
        assert len(act.calls) == 1
        assert outcome.info.category is C.SERVER_ERROR
        assert "not a number of seconds" in outcome.info.safe

    async def test_when_it_raises_the_failure_stays_what_it_was_and_no_secret_shows(self) -> None:
        def strategy(error: BaseException, attempt: int) -> float:
            raise RuntimeError("password=hunter2")

        act = Script(fail())
        outcome = await Bench().run(act, Retry(RetryOptions(custom_retry=strategy)))
        assert isinstance(outcome, Failed)
        assert (len(act.calls), outcome.info.category) == (1, C.SERVER_ERROR)
        assert "RuntimeError" in outcome.info.safe
        assert "hunter2" not in outcome.info.safe

    async def test_when_it_blocks_it_is_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(retry_strategy, "LONGEST_ANSWER", 0.01)

        async def strategy(error: BaseException, attempt: int) -> float:
            await asyncio.Event().wait()
            return 0.0

        outcome = await Bench().run(Script(fail()), Retry(RetryOptions(custom_retry=strategy)))
        assert isinstance(outcome, Failed)
        assert "did not answer in 0.01 s" in outcome.info.safe

    async def test_no_more_time_is_given_to_it_than_is_left(self) -> None:
        async def strategy(error: BaseException, attempt: int) -> float:
            await asyncio.Event().wait()
            return 0.0

        handling = RetryOptions(custom_retry=strategy)
        outcome = await Bench().run(Script(fail()), Retry(handling), deadline=0.01)
        assert isinstance(outcome, Failed)
        assert "did not answer in 0.01 s" in outcome.info.safe

    async def test_when_it_is_cancelled_the_call_is(self) -> None:
        begun = asyncio.Event()

        async def strategy(error: BaseException, attempt: int) -> float:
            begun.set()
            await asyncio.Event().wait()
            return 0.0

        task = asyncio.ensure_future(
            Bench().run(Script(fail()), Retry(RetryOptions(custom_retry=strategy)))
        )
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


class Handler:
    """A provider handler that answers as it is told."""

    def __init__(self, known: Any, delay: Any = 2.0) -> None:
        self.known, self.delay = known, delay

    def parse_error(self, error: BaseException) -> Any:
        return self.known

    def retry_delay(self, info: ErrorInfo, attempt: int, options: RetryOptions) -> Any:
        return self.delay


class TestProviderHandler:
    async def test_it_decides_the_category_and_the_wait(self) -> None:
        handling = RetryOptions(
            provider_handler=Handler(info(C.TRANSIENT)), max_retries_by_category={C.TRANSIENT: 1}
        )
        act, bench = Script(fail(C.CLIENT_ERROR)), Bench()
        outcome = await bench.run(act, Retry(handling))
        assert isinstance(outcome, Failed)
        assert bench.clock.sleeps == [2.0]
        assert outcome.info.category is C.TRANSIENT

    async def test_no_wait_means_stop(self) -> None:
        act = Script(fail())
        handling = RetryOptions(provider_handler=Handler(info(), None))
        await Bench().run(act, Retry(handling))
        assert len(act.calls) == 1

    async def test_an_error_that_it_does_not_know_has_full_jitter(self) -> None:
        bench = Bench(0.25)
        handling = RetryOptions(provider_handler=Handler(None), backoff_multiplier=9.0)
        await bench.run(Script(fail()), Retry(handling))
        assert bench.clock.sleeps == [0.25, 0.5, 1.0]

    @pytest.mark.parametrize(("known", "delay"), [("x", 1.0), (info(), math.nan), (info(), "1")])
    async def test_nonsense_stops(self, known: Any, delay: Any) -> None:
        act = Script(fail())
        await Bench().run(act, Retry(RetryOptions(provider_handler=Handler(known, delay))))
        assert len(act.calls) == 1

    async def test_when_it_raises_the_failure_stays_what_it_was(self) -> None:
        class Raises(Handler):
            def parse_error(self, error: BaseException) -> Any:
                raise KeyError("no")

        outcome = await Bench().run(
            Script(fail()), Retry(RetryOptions(provider_handler=Raises(None)))
        )
        assert isinstance(outcome, Failed)
        assert "KeyError" in outcome.info.safe


class TestCredentials:
    async def test_new_credentials_are_tried_once_at_once(self) -> None:
        async def refresh(info: ErrorInfo) -> bool:
            return True

        bench, act = Bench(), Script(fail(C.AUTH_ERROR))
        await bench.run(act, Retry(RetryOptions(refresh_credentials=refresh)))
        assert (len(act.calls), bench.clock.sleeps) == (2, [])

    async def test_not_where_retries_are_off(self) -> None:
        async def refresh(info: ErrorInfo) -> bool:
            return True

        act = Script(fail(C.AUTH_ERROR))
        handling = RetryOptions(max_retries=0, refresh_credentials=refresh)
        await Bench().run(act, Retry(handling))
        assert len(act.calls) == 1

    @pytest.mark.parametrize("answer", [False, None, "yes"])
    async def test_anything_but_true_is_no(self, answer: Any) -> None:
        async def refresh(info: ErrorInfo) -> Any:
            return answer

        act = Script(fail(C.AUTH_ERROR))
        await Bench().run(act, Retry(RetryOptions(refresh_credentials=refresh)))
        assert len(act.calls) == 1

    async def test_a_refresh_that_raises_is_no(self) -> None:
        async def refresh(info: ErrorInfo) -> bool:
            raise OSError("no network")

        act = Script(fail(C.AUTH_ERROR))
        await Bench().run(act, Retry(RetryOptions(refresh_credentials=refresh)))
        assert len(act.calls) == 1


WAITS_FOR_BREAKERS = Retry(RetryOptions(max_breaker_wait=60.0))


class TestHeldBack:
    async def test_an_open_breaker_is_waited_for_and_is_no_attempt(self) -> None:
        bench, act = Bench(), Script(held(20.0), held(5.0), OK)
        assert await bench.run(act, WAITS_FOR_BREAKERS) == Done("ok", 1)
        assert bench.clock.sleeps == [20.0, 5.0]
        assert [call.attempt for call in act.calls] == [1, 1, 1]
        assert [notice.attempt for notice in bench.seen(RetryScheduled)] == [1, 1]

    async def test_as_long_in_all_as_the_setting_says(self) -> None:
        bench = Bench()
        await bench.run(Script(held(20.0), held(40.0), OK), WAITS_FOR_BREAKERS)
        assert bench.clock.sleeps == [20.0, 40.0]

    async def test_an_attempt_between_them_starts_the_count_again(self) -> None:
        bench = Bench()
        act = Script(held(50.0), fail(), held(50.0), OK)
        outcome = await bench.run(act, WAITS_FOR_BREAKERS)
        assert outcome == Done("ok", 2)
        assert bench.clock.sleeps == [50.0, 1.0, 50.0]

    async def test_not_longer_in_all_than_the_setting(self) -> None:
        bench = Bench()
        handling = RetryOptions(max_breaker_wait=30.0)
        outcome = await bench.run(Script(held(20.0)), Retry(handling))
        assert isinstance(outcome, Failed)
        assert bench.clock.sleeps == [20.0]
        assert outcome.attempts == 0
        assert "max_breaker_wait" in outcome.info.safe

    async def test_not_past_the_deadline(self) -> None:
        bench = Bench()
        await bench.run(Script(held(20.0)), WAITS_FOR_BREAKERS, deadline=15.0)
        assert bench.clock.sleeps == []

    async def test_held_without_a_moment_fails_at_once(self) -> None:
        bench = Bench()
        await bench.run(Script(held(None)), Retry())
        assert bench.clock.sleeps == []

    async def test_what_failed_first_is_the_error_and_the_breaker_is_the_reason(self) -> None:
        handling = RetryOptions(max_breaker_wait=0.0)
        outcome = await Bench().run(Script(fail(status=503), held(9.0)), Retry(handling))
        assert isinstance(outcome, Failed)
        assert (outcome.info.status, outcome.attempts, outcome.sent) == (503, 1, True)
        assert "not tried again: transient; waiting another 9 s" in outcome.info.safe

    async def test_a_breaker_that_is_never_free_does_not_spin_for_ever(self) -> None:
        outcome = await Bench().run(Script(held(0.0)), Retry(RetryOptions(max_breaker_wait=0.05)))
        assert isinstance(outcome, Failed)


class TestBudget:
    async def test_when_it_is_spent_calls_fail_fast_and_say_so(self) -> None:
        budget = RetryBudget(BudgetOptions(ratio=0.0, reserve=2, reserve_per_second=0))
        bench, act = Bench(), Script(fail())
        outcome = await bench.run(act, Retry(budget=budget))
        assert isinstance(outcome, Failed)
        assert len(act.calls) == 3
        assert "retry budget" in outcome.info.safe

    async def test_waiting_for_a_breaker_costs_nothing(self) -> None:
        budget = RetryBudget(BudgetOptions(ratio=0.0, reserve=1, reserve_per_second=0))
        await Bench().run(Script(held(1.0), held(1.0), OK), Retry(budget=budget))
        assert budget.tokens == 1

    async def test_a_wait_that_the_provider_asked_for_costs_nothing(self) -> None:
        budget = RetryBudget(BudgetOptions(ratio=0.0, reserve=1, reserve_per_second=0))
        refused = fail(C.RATE_LIMIT_RETRYABLE, retry_after=2.0)
        await Bench().run(Script(refused, OK), Retry(budget=budget))
        assert budget.tokens == 1
        await Bench().run(Script(fail(), OK), Retry(budget=budget))
        assert budget.tokens == 0


class TestDetails:
    async def test_the_provider_is_named_when_asked_for(self) -> None:
        outcome = await Bench().run(
            Script(fail(C.AUTH_ERROR, provider="openai", status=401, request_id="req_1")),
            Retry(RetryOptions(include_provider_details=True)),
        )
        assert isinstance(outcome, Failed)
        assert outcome.info.safe == "auth_error [provider openai, status 401, request req_1]"

    async def test_without_normalizing_every_failure_from_outside_has_the_plain_backoff(
        self,
    ) -> None:
        handling = RetryOptions(normalize_errors=False)
        assert await waits(handling, fail(C.AUTH_ERROR, retry_after=9.0)) == [1.0, 2.0, 4.0]
        assert await waits(handling, fail(C.PROGRAMMING)) == []

    def test_describe_has_no_callables(self) -> None:
        handling = RetryOptions(custom_retry=lambda error, attempt: 1.0)
        described = Retry(handling, RetryBudget()).describe()
        assert "custom_retry" not in described
        assert described["max_retries"] == 3
        assert described["budget"] == {
            "ratio": 0.1,
            "reserve": 10.0,
            "reserve_per_second": 0.5,
            "capacity": 100.0,
        }


def test_the_defaults_are_those_of_seed_000() -> None:
    handling = RetryOptions()
    assert handling.normalize_errors is True
    assert handling.include_provider_details is False
    assert handling.max_retries == 3
    assert handling.retry_delay == 1.0
    assert handling.use_provider_retry_delays is True
    assert handling.max_retry_delay == 30.0
    assert handling.backoff_multiplier == 2.0
    assert handling.max_retries_by_category is None
    assert handling.provider_handler is None
    assert handling.custom_retry is None


@pytest.mark.parametrize(
    "bad",
    [
        {"max_retries": -1},
        {"max_retries": None},
        {"max_retries": 2.5},
        {"retry_delay": math.nan},
        {"retry_delay": -1},
        {"backoff_multiplier": math.inf},
        {"max_retry_delay": "30"},
        {"max_provider_delay": True},
        {"max_breaker_wait": -0.1},
        {"backoff": "linear"},
        {"custom_retry": 3},
        {"refresh_credentials": "yes"},
        {"normalize_errors": None},
        {"max_retries_by_category": {"server_error!": 1}},
        {"max_retries_by_category": {C.SERVER_ERROR: None}},
        {"max_retries_by_category": {C.SERVER_ERROR: -1}},
    ],
    ids=str,
)
def test_a_bad_setting_is_named(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        RetryOptions(**bad)
    assert next(iter(bad)) in caught.value.argument


SECONDS = st.floats(0, 1e9)
handlings = st.builds(
    RetryOptions,
    max_retries=st.integers(0, 6),
    retry_delay=SECONDS,
    backoff_multiplier=st.floats(0, 1e6),
    max_retry_delay=SECONDS,
    backoff=st.sampled_from(["exponential", "full_jitter", "pure", "decorrelated"]),
    max_provider_delay=SECONDS,
    max_retries_by_category=st.dictionaries(
        st.sampled_from([category for category in C if category.is_retryable]),
        st.integers(0, 6),
        max_size=3,
    ),
)
infos = st.builds(info, st.sampled_from(ErrorCategory), retry_after=st.none() | st.floats(0, 1e7))


@given(
    handlings,
    infos,
    st.integers(0, 2000),
    st.none() | SECONDS,
    st.floats(0, 1, exclude_max=True),
    SECONDS,
)
def test_a_decision_never_breaks_a_limit(  # noqa: PLR0917  # Hypothesis gives them
    handling: RetryOptions,
    about: ErrorInfo,
    attempt: int,
    remaining: float | None,
    roll: float,
    previous: float,
) -> None:
    decision = decide_retry(
        handling, about, attempt, remaining=remaining, rng=lambda: roll, previous=previous
    )
    if isinstance(decision, StopRetrying):
        return
    assert about.category.is_retryable
    assert math.isfinite(decision.delay)
    assert decision.delay >= 0
    assert remaining is None or decision.delay < remaining
    by_category = handling.max_retries_by_category or {}
    assert attempt < by_category.get(about.category, handling.max_retries)
    if about.retry_after:
        assert decision.delay == about.retry_after <= handling.max_provider_delay


@given(infos, SECONDS, st.none() | SECONDS)
def test_waiting_for_a_breaker_always_comes_to_an_end(
    about: ErrorInfo, waited: float, remaining: float | None
) -> None:
    decision = decide_unsent(RetryOptions(), about, waited=waited, remaining=remaining)
    if isinstance(decision, WaitAndRetry):
        assert decision.delay > 0
        assert waited + decision.delay <= 60.001
