"""What the tests of linear work take for linear."""

from itertools import chain, repeat

from tests.linear import is_linear


def test_linear_work_is_told_from_quadratic() -> None:
    assert is_linear(lambda count: count * 1e-5, 500, 4_000)
    assert not is_linear(lambda count: count**2 * 1e-6, 500, 4_000)


def test_a_try_that_was_disturbed_is_forgiven() -> None:
    noise = chain([9.0, 9.0, 0.0, 9.0], repeat(0.0))
    assert is_linear(lambda count: count * 1e-5 + next(noise), 500, 4_000)


def test_what_is_too_quick_to_tell_counts_for_the_least() -> None:
    assert is_linear(lambda count: count**2 * 1e-9, 500, 4_000)
