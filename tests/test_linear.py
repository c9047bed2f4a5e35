"""The work of a large input grows with its size, and not with its square."""

from __future__ import annotations

import shutil
from itertools import chain, repeat

import pytest
from tests.linear import count_instructions, is_linear
from tests.workloads import FENCES


def test_linear_work_is_told_from_quadratic() -> None:
    assert is_linear(lambda count: count * 1e-5, 500, 4_000)
    assert not is_linear(lambda count: count**2 * 1e-6, 500, 4_000)


def test_a_try_that_was_disturbed_is_forgiven() -> None:
    noise = chain([9.0, 9.0, 0.0, 9.0], repeat(0.0))
    assert is_linear(lambda count: count * 1e-5 + next(noise), 500, 4_000)


def test_what_is_too_quick_to_tell_counts_for_the_least() -> None:
    assert is_linear(lambda count: count**2 * 1e-9, 500, 4_000)


# Instructions at a size and at twice that size.

needs_valgrind = pytest.mark.skipif(
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


@needs_valgrind
@pytest.mark.slow  # starts a process that counts its instructions
@pytest.mark.parametrize("workload", SIZES)
def test_twice_the_size_costs_twice_as_much(counts: dict[str, list[int]], workload: str) -> None:
    once, twice, *_ = counts[workload]
    assert twice <= MOST * once


@needs_valgrind
@pytest.mark.slow  # starts a process that counts its instructions
def test_a_delta_of_digits_costs_no_more_than_one_of_prose(counts: dict[str, list[int]]) -> None:
    assert SIZES["digits"] == PIECES
    assert counts["digits"][0] < 2 * counts["prose"][2]


@needs_valgrind
@pytest.mark.slow  # starts a process that counts its instructions
def test_the_count_is_exact(counts: dict[str, list[int]]) -> None:
    *_, once, again = counts["prose"]
    assert once == pytest.approx(again, rel=0.01)
