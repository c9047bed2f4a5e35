"""A strict JSON reader: it accepts the grammar of JSON and nothing ambiguous.

It refuses `NaN`, repeated keys, numbers that no float can hold and text that is not valid Unicode,
which most readers accept. This module must never repair or guess.
"""

from __future__ import annotations

import json
from json import JSONDecodeError, JSONDecoder
from math import isfinite
from typing import Final

from holdfast.core.problems import Problem

SUBSTITUTE: Final = "\x1a"
"""Replaces invalid Unicode in the arguments of a call. JSON never allows this character unescaped."""

_WHOLE = "the answer"


class NotJson(ValueError):
    """The text is not strict JSON. `problem` says why, and `end` how far it could be read."""

    def __init__(self, expected: str, end: int = 0, *, forbidden: bool = False) -> None:
        super().__init__(expected)
        self.problem = Problem(_WHOLE, expected)
        self.end = end
        self.forbidden = forbidden
        """Whether the text is well formed but not allowed, so that another parser must not try it."""


def _build_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise NotJson(f"the key {key[:80]!r} is given twice", forbidden=True)
            seen.add(key)
    return value


def _reject_constant(word: str) -> object:
    raise NotJson(f"{word} is not a JSON value", forbidden=True)


def _parse_float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise NotJson("a number is too large", forbidden=True)
    return number


def _parse_int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise NotJson("a number has too many digits", forbidden=True) from None


_decode = JSONDecoder(
    object_pairs_hook=_build_object,
    parse_constant=_reject_constant,
    parse_float=_parse_float,
    parse_int=_parse_int,
).raw_decode


def read_value_at(text: str, start: int) -> tuple[object, int]:
    """Return the value that begins at `start`, and the index of its end.

    Raises:
        NotJson: no value begins there.
    """
    try:
        return _decode(text, start)
    except RecursionError:
        raise NotJson("is nested too deeply", len(text), forbidden=True) from None
    except JSONDecodeError as error:
        where = f"(line {error.lineno}, column {error.colno})"
        raise NotJson(f"is not JSON: {error.msg} {where}", error.pos) from None


def read_strict_json(text: str) -> object:
    """Return the value of a text that is exactly one JSON value.

    Raises:
        NotJson: the text is anything else.

    >>> read_strict_json('{"a": 1}')
    {'a': 1}
    >>> read_strict_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ...
    holdfast.core.json_strict.NotJson: the key 'a' is given twice
    """
    begin = len(text) - len(text.lstrip(" \t\r\n\ufeff"))
    value, end = read_value_at(text, begin)
    if rest := text[end:].strip(" \t\r\n"):
        raise NotJson(f"is not JSON: the value is followed by {rest[:40]!r}", end)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NotJson("contains invalid Unicode", len(text), forbidden=True) from None
    return value


def is_finite(value: object) -> bool:
    """Whether JSON can represent all numbers of a value.

    >>> is_finite({"a": [1.5]}), is_finite({"a": [float("inf")]})
    (True, False)
    """
    if isinstance(value, dict):
        return all(map(is_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(is_finite, value))
    return not isinstance(value, float) or isfinite(value)


def dump_json(value: object) -> str:
    """Return a JSON value as text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
