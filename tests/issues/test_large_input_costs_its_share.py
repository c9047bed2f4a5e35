"""Digits cost the filter of streamed text 1 ms for each delta, and repeated code fences took four times
as long when they were doubled. So did many questions that one tool asked at once.
"""

from __future__ import annotations

import shutil

import pytest
from tests.linear import count_instructions
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


PIECES = 1_600
AGAIN = 500


@pytest.fixture(scope="module")
def counts() -> dict[str, list[int]]:
    """The instructions of each workload at its size and at twice its size, and then at others."""
    sizes = {workload: [size, 2 * size] for workload, size in SIZES.items()}
    sizes["prose"] += [PIECES, AGAIN, AGAIN]
    return count_instructions(sizes)


@pytest.mark.parametrize("workload", SIZES)
def test_twice_the_size_costs_twice_as_much(counts: dict[str, list[int]], workload: str) -> None:
    once, twice, *_ = counts[workload]
    assert twice <= MOST * once


def test_a_delta_of_digits_costs_no_more_than_one_of_prose(counts: dict[str, list[int]]) -> None:
    assert SIZES["digits"] == PIECES
    assert counts["digits"][0] < 2 * counts["prose"][2]


def test_the_count_is_exact(counts: dict[str, list[int]]) -> None:
    *_, once, again = counts["prose"]
    assert once == pytest.approx(again, rel=0.01)
