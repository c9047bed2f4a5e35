"""The pure half: places, pace and AIMD on explicit states."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import ConfigurationError
from holdfast.resilience.limiter import decision
from holdfast.resilience.limiter.decision import LimiterState, Reservation
from holdfast.resilience.limiter.options import LimiterOptions


class TestAdaptive:
    OPTIONS = LimiterOptions(concurrency=100)

    def test_a_refusal_halves_what_runs(self) -> None:
        state = decision.record_refusal(self.OPTIONS, LimiterState(limit=100.0), 20, 5.0)
        assert state.limit == 10.0

    def test_refusals_that_come_in_a_bunch_count_once(self) -> None:
        state = LimiterState(limit=100.0)
        for _ in range(20):
            state = decision.record_refusal(self.OPTIONS, state, 20, 5.0)
        assert state.limit == 10.0
        assert decision.record_refusal(self.OPTIONS, state, 20, 6.0).limit == 5.0

    def test_it_never_goes_below_its_lowest(self) -> None:
        state = LimiterState(limit=1.0)
        for second in range(10):
            state = decision.record_refusal(self.OPTIONS, state, 1, float(second))
        assert state.limit == 1.0
        assert decision.has_place(state, 0)

    def test_successes_raise_it_by_about_one_for_each_full_load(self) -> None:
        state = LimiterState(limit=10.0)
        for _ in range(10):
            state = decision.record_success(self.OPTIONS, state, 10)
        assert 10.9 < state.limit < 11.0

    def test_an_idle_limit_does_not_grow(self) -> None:
        state = LimiterState(limit=10.0)
        assert decision.record_success(self.OPTIONS, state, 1) is state

    def test_a_limit_that_is_half_in_use_grows(self) -> None:
        assert decision.record_success(self.OPTIONS, LimiterState(limit=10.0), 5).limit == 10.1
        assert decision.record_success(self.OPTIONS, LimiterState(limit=10.0), 4).limit == 10.0

    def test_it_never_grows_above_its_highest(self) -> None:
        assert decision.record_success(self.OPTIONS, LimiterState(limit=99.999), 99).limit == 100.0

    def test_it_can_be_switched_off(self) -> None:
        options = LimiterOptions(adaptive=False)
        assert decision.record_refusal(options, LimiterState(limit=9.0), 9, 0.0).limit == 9.0


class TestPace:
    def test_requests_wait_their_turn_after_the_burst(self) -> None:
        options = LimiterOptions(requests_per_minute=60, burst_seconds=2)
        state, waits = decision.initial_state(options), []
        for _ in range(5):
            state, taken = decision.reserve_call(options, state, 0.0)
            waits.append(taken.wait)
        assert waits == [0, 0, 1, 2, 3]

    def test_time_pays_the_debt_and_fills_no_more_than_the_burst(self) -> None:
        options = LimiterOptions(requests_per_minute=60, burst_seconds=2)
        state = decision.reserve_call(options, decision.initial_state(options), 0.0)[0]
        state, taken = decision.reserve_call(options, state, 1000.0)
        assert (taken.wait, state.requests) == (0, 1)

    def test_who_does_not_go_gives_the_reservation_back(self) -> None:
        options = LimiterOptions(requests_per_minute=60, burst_seconds=1)
        state = decision.reserve_call(options, decision.initial_state(options), 0.0)[0]
        state, taken = decision.reserve_call(options, state, 0.0)
        assert decision.refund_call(options, state, taken).requests == 0

    def test_a_reservation_that_is_given_back_fills_no_more_than_the_burst(self) -> None:
        options = LimiterOptions(requests_per_minute=60, burst_seconds=2)
        state, taken = decision.reserve_call(options, decision.initial_state(options), 0.0)
        for _ in range(2):
            state = decision.refund_call(options, state, taken)
            assert state.requests == 2

    def test_tokens_are_charged_when_they_are_known(self) -> None:
        options = LimiterOptions(tokens_per_minute=600, burst_seconds=10)
        state, taken = decision.reserve_call(options, decision.initial_state(options), 0.0)
        assert taken == Reservation(0.0, 0.0)
        state = decision.settle_cost(options, state, taken, 150)
        state, taken = decision.reserve_call(options, state, 0.0)
        # 100 at first, 150 used, 150 expected of this call: a debt of 200 at 10 a second.
        assert taken == Reservation(20.0, 150.0)

    def test_what_calls_cost_is_learnt_from_the_first_and_then_slowly(self) -> None:
        options = LimiterOptions(tokens_per_minute=600)
        state = decision.initial_state(options)
        means = []
        for tokens in (100, 200, 0):
            state, taken = decision.reserve_call(options, state, 0.0)
            state = decision.settle_cost(options, state, taken, tokens)
            means.append(state.mean)
        assert means == [100.0, 120.0, 120.0]

    def test_who_does_not_go_gives_the_tokens_back_too(self) -> None:
        options = LimiterOptions(tokens_per_minute=600)
        state = LimiterState(limit=9.0, tokens=50.0, mean=40.0, at=0.0)
        after, taken = decision.reserve_call(options, state, 0.0)
        assert after.tokens == 10.0
        assert decision.refund_call(options, after, taken) == state

    def test_a_call_that_failed_costs_no_tokens(self) -> None:
        options = LimiterOptions(tokens_per_minute=600)
        state = LimiterState(limit=9.0, tokens=50.0, mean=40.0, at=0.0)
        after, taken = decision.reserve_call(options, state, 0.0)
        assert decision.settle_cost(options, after, taken, 0) == state

    def test_everybody_pauses_for_retry_after_but_not_for_ever(self) -> None:
        options = LimiterOptions(max_pause=60.0)
        state = decision.record_refusal(options, LimiterState(limit=9.0), 1, 10.0, retry_after=20.0)
        assert decision.reserve_call(options, state, 15.0)[1].wait == 15.0
        state = decision.record_refusal(options, LimiterState(limit=9.0), 1, 10.0, retry_after=1e9)
        assert decision.remaining_pause(options, state, 10.0) == 60.0

    def test_a_clock_that_jumps_back_gains_nothing_and_waits_no_longer_than_a_pause(self) -> None:
        options = LimiterOptions(requests_per_minute=60, max_pause=60.0)
        state = LimiterState(limit=9.0, requests=0.0, at=1e6, paused_until=1e6 + 5)
        _, taken = decision.reserve_call(options, state, 0.0)
        assert taken.wait == 60.0


def test_the_defaults() -> None:
    assert LimiterOptions() == LimiterOptions(
        concurrency=1000,
        adaptive=True,
        at_least=1,
        decrease=0.5,
        requests_per_minute=None,
        tokens_per_minute=None,
        burst_seconds=10.0,
        queue=10_000,
        max_wait=60.0,
        max_pause=120.0,
    )
    assert LimiterOptions(queue=0).queue == 0


@pytest.mark.parametrize(
    "bad",
    [
        {"concurrency": 0},
        {"concurrency": None},
        {"at_least": 0},
        {"decrease": 0},
        {"decrease": 2},
        {"requests_per_minute": 0},
        {"tokens_per_minute": float("nan")},
        {"queue": -1},
        {"max_wait": float("inf")},
        {"max_pause": -1},
        {"burst_seconds": "1"},
    ],
    ids=str,
)
def test_a_bad_setting_is_named(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"limiter.{next(iter(bad))}"):
        LimiterOptions(**bad)


def test_the_lowest_limit_is_not_above_the_highest() -> None:
    with pytest.raises(ConfigurationError, match="more than concurrency 2"):
        LimiterOptions(concurrency=2, at_least=3)


options_ = st.builds(
    LimiterOptions,
    concurrency=st.integers(1, 50),
    decrease=st.floats(0.1, 1),
    requests_per_minute=st.none() | st.floats(0.1, 1e5),
    tokens_per_minute=st.none() | st.floats(0.1, 1e6),
)
uses = st.lists(
    st.tuples(
        st.sampled_from(["enter", "done", "refused", "cancelled", "abandon"]),
        st.floats(-100, 100),
        st.integers(0, 10_000),
    ),
    max_size=150,
)


@given(options_, uses)
def test_the_limit_stays_in_its_bounds_and_no_wait_is_negative(
    options: LimiterOptions, history: list[tuple[str, float, int]]
) -> None:
    state, now = decision.initial_state(options), 0.0
    out: list[Reservation] = []
    for move, step, amount in history:
        now += step
        if move == "enter":
            if decision.has_place(state, len(out)):
                state, taken = decision.reserve_call(options, state, now)
                assert taken.wait >= 0
                out.append(taken)
        elif out:
            taken, running = out[0], len(out)
            del out[0]
            if move == "abandon":
                state = decision.refund_call(options, state, taken)
                continue
            state = decision.settle_cost(options, state, taken, amount if move == "done" else 0)
            if move == "done":
                state = decision.record_success(options, state, running)
            elif move == "refused":
                state = decision.record_refusal(options, state, running, now, float(amount))
        assert len(out) <= options.concurrency
        assert options.at_least <= state.limit <= options.concurrency


class TestUsedUp:
    OPTIONS = LimiterOptions(concurrency=100, max_pause=120.0, max_wait=60.0)

    @pytest.mark.parametrize(
        ("until", "paused"),
        [(14.0, 14.0), (10.0, 0.0), (3.0, 0.0), (9_999.0, 70.0)],
        ids=["ahead", "now", "past", "longer than a call waits"],
    )
    def test_everybody_pauses_until_the_reset_and_never_past_patience(
        self, until: float, paused: float
    ) -> None:
        state = decision.record_exhaustion(self.OPTIONS, LimiterState(limit=100.0), 10.0, until)
        assert (state.paused_until, state.limit) == (paused, 100.0)

    def test_a_longer_pause_that_was_asked_for_stays(self) -> None:
        before = LimiterState(limit=5.0, paused_until=40.0)
        assert decision.record_exhaustion(self.OPTIONS, before, 10.0, 20.0) is before

    def test_the_longest_pause_is_a_setting(self) -> None:
        options = LimiterOptions(max_pause=5.0)
        assert (
            decision.record_exhaustion(options, LimiterState(limit=1.0), 10.0, 99.0).paused_until
            == 15.0
        )
        none = LimiterOptions(max_wait=0)
        assert (
            decision.record_exhaustion(none, LimiterState(limit=1.0), 10.0, 99.0).paused_until
            == 0.0
        )
