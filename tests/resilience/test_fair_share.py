"""Fair shares: nobody starves, nothing is left over, and all together keep the limit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.hosting.shared_limits import divide_fairly

WANTED = st.dictionaries(st.text(max_size=3), st.integers(0, 50), min_size=1, max_size=12)


@given(st.integers(1, 200), WANTED)
def test_together_they_keep_the_limit_and_each_gets_one(total: int, wanted: dict[str, int]) -> None:
    shares = divide_fairly(total, wanted)
    assert set(shares) == set(wanted)
    assert all(share >= 1 for share in shares.values())
    assert sum(shares.values()) <= max(total, len(wanted))


@given(st.integers(1, 200), WANTED)
def test_who_wants_little_gets_it_and_who_wants_more_gets_no_less(
    total: int, wanted: dict[str, int]
) -> None:
    shares = divide_fairly(total, wanted)
    equal = total // len(wanted)
    for name, number in wanted.items():
        assert shares[name] >= min(number, equal)
        for other, more in wanted.items():
            if more > number:
                assert shares[other] >= shares[name] or shares[name] >= number


@given(st.integers(1, 200), WANTED)
def test_nothing_is_left_over_while_somebody_wants_more(total: int, wanted: dict[str, int]) -> None:
    shares = divide_fairly(total, wanted)
    if total >= len(wanted) and any(shares[name] < number for name, number in wanted.items()):
        assert sum(shares.values()) == total
