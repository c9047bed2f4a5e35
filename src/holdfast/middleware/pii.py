"""Finds personal data in text, and removes it.

Each kind has a pattern; card numbers also have a checksum. Where two matches overlap, the kind that
comes first in `KINDS` counts. This module must never show the data that it found.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from hashlib import sha256
from operator import itemgetter
from typing import Literal

from msgspec import Struct

Kind = Literal["CreditCard", "SSN", "Email", "IPAddress", "Phone"]
Action = Literal["redact", "mask", "hash", "block", "keep"]

KINDS: tuple[Kind, ...] = ("CreditCard", "SSN", "Email", "IPAddress", "Phone")
"""The kinds of personal data. Where two matches overlap, the first kind here counts."""

DEFAULTS: Mapping[Kind, Action] = {
    "CreditCard": "block",
    "SSN": "block",
    "Email": "redact",
    "IPAddress": "hash",
    "Phone": "mask",
}

_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_PATTERNS: dict[Kind, re.Pattern[str]] = {
    # A row of digits, in which cards are searched.
    "CreditCard": re.compile(r"(?<![\d-])\d(?:[ -]?\d){12,}", re.ASCII),
    "SSN": re.compile(r"(?<![\d-])\d{3}-\d{2}-\d{4}(?![\d-])", re.ASCII),
    "Email": re.compile(
        r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,8}\.[A-Za-z]{2,24}"
    ),
    "IPAddress": re.compile(rf"(?<![\d.])(?:{_OCTET}\.){{3}}{_OCTET}(?!\d|\.\d)", re.ASCII),
    "Phone": re.compile(
        r"(?<![\w-])(?:\+?1[ .-]?)?(?:\(\d{3}\)|\d{3})[ .-]?\d{3}[ .-]?\d{4}(?![\w-])", re.ASCII
    ),
}


_SHORTEST_CARD, _LONGEST_CARD = 13, 19
_SHAPES = {
    (4, 4, 4, 4),
    (4, 4, 4, 4, 3),
    (4, 6, 5),
    *((n,) for n in range(_SHORTEST_CARD, _LONGEST_CARD + 1)),
}
"""The groups of digits in which cards are written."""
_MOST_GROUPS = 5
_DIGITS = re.compile(r"\d+", re.ASCII)
_NUMBERS = re.compile(r"\d[\d .()+-]{5,}\d", re.ASCII)
"""The characters that every kind except an email address contains: at least seven characters such as 1.2.3.4."""


class CleanedText(Struct, frozen=True):
    """The text without personal data; `blocked_kind` is the kind that blocks the whole text."""

    text: str
    blocked_kind: Kind | None = None


def clean_text(text: str, actions: Mapping[Kind, Action] = DEFAULTS) -> CleanedText:
    """Remove personal data from `text`.

    >>> clean_text("mail bob@example.org or call 555-123-4567").text
    'mail [EMAIL_REDACTED] or call ***-***-4567'
    >>> clean_text("4111 1111 1111 1111").blocked_kind
    'CreditCard'
    """
    found = find_personal_data(text, actions)
    for _, _, kind in found:
        if actions[kind] == "block":
            return CleanedText("", kind)
    pieces: list[str] = []
    at = 0
    for start, end, kind in found:
        pieces += (text[at:start], replacement_for(kind, text[start:end], actions[kind]))
        at = end
    return CleanedText("".join((*pieces, text[at:])))


def find_personal_data(
    text: str, actions: Mapping[Kind, Action] = DEFAULTS
) -> list[tuple[int, int, Kind]]:
    """Return the start, end and kind of all personal data whose action is not "keep", in order.

    >>> find_personal_data("mail bob@example.org")
    [(5, 20, 'Email')]
    """
    found: list[tuple[int, int, Kind]] = []
    numbers = _NUMBERS.search(text) is not None
    for kind in KINDS:
        if actions.get(kind, "keep") == "keep":
            continue
        if ("@" not in text) if kind == "Email" else not numbers:
            continue  # no pattern can match
        hits = _find_cards(text) if kind == "CreditCard" else _find_matches(kind, text)
        # Matches of one kind never overlap, so only the other kinds are checked.
        found += [(*hit, kind) for hit in hits if _is_free(found, *hit)]
        found.sort()
    return found


def _is_free(matches: list[tuple[int, int, Kind]], start: int, end: int) -> bool:
    """Whether none of the sorted matches overlaps with this range."""
    after = bisect_left(matches, start, key=_begin)
    before = matches[after - 1][1] if after else 0
    return before <= start and (after == len(matches) or end <= matches[after][0])


_begin = itemgetter(0)


def _find_matches(kind: Kind, text: str) -> Iterator[tuple[int, int]]:
    return (hit.span() for hit in _PATTERNS[kind].finditer(text))


def _find_cards(text: str) -> Iterator[tuple[int, int]]:
    """Yield the cards, also where other numbers stand directly before or after them."""
    for start, end in _find_matches("CreditCard", text):
        groups = [hit.span() for hit in _DIGITS.finditer(text, start, end)]
        at = first = 0
        while at < len(groups):
            count = _count_card_groups(text, groups[at : at + _MOST_GROUPS])
            if count:
                yield from _find_ungrouped_card(text, groups[first:at])
                yield groups[at][0], groups[at + count - 1][1]
                first = at + count
            at += count or 1
        yield from _find_ungrouped_card(text, groups[first:])


def _count_card_groups(text: str, groups: list[tuple[int, int]]) -> int:
    """Return how many of these groups form the longest card in a usual grouping; 0 for none."""
    shape: tuple[int, ...] = ()
    found = 0
    for start, stop in groups:
        shape = (*shape, stop - start)
        if shape in _SHAPES and _is_card(text, groups[0][0], stop):
            found = len(shape)
    return found


def _find_ungrouped_card(text: str, groups: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield a card in any grouping that begins with the first group.

    Searching at every group would find too many cards by chance.
    """
    if groups:
        begin = groups[0][0]
        ends = [stop for _, stop in groups[:_LONGEST_CARD]]
        card = next((stop for stop in reversed(ends) if _is_card(text, begin, stop)), None)
        if card is not None:
            yield begin, card


def replacement_for(kind: Kind, value: str, action: Action) -> str:
    """Return the replacement of a match."""
    if action == "mask":
        digits = [character for character in value if character.isdigit()]
        if kind == "Phone":
            return f"***-***-{''.join(digits[-4:])}"
        return "*" * 4 + value[-4:]
    if action == "hash":
        return f"<{kind.lower()}_hash:{sha256(value.encode()).hexdigest()[:8]}>"
    return f"[{kind.upper()}_REDACTED]"


def _is_card(text: str, start: int, end: int) -> bool:
    """Whether the digits have the length and the checksum of a card, and no hyphen before them."""
    if text[max(start - 1, 0) : start] == "-":
        return False
    digits = [int(character) for character in reversed(text[start:end]) if character.isdigit()]
    if not _SHORTEST_CARD <= len(digits) <= _LONGEST_CARD:
        return False
    total = sum(digits[0::2]) + sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return total % 10 == 0 and len(set(digits)) > 1
