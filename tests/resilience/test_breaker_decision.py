"""The pure half: admit and record on explicit states."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.resilience.operations import OK, C, fail, held

from holdfast.compat.error_handling_config import SEED_003_BREAKER
from holdfast.core.errors import ConfigurationError, ErrorCategory
from holdfast.resilience.breaker.decision import (
    BreakerState,
    ClosedState,
    HalfOpenState,
    Health,
    OpenState,
    RejectedCall,
    Ticket,
    admit_call,
    assess_health,
    record_result,
)
from holdfast.resilience.breaker.options import BreakerOptions


def after(options: BreakerOptions, verdicts: str, *, every: float = 0.0) -> BreakerState:
    """The state after calls that went well (.), failed (x) or do not count (-)."""
    state: BreakerState = ClosedState()
    for number, verdict in enumerate(verdicts):
        now = number * every
        state, ticket = admit_call(options, state, now)
        assert isinstance(ticket, Ticket)
        meaning: Health = {".": "well", "x": "unwell", "-": "ignored"}[verdict]  # type: ignore[assignment]
        state = record_result(options, state, ticket, meaning, now=now)
    return state


class TestSeed003:
    def test_five_failures_in_a_row_open_it(self) -> None:
        assert isinstance(after(SEED_003_BREAKER, "xxxx"), ClosedState)
        assert isinstance(after(SEED_003_BREAKER, "xxxxx"), OpenState)

    def test_a_success_between_them_starts_the_count_again(self) -> None:
        assert isinstance(after(SEED_003_BREAKER, "xxxx.xxxx"), ClosedState)

    def test_strictly_more_than_sixty_seconds_must_pass(self) -> None:
        state = OpenState(1, until=60.0, duration=60.0)
        assert isinstance(admit_call(SEED_003_BREAKER, state, 60.0)[1], RejectedCall)
        assert isinstance(admit_call(SEED_003_BREAKER, state, 60.0001)[1], Ticket)

    def test_a_failed_probe_opens_it_again_and_a_success_closes_it(self) -> None:
        options = SEED_003_BREAKER
        state: BreakerState = after(options, "xxxxx")
        for opened_at in (0.0, 60.001):
            assert isinstance(admit_call(options, state, opened_at + 60.0)[1], RejectedCall)
            state, probe = admit_call(options, state, opened_at + 60.001)
            assert isinstance(state, HalfOpenState)
            assert isinstance(probe, Ticket)
            tried = state
            state = record_result(options, tried, probe, "unwell", now=opened_at + 60.001)
            assert isinstance(state, OpenState)
            closed = record_result(options, tried, probe, "well", now=opened_at + 60.001)
            assert isinstance(closed, ClosedState)
            assert closed.streak == 0
            assert isinstance(admit_call(options, closed, opened_at + 60.001)[1], Ticket)

    def test_whoever_waits_as_long_as_told_is_let_through(self) -> None:
        state = OpenState(1, until=60.0, duration=60.0)
        _, answer = admit_call(SEED_003_BREAKER, state, 12.5)
        assert isinstance(answer, RejectedCall)
        assert answer.retry_after is not None
        assert isinstance(admit_call(SEED_003_BREAKER, state, 12.5 + answer.retry_after)[1], Ticket)

    def test_flaw_half_open_admitted_any_number_and_nothing_recorded_results(self) -> None:
        state: BreakerState = OpenState(1, until=60.0, duration=60.0)
        answers = []
        for _ in range(20):
            state, answer = admit_call(SEED_003_BREAKER, state, 61.0)
            answers.append(answer)
        assert [type(answer) for answer in answers].count(Ticket) == 1
        ticket = answers[0]
        assert isinstance(ticket, Ticket)
        assert isinstance(
            record_result(SEED_003_BREAKER, state, ticket, "well", now=62.0), ClosedState
        )
        again = record_result(SEED_003_BREAKER, state, ticket, "unwell", now=62.0)
        assert again == OpenState(3, until=122.0, duration=60.0)


class TestRatio:
    OPTIONS = BreakerOptions(minimum_throughput=10)

    def test_flaw_d12_half_of_the_calls_failing_opens_it(self) -> None:
        assert isinstance(after(self.OPTIONS, ".x" * 5), OpenState)

    def test_not_before_there_were_enough_calls(self) -> None:
        assert isinstance(after(self.OPTIONS, "x" * 9), ClosedState)
        assert isinstance(after(self.OPTIONS, "x" * 10), OpenState)

    def test_less_than_the_ratio_does_not(self) -> None:
        assert isinstance(after(self.OPTIONS, "..x" * 30), ClosedState)

    def test_what_is_older_than_the_window_is_forgotten(self) -> None:
        assert isinstance(after(self.OPTIONS, "x" * 9 + "." * 30 + "x" * 9, every=1.5), ClosedState)

    def test_failures_that_are_spread_wider_than_the_window_never_add_up(self) -> None:
        assert isinstance(after(self.OPTIONS, "x" * 50, every=4.0), ClosedState)

    def test_failures_that_are_spread_within_the_window_add_up(self) -> None:
        assert isinstance(after(self.OPTIONS, "x" * 10, every=2.9), OpenState)

    @pytest.mark.parametrize(("now", "opens"), [(29.9, True), (30.0, False)])
    def test_the_window_is_as_long_as_it_says(self, now: float, opens: bool) -> None:
        options = BreakerOptions(minimum_throughput=2, window=30.0)
        state = record_result(options, ClosedState(), Ticket(0), "unwell", now=0.0)
        state = record_result(options, state, Ticket(0), "unwell", now=now)
        assert isinstance(state, OpenState) is opens

    def test_flaw_d12_what_is_not_the_endpoints_fault_is_not_counted(self) -> None:
        assert after(self.OPTIONS, "-" * 50) == ClosedState()


class TestHalfOpen:
    OPTIONS = BreakerOptions(probes=2, successes=2, open_seconds=10.0)

    def test_no_more_probes_are_out_than_allowed(self) -> None:
        state: BreakerState = OpenState(1, until=0.0, duration=10.0)
        tickets = []
        for _ in range(5):
            state, answer = admit_call(self.OPTIONS, state, 1.0)
            tickets += [answer] if isinstance(answer, Ticket) else []
        assert len(tickets) == 2

    def test_it_closes_after_enough_successes(self) -> None:
        state: BreakerState = HalfOpenState(2, since=0.0, in_flight=2)
        state = record_result(self.OPTIONS, state, Ticket(2), "well", now=1.0)
        assert state == HalfOpenState(2, since=0.0, in_flight=1, successes=1)
        assert record_result(self.OPTIONS, state, Ticket(2), "well", now=1.0) == ClosedState(3)

    def test_a_cancelled_probe_gives_its_place_back(self) -> None:
        state = record_result(
            self.OPTIONS, HalfOpenState(2, 0.0, in_flight=2), Ticket(2), "ignored", now=1.0
        )
        assert state == HalfOpenState(2, 0.0, in_flight=1)

    def test_a_result_from_before_it_opened_is_too_old_to_count(self) -> None:
        state = HalfOpenState(2, 0.0, in_flight=1)
        assert record_result(self.OPTIONS, state, Ticket(0), "unwell", now=1.0) is state

    def test_a_probe_that_never_comes_back_does_not_keep_it_half_open_for_ever(self) -> None:
        state: BreakerState = HalfOpenState(2, since=0.0, in_flight=2)
        assert admit_call(self.OPTIONS, state, 10.0)[1] == RejectedCall(1.0)
        state, answer = admit_call(self.OPTIONS, state, 10.1)
        assert answer == Ticket(3)
        assert record_result(self.OPTIONS, state, Ticket(2), "unwell", now=11.0) is state


class TestRetryAfter:
    def test_it_opens_until_the_moment_that_the_provider_said(self) -> None:
        state = record_result(
            SEED_003_BREAKER, ClosedState(0, (), 4), Ticket(0), "unwell", now=5.0, retry_after=7.0
        )
        assert state == OpenState(1, until=12.0, duration=7.0)

    def test_but_not_for_ever(self) -> None:
        state = record_result(
            SEED_003_BREAKER, ClosedState(0, (), 4), Ticket(0), "unwell", now=0.0, retry_after=1e9
        )
        assert state == OpenState(1, until=600.0, duration=600.0)


class TestClockThatJumps:
    def test_back_an_open_breaker_waits_at_most_its_whole_time_again(self) -> None:
        state, answer = admit_call(
            SEED_003_BREAKER, OpenState(1, until=1060.0, duration=60.0), 10.0
        )
        assert answer == RejectedCall(60.001)
        assert state == OpenState(1, until=70.0, duration=60.0)

    def test_forward_the_next_call_is_a_probe(self) -> None:
        assert admit_call(SEED_003_BREAKER, OpenState(1, 60.0, 60.0), 1e9)[1] == Ticket(2)

    def test_back_counts_from_the_future_are_dropped(self) -> None:
        options = BreakerOptions(minimum_throughput=2)
        state = record_result(options, ClosedState(), Ticket(0), "unwell", now=1e6)
        assert isinstance(record_result(options, state, Ticket(0), "unwell", now=0.0), ClosedState)

    def test_back_a_lost_probe_is_still_found(self) -> None:
        assert isinstance(
            admit_call(SEED_003_BREAKER, HalfOpenState(2, since=1e6, in_flight=1), 0.0)[1], Ticket
        )


@pytest.mark.parametrize(
    ("category", "verdict"),
    [
        (C.TRANSIENT, "unwell"),
        (C.TIMEOUT, "unwell"),
        (C.SERVER_ERROR, "unwell"),
        (C.RATE_LIMIT_RETRYABLE, "unwell"),
        (C.INVALID_RESPONSE, "unwell"),
        (C.UNKNOWN, "unwell"),
        (C.CLIENT_ERROR, "ignored"),
        (C.AUTH_ERROR, "ignored"),
        (C.CONTENT_FILTERED, "ignored"),
        (C.CONTEXT_WINDOW, "ignored"),
        (C.MODEL_NOT_FOUND, "ignored"),
        (C.RATE_LIMIT_TERMINAL, "ignored"),
        (C.EMPTY_RESPONSE, "ignored"),
        (C.TRUNCATED, "ignored"),
        (C.PROGRAMMING, "ignored"),
        (C.LIMIT, "ignored"),
        (C.CANCELLED, "ignored"),
    ],
)
def test_what_each_category_says_about_the_endpoint(
    category: ErrorCategory, verdict: Health
) -> None:
    assert assess_health(fail(category)) == verdict


def test_every_category_is_judged_above() -> None:
    assert assess_health(OK) == "well"
    assert assess_health(held(1.0)) == "ignored"
    marked = test_what_each_category_says_about_the_endpoint.pytestmark[0]  # type: ignore[attr-defined]
    assert {category for category, _ in marked.args[1]} == set(ErrorCategory)


def test_the_defaults() -> None:
    assert BreakerOptions() == BreakerOptions(
        mode="ratio",
        failure_ratio=0.5,
        window=30.0,
        minimum_throughput=10,
        failures=5,
        open_seconds=10.0,
        max_open_seconds=600.0,
        probes=1,
        successes=1,
    )
    assert (SEED_003_BREAKER.mode, SEED_003_BREAKER.failures, SEED_003_BREAKER.open_seconds) == (
        "consecutive",
        5,
        60.0,
    )


@pytest.mark.parametrize(
    "bad",
    [
        {"mode": "sometimes"},
        {"failure_ratio": 0},
        {"failure_ratio": 1.1},
        {"failure_ratio": float("nan")},
        {"window": 0},
        {"window": None},
        {"open_seconds": -1},
        {"max_open_seconds": float("inf")},
        {"minimum_throughput": 0},
        {"failures": 2.0},
        {"probes": 0},
        {"successes": True},
    ],
    ids=str,
)
def test_a_bad_setting_is_named(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"breaker.{next(iter(bad))}"):
        BreakerOptions(**bad)


options = st.builds(
    BreakerOptions,
    mode=st.sampled_from(["ratio", "consecutive"]),
    failure_ratio=st.floats(0.01, 1),
    window=st.floats(0.1, 100),
    minimum_throughput=st.integers(1, 20),
    failures=st.integers(1, 10),
    open_seconds=st.floats(0.1, 100),
    probes=st.integers(1, 4),
    successes=st.integers(1, 4),
)
moves = st.lists(
    st.tuples(
        st.floats(-200, 200),
        st.sampled_from(["admit", "well", "unwell", "ignored"]),
        st.none() | st.floats(0, 1e5),
    ),
    max_size=120,
)


@given(options, moves)
def test_whatever_happens_probes_are_bounded_and_every_wait_is_finite(
    settings: BreakerOptions, history: list[tuple[float, str, float | None]]
) -> None:
    state: BreakerState = ClosedState()
    now, out = 0.0, []
    for step, move, retry_after in history:
        now += step
        if move == "admit":
            state, answer = admit_call(settings, state, now)
            if isinstance(answer, Ticket):
                out.append(answer)
            else:
                assert answer.retry_after is not None
                assert 0 < answer.retry_after <= settings.max_open_seconds + 0.002
        elif out:
            ticket = out.pop(0)
            verdict: Health = move  # type: ignore[assignment]
            state = record_result(
                settings, state, ticket, verdict, now=now, retry_after=retry_after
            )
        if isinstance(state, HalfOpenState):
            assert 0 <= state.in_flight <= settings.probes
            assert sum(ticket.epoch == state.epoch for ticket in out) <= settings.probes
        if isinstance(state, ClosedState):
            assert len(state.window) <= 10
