"""The three styles of docstrings, and those that follow none."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.tool_schema import parse_docstring


def google(city: str, days: int) -> None:
    """Current weather.

    Long words
    on two lines.

    Args:
        city: The city,
            with its country.
        days (int): How many.

    Returns:
        Nothing.
    """


def numpy(city: str, days: int) -> None:
    """Current weather.

    Long words
    on two lines.

    Parameters
    ----------
    city : str
        The city,
        with its country.
    days : int
        How many.

    Returns
    -------
    None
    """


def rest(city: str, days: int) -> None:
    """Current weather.

    Long words
    on two lines.

    :param city: The city,
        with its country.
    :param int days: How many.
    :returns: Nothing.
    """


@pytest.mark.parametrize("function", [google, numpy, rest])
def test_every_style(function: Any) -> None:
    found = parse_docstring(function)
    assert found.description == "Current weather.\n\nLong words\non two lines."
    assert found.arguments == {"city": "The city,\nwith its country.", "days": "How many."}


def test_numpy_describes_several_at_once() -> None:
    def f(x: int, y: int) -> None:
        """Add.

        Parameters
        ----------
        x, y : int
            A number.
        """

    assert parse_docstring(f).arguments == {"x": "A number.", "y": "A number."}


def test_no_docstring() -> None:
    def f() -> None: ...

    assert parse_docstring(f).description == ""


@given(st.text())
def test_any_text_is_accepted(text: str) -> None:
    def f() -> None: ...

    f.__doc__ = text
    parse_docstring(f)
