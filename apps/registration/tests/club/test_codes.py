"""Codes: of a new player, of one of last season, of the form but wrong, and none at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registration.club.codes import (
    RegistrationCode,
    WrongCode,
    is_sixteen_or_over,
    read_code,
)

TEAMS = {("Lions", "u10s"), ("Tigers", "u13s"), ("Red_lions", "open")}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("200-lions-u10-2526", RegistrationCode("200", "Lions", "u10s", "2526")),
        ("  200-LIONS-U10-2526\n", RegistrationCode("200", "Lions", "u10s", "2526")),
        ("200-red_lions-OPEN-2526", RegistrationCode("200", "Red_lions", "open", "2526")),
        (
            "100-tigers-u13-2526-jack-SMITH",
            RegistrationCode("100", "Tigers", "u13s", "2526", "Jack", "Smith"),
        ),
    ],
)
def test_a_code_is_read(text: str, code: RegistrationCode) -> None:
    assert read_code(text, "2526", TEAMS) == code
    assert read_code(code.text, "2526", TEAMS) == code


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("100-tigers-u13-2526", "name_missing"),
        ("200-lions-u10-2526-Jack-Smith", "name_unexpected"),
        ("200-bears-u10-2526", "team_unknown"),
        ("200-lions-u11-2526", "team_unknown"),
        ("200-lions-u" + "9" * 5000 + "-2526", "team_unknown"),
    ],
)
def test_a_code_of_the_form_that_is_wrong_says_why(text: str, reason: str) -> None:
    assert read_code(text, "2526", TEAMS) == WrongCode(reason)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "300-lions-u10-2526",
        "200-lions-u10-2425",
        "200-lions-u10",
        "200-li ons-u10-2526",
        "my code is 200-lions-u10-2526",
        "200-lions-u10-2526-Jack",
        "200-lions-u\u0661\u0660-2526",
    ],
)
def test_anything_else_is_no_code(text: str) -> None:
    assert read_code(text, "2526", TEAMS) is None


def test_the_season_is_a_setting() -> None:
    assert read_code("200-lions-u10-2627", "2627", TEAMS) == RegistrationCode(
        "200", "Lions", "u10s", "2627"
    )


@given(st.text())
def test_no_text_raises(text: str) -> None:
    read_code(text, "2526", TEAMS)


@pytest.mark.parametrize(
    ("age_group", "older"),
    [("u10s", False), ("u15s", False), ("u16s", True), ("u18s", True), ("open", True)],
)
def test_open_counts_as_sixteen_and_over(age_group: str, older: bool) -> None:
    assert is_sixteen_or_over(age_group) == older


def test_a_name_in_a_code_is_not_in_its_repr() -> None:
    assert "Jack" not in repr(RegistrationCode("100", "Tigers", "u13s", "2526", "Jack", "Smith"))
