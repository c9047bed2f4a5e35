"""Checks of numbers in the settings of strategies; each error names the argument and what is wrong.

This module must never check anything but numbers.
"""

from __future__ import annotations

import math

from holdfast.core.errors import ConfigurationError


def is_seconds(value: object) -> bool:
    """Whether `value` is a finite number from 0; a bool is not a number.

    >>> [is_seconds(value) for value in (0, 1.5, -1, float("nan"), True, "2")]
    [True, True, False, False, False, False]
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value >= 0


def check_number(argument: str, value: object) -> None:
    """Raise ConfigurationError unless `value` is a finite number from 0."""
    if not is_seconds(value):
        raise ConfigurationError(argument, f"must be a finite number from 0, got {value!r}")


def check_share(argument: str, value: object) -> None:
    """Raise ConfigurationError unless `value` is a number above 0 and at most 1."""
    if not is_seconds(value) or not 0 < value <= 1:  # type: ignore[operator]  # is a number
        raise ConfigurationError(argument, f"must be above 0 and at most 1, got {value!r}")
