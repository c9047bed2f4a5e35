"""Moments as people read them, always in UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def format_time(at: float) -> str:
    """Seconds since the epoch as a date and a time; as the number itself when it is none.

    >>> format_time(1_700_000_000.0)
    '2023-11-14 22:13:20Z'
    """
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return f"{at:g}"
