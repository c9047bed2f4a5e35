import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.resilience.retry.backoff import (
    decorrelated_delay,
    exponential_delay,
    full_jitter_delay,
    pure_delay,
)

ANY = st.floats(allow_nan=True, allow_infinity=True)
ROLL = st.floats(0, 1, exclude_max=True)


def test_seed_000_is_exponential_with_ten_percent() -> None:
    low = [exponential_delay(n, base=1, multiplier=2, cap=30, rng=lambda: 0.0) for n in range(6)]
    assert low == [0.9, 1.8, 3.6, 7.2, 14.4, 27.0]
    high = exponential_delay(1, base=1, multiplier=2, cap=30, rng=lambda: 1.0)
    assert high == pytest.approx(2.2)


def test_seed_003_is_one_two_four() -> None:
    assert [pure_delay(n, base=1.0) for n in range(3)] == [1.0, 2.0, 4.0]


def test_decorrelated_lies_between_base_and_three_times_the_previous_wait() -> None:
    assert decorrelated_delay(4.0, base=1.0, cap=99.0, rng=lambda: 0.0) == 1.0
    assert decorrelated_delay(4.0, base=1.0, cap=99.0, rng=lambda: 0.5) == 6.5
    assert decorrelated_delay(4.0, base=1.0, cap=5.0, rng=lambda: 0.5) == 5.0


@given(st.integers(-5, 10_000), ANY, ANY, ANY, ROLL)
def test_no_policy_gives_a_number_that_cannot_be_waited_for(
    attempt: int, base: float, multiplier: float, cap: float, roll: float
) -> None:
    for wait in (
        exponential_delay(attempt, base=base, multiplier=multiplier, cap=cap, rng=lambda: roll),
        full_jitter_delay(attempt, base=base, cap=cap, rng=lambda: roll),
        pure_delay(attempt, base=base),
        decorrelated_delay(base, base=multiplier, cap=cap, rng=lambda: roll),
    ):
        assert math.isfinite(wait)
        assert 0 <= wait <= 86_400


@given(st.integers(0, 50), st.floats(0, 100), ROLL)
def test_full_jitter_never_exceeds_its_ceiling(attempt: int, base: float, roll: float) -> None:
    wait = full_jitter_delay(attempt, base=base, cap=30.0, rng=lambda: roll)
    assert wait <= min(30.0, base * 2.0**attempt)
