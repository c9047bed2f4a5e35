"""Numbers, times and durations as people read and write them; a time that is printed is in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from holdfast.core.errors import ConfigurationError


def format_count(number: int, noun: str) -> str:
    """Format a number and its noun.

    >>> format_count(1, "line"), format_count(2, "line")
    ('1 line', '2 lines')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(\d{1,9})([smhdw])")


def format_time(at: float) -> str:
    """Format seconds since the epoch as date and time, or as a number if it is out of range.

    >>> format_time(1_700_000_000.0)
    '2023-11-14 22:13:20Z'
    """
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return f"{at:g}"


def parse_duration(option: str, text: str) -> float:
    """Return the seconds of a text such as "90d", "12h" or "30m".

    Raises:
        ConfigurationError: it has another form.

    >>> parse_duration("--expires", "2d")
    172800.0
    """
    found = _DURATION.fullmatch(text)
    if found is None or not int(found[1]):
        raise ConfigurationError(
            option, "is not a duration", fix="Write a number and a unit, such as 90d, 12h or 30m"
        )
    return float(int(found[1]) * _UNITS[found[2]])


def format_duration(seconds: int) -> str:
    """Write a whole number of seconds from 1 as `parse_duration` reads it.

    >>> format_duration(5400), format_duration(86_400)
    ('90m', '1d')
    """
    unit = max(
        (unit for unit, size in _UNITS.items() if seconds % size == 0), key=_UNITS.__getitem__
    )
    return f"{seconds // _UNITS[unit]}{unit}"


def format_age(seconds: float) -> str:
    """Format how long ago something was by its largest unit, rounded down.

    >>> format_age(42.3), format_age(90), format_age(7300), format_age(2e5)
    ('42 s', '1 m', '2 h', '2 d')
    """
    for unit in ("d", "h", "m"):
        if seconds >= _UNITS[unit]:
            return f"{seconds // _UNITS[unit]:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
