"""Limits that make no sense are refused before anything is sent."""

import math

import pytest

from holdfast.core.errors import ConfigurationError
from holdfast.transport.port import Timeouts


@pytest.mark.parametrize("name", ["connect", "first_byte", "between_chunks", "total"])
@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, "10", True])
def test_an_invalid_limit_is_named(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=rf"timeouts\.{name}"):
        Timeouts(**{name: value})  # type: ignore[arg-type]


def test_all_four_are_on_by_default() -> None:
    assert Timeouts() == Timeouts(connect=10, first_byte=60, between_chunks=60, total=600)


def test_none_means_no_limit() -> None:
    assert Timeouts(total=None).total is None
