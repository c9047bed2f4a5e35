"""Kit: its size, and the shirt numbers that are free."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registration.club.kit import name_kit_type, offer_free_numbers, recommend_size


@pytest.mark.parametrize(
    ("born", "size"),
    [
        ("01-09-2021", "5/6"),
        ("01-01-2020", "5/6"),
        ("14-03-2016", "9/10"),
        ("14-03-2015", "9/10"),
        ("14-03-2012", "13/14"),
        ("14-03-2010", "S"),
        ("14-03-2007", "M"),
    ],
)
def test_a_size_is_recommended_by_age(born: str, size: str) -> None:
    assert recommend_size(born, "2526") == size


@pytest.mark.parametrize(
    ("taken", "wanted", "offered"),
    [
        ([7], 7, (6, 8, 5)),
        ([6, 7, 8], 7, (5, 9, 4)),
        ([1], 1, (12, 2, 3)),
        ([11, 10], 11, (9, 13, 8)),
        (range(1, 50), 7, ()),
        ([n for n in range(1, 50) if n != 30], 7, (30,)),
    ],
)
def test_three_free_numbers_are_offered(
    taken: list[int], wanted: int, offered: tuple[int, ...]
) -> None:
    assert offer_free_numbers(taken, wanted) == offered


@given(taken=st.sets(st.integers(1, 49)), wanted=st.integers(1, 49))
def test_only_free_numbers_are_offered(taken: set[int], wanted: int) -> None:
    offered = offer_free_numbers(taken, wanted)
    assert not set(offered) & (taken | {wanted})
    assert set(offered) <= set(range(1, 50))
    assert len(offered) == len(set(offered)) <= 3


def test_goalkeepers_numbers_name_the_kit() -> None:
    assert [name_kit_type(number) for number in (1, 12, 7)] == [
        "goalkeeper",
        "goalkeeper",
        "outfield",
    ]
