"""A day of the month in words is taken when nothing else is said."""

from __future__ import annotations

import pytest

from registration.club.answers.club_matters import read_day


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("the first", 1),
        ("on the first of each month please", 1),
        ("the last day", -1),
        ("the first team", None),
        ("is my child in the first team", None),
        ("not the last", None),
    ],
)
def test_a_day_in_words(text: str, day: int | None) -> None:
    assert read_day(text) == day
