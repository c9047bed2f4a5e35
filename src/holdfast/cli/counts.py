"""Numbers with their nouns."""

from __future__ import annotations


def format_count(number: int, noun: str) -> str:
    """Format a number and its noun.

    >>> format_count(1, "line"), format_count(2, "line")
    ('1 line', '2 lines')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"
