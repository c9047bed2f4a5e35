"""Digits cost the filter of streamed text 1 ms for each delta, and repeated code fences took four times
as long when they were doubled. So did many questions that one tool asked at once.
"""

from __future__ import annotations

import shutil

import pytest
from tests.linear import count_instructions, measure_growth
from tests.workloads import FENCES

pytestmark = pytest.mark.skipif(
    shutil.which("valgrind") is None, reason="NO valgrind COMMAND: instructions were not counted"
)

MOST = 2.2
SIZES = {
    "prose": 1_000,
    "digits": 1_600,
    "digits and spaces": 1_600,
    "one long word": 1_600,
    "digits and marks": 1_600,
    **dict.fromkeys(FENCES, 400),
    "questions": 200,
    "redact assignments": 8_000,
    "redact addresses": 8_000,
    "redact quotes": 8_000,
    "remove escapes": 8_000,
    "remove half a secret": 8_000,
}


@pytest.mark.parametrize("workload", SIZES)
def test_twice_the_size_costs_twice_as_much(workload: str) -> None:
    assert measure_growth(workload, SIZES[workload]) <= MOST


def test_a_delta_of_digits_costs_no_more_than_one_of_prose() -> None:
    (prose,) = count_instructions("prose", 1_600)
    (digits,) = count_instructions("digits", 1_600)
    assert digits < 2 * prose


def test_the_count_is_exact() -> None:
    assert count_instructions("prose", 500, 500)[0] == pytest.approx(
        count_instructions("prose", 500)[0], rel=0.01
    )
