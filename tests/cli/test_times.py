"""Durations are read and written in one form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.times import format_duration, parse_duration
from holdfast.errors import ConfigurationError


@pytest.mark.parametrize("text", ["", "90", "d", "0d", "-1d", "1y", "1.5h", "1d1h", "9" * 10 + "d"])
def test_a_duration_has_a_number_and_a_unit(text: str) -> None:
    with pytest.raises(ConfigurationError, match="such as 90d") as raised:
        parse_duration("--expires", text)
    assert raised.value.argument == "--expires"


@given(st.integers(1, 10**9 - 1))
def test_a_duration_that_is_written_is_exact(seconds: int) -> None:
    assert parse_duration("--every", format_duration(seconds)) == seconds
