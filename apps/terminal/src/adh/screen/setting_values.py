"""Reads the values of settings as a person types them. It is pure."""

from __future__ import annotations

import math


def read_temperature(text: str) -> float | None:
    """Return a temperature; None for an empty text, which means the model's own.

    Raises:
        ValueError: it is not a number from 0 to 2. Its text is for the person.

    >>> read_temperature("0.5"), read_temperature("")
    (0.5, None)
    """
    if not text:
        return None
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        value = math.nan
    if not 0 <= value <= 2:
        raise ValueError("Write a number from 0 to 2, or nothing for the model's own.")
    return value


def read_max_tokens(text: str) -> int | None:
    """Return a number of tokens; None for an empty text, which means the model's own limit.

    Raises:
        ValueError: it is not a whole number from 1 to 1,000,000,000. Its text is for the person.

    >>> read_max_tokens("8,000")
    8000
    """
    if not text:
        return None
    digits = text.replace(",", "").replace("_", "").replace(" ", "")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 11):
        raise ValueError("Write a whole number, or nothing for the model's own limit.")
    if not 1 <= int(digits) <= 1_000_000_000:
        raise ValueError("Write a number from 1 to 1,000,000,000.")
    return int(digits)


def read_key(text: str) -> str:
    """Return an API key as it was typed, without the spaces around it.

    Raises:
        ValueError: it is empty or has characters that no key has. Its text never holds the key.
    """
    key = text.strip()
    if not key:
        raise ValueError("Paste the key, or press Esc.")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError("A key has no spaces and no special characters. Copy it again.")
    return key


def read_agent_or_model(text: str) -> str:
    """Return a name of 1 to 200 characters. Raises ValueError with a text for the person."""
    if not 1 <= len(text) <= 200 or not text.isprintable():
        raise ValueError("Write a name of 1 to 200 characters.")
    return text
