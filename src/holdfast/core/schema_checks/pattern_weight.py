"""Estimates what a regular expression costs: its compiled size, and the work of one character of a text.

A counted repetition is compiled as that many copies, so `(((a{30}){30}){30})` of 19 characters has 27,000 states.
This module must never match anything.
"""

from __future__ import annotations

import re

from msgspec import Struct

_COUNT = re.compile(r"\{([0-9]{1,9})(?:,([0-9]{0,9}))?\}")
_ESCAPE = re.compile(r"[pP]\{[^}]*\}|[pP].|[xuU]\{[^}]*\}|x.{2}|u.{4}|U.{8}|.", re.DOTALL)
_IGNORES_BLANKS = re.compile(r"\(\?[a-zA-Z]*x")
_MOST = 10**12
_STATES = {**dict.fromkeys("wWdDsSbB", 100), "p": 700, "P": 700}
"""The states of a class such as `\\w` or `\\p{L}`, which lists the letters of many scripts."""


class PatternWeight(Struct, frozen=True):
    """What a pattern costs.

    Args:
        size: an upper bound of its states when it is compiled.
        positions: an upper bound of the places of the pattern at which a match can be at once.
    """

    size: int
    positions: int


class _GroupWeight:
    """The sums of a group that is being read, and the weight of its last item."""

    __slots__ = ("last", "size", "total")

    def __init__(self) -> None:
        self.size = self.total = 0
        self.last = (0, 0)

    def add(self, size: int, positions: int) -> None:
        self.size += size
        self.total += positions
        self.last = (size, positions)

    def repeat(self, times: int) -> None:
        size, positions = self.last
        extra = max(times, 1) - 1
        self.size = min(self.size + size * extra, _MOST)
        self.total = min(self.total + positions * extra, _MOST)
        self.last = (size * (extra + 1), positions * (extra + 1))


def weigh_pattern(pattern: str) -> PatternWeight:
    r"""Return what a pattern costs. A text that is not a pattern gets some weight, too.

    >>> weigh_pattern("(ab){3}c")
    PatternWeight(size=10, positions=10)
    >>> weigh_pattern(r"\w{1,20}")
    PatternWeight(size=2000, positions=20)
    """
    if _IGNORES_BLANKS.search(pattern):
        return PatternWeight(_MOST, _MOST)  # what a count repeats is not what stands before it
    groups, at = [_GroupWeight()], 0
    while at < len(pattern):
        mark = pattern[at]
        at += 1
        if mark == "(":
            groups.append(_GroupWeight())
        elif mark == ")" and len(groups) > 1:
            inner = groups.pop()
            groups[-1].add(inner.size + 1, inner.total + 1)
        elif mark == "\\":
            groups[-1].add(_STATES.get(pattern[at : at + 1], 1), 1)
            escape = _ESCAPE.match(pattern, at)
            at = escape.end() if escape else at + 1
        elif mark == "[":
            end = _find_class_end(pattern, at)
            wide = sum(pattern.count("\\" + one, at, end) * many for one, many in _STATES.items())
            groups[-1].add(end - at + wide, 1)
            at = end + 1
        elif mark == "{" and (count := _COUNT.match(pattern, at - 1)):
            groups[-1].repeat(int(count[2] or count[1]))
            at = count.end()
        elif mark not in "*+?":
            groups[-1].add(1, 1)
    size = sum(group.size for group in groups)
    return PatternWeight(min(size, _MOST), min(sum(group.total for group in groups), _MOST))


def _find_class_end(pattern: str, at: int) -> int:
    """Return where the class that begins before `at` ends; classes may hold classes."""
    depth, first = 1, at + (pattern[at : at + 1] == "^")
    while at < len(pattern):
        if pattern[at] == "\\":
            at += 1
        elif pattern[at] == "[":
            depth += 1
        elif pattern[at] == "]" and at > first:
            depth -= 1
            if not depth:
                return at
        at += 1
    return at
