"""Finds in a model's wording a link, an amount or a hidden sign that it was not given.

The checks are pure. A wording with a fault is not shown; the text it was made from is said instead. This
module must never return a model's text: a fault has a name only.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal
from typing import Literal

Fault = Literal["too_long", "hidden_signs", "markup", "link", "number", "money", "line_missing"]

_LONGER = 1_000
"""Characters that a wording may be longer than the text that the model was given."""

_MARKUP = re.compile(r"<[a-z/!?]|\]\s*\(", re.IGNORECASE)
_LINK = re.compile(
    r"(?:\w+://|www\.)\S+|[\w.+-]*@?(?:[\w-]+\.)+[a-z]{2,}(?:[/:?#]\S*)?", re.IGNORECASE
)
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_MONEY = re.compile(
    r"[£$€¥]|\b(?:pounds?|pence|quid|gbp|euros?|dollars?|iban|sort code|bank|account)\b",
    re.IGNORECASE,
)
_LINES = "\n\t"
_JOINERS = "\u200c\u200d"  # within words of some alphabets, and within emoji


def find_fault(words: str, given: str, office: str) -> Fault | None:
    """Return why a wording is not shown; None if it can be.

    Args:
        words: the wording of the model.
        given: the text that it was given to word.
        office: the e-mail address of the club, which it may always name.

    >>> find_fault("It is £45.00, see http://pay.example/x", "The fee is £45.00.", "a@club.example")
    'link'
    >>> find_fault("That is £45, thank you.", "The fee is £45.00.", "a@club.example") is None
    True
    """
    if len(words) > len(given) + _LONGER:
        return "too_long"
    if has_hidden_signs(words):
        return "hidden_signs"
    if _MARKUP.search(words) and not _MARKUP.search(given):
        return "markup"
    plain, known = _simplify(words), f"{_simplify(given)} {_simplify(office)}"
    if set(_LINK.findall(plain)) - set(_LINK.findall(known)):
        return "link"
    if set(_list_numbers(plain)) - set(_list_numbers(known)):
        return "number"
    if set(_MONEY.findall(plain)) - set(_MONEY.findall(known)):
        return "money"
    rows = [line for line in known.splitlines() if line.startswith("- ")]
    return "line_missing" if any(row.strip() not in plain for row in rows) else None


def is_harmless(words: str) -> bool:
    """Return whether a sentence that nobody checks has no link, address, amount, markup or hidden sign."""
    plain = _simplify(words)
    found = (_LINK.search(plain), _MONEY.search(plain), _MARKUP.search(words))
    return not any(found) and not has_hidden_signs(words)


def has_hidden_signs(words: str) -> bool:
    """Return whether a text has control characters, or signs that change in which order it is read."""
    return any(
        unicodedata.category(one) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and one not in _LINES + _JOINERS
        for one in words
    )


def has_link(words: str) -> bool:
    """Return whether a text has an address of a page; an e-mail address is none."""
    return any("@" not in found for found in _LINK.findall(_simplify(words)))


def _simplify(text: str) -> str:
    """Return a text with usual digits and letters, in small letters, for comparison."""
    return unicodedata.normalize("NFKC", text).casefold()


def _list_numbers(text: str) -> Iterator[Decimal]:
    for found in _NUMBER.findall(text):
        yield Decimal(found.replace(",", ""))
