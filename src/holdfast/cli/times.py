"""Times in a readable form, always in UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def format_time(at: float) -> str:
    """Format seconds since the epoch as date and time, or as a number if it is out of range.

    >>> format_time(1_700_000_000.0)
    '2023-11-14 22:13:20Z'
    """
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return f"{at:g}"
