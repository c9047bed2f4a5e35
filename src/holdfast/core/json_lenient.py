"""Reads JSON with the small mistakes that models make, where the meaning is clear.

Accepted: an extra comma, single or typographic quotes, keys without quotes, Python's True, False and
None, comments, line breaks inside strings, and closing brackets that are missing at the very end. All
else is refused. Never pass a text that was cut, since its missing end would be invented, and never
the arguments of a tool.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.core.json_strict import NotJson, read_value_at

_DEEPEST: Final = 100
_GAP = re.compile(r"(?:\s|\ufeff|//[^\n]*|/\*.*?\*/|\#[^\n]*)*", re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.])")
_WORD = re.compile(r"[A-Za-z_$][\w$-]*")
_WORDS: Final[dict[str, object]] = {
    "true": True,
    "false": False,
    "null": None,
    "True": True,
    "False": False,
    "None": None,
}
_QUOTES: Final = {'"': '"', "'": "'", "\u201c": "\u201d", "\u2018": "\u2019"}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}
_FENCE = re.compile(r"`{3,}[A-Za-z]*|~{3,}[A-Za-z]*")
_END = ""


class NotReadable(ValueError):
    """The mistakes are not small, or there is more than one way to repair them."""


def read_leniently(text: str) -> object:
    """Return the object or list in a text, with small mistakes repaired.

    Raises:
        NotReadable: there is none, or it cannot be repaired without guessing.

    >>> read_leniently("Sure: {city: 'Porto', days: [1, 2,],}")
    {'city': 'Porto', 'days': [1, 2]}
    """
    begin = re.search(r"[{\[]", text)
    if begin is None:
        raise NotReadable("there is no bracket")
    reader = _Reader(text, begin.start())
    value = reader.read_value(0)
    rest = _FENCE.sub("", text[reader.position :])
    if re.search(r"[{\[\]}]", rest):
        raise NotReadable("there is more than one value")
    return value


class _Reader:
    """One pass over a text; `position` is the index of the next character."""

    __slots__ = ("_text", "position")

    def __init__(self, text: str, position: int) -> None:
        self._text = text
        self.position = position

    def _peek(self) -> str:
        """Skip spaces and comments. Return the next character; "" at the end or a closing fence."""
        gap = _GAP.match(self._text, self.position)
        self.position = gap.end() if gap is not None else self.position
        if self._text.startswith(("```", "~~~"), self.position):
            return _END
        return self._text[self.position : self.position + 1]

    def read_value(self, depth: int) -> object:
        if depth > _DEEPEST:
            raise NotReadable("it is nested too deeply")
        head = self._peek()
        if head == "{":
            return self._read_object(depth)
        if head == "[":
            return self._read_list(depth)
        if head in _QUOTES and head:
            return self._read_string(head)
        if number := _NUMBER.match(self._text, self.position):
            self.position = number.end()
            return _read_number(number[0])
        word = _WORD.match(self._text, self.position)
        if word is not None and word[0] in _WORDS:
            self.position = word.end()
            return _WORDS[word[0]]
        raise NotReadable(f"no value at {self.position}")

    def _read_object(self, depth: int) -> dict[str, object]:
        items: dict[str, object] = {}
        self.position += 1
        while (head := self._peek()) not in ("}", _END):
            key = self._read_key(head)
            if self._peek() != ":" or key in items:
                raise NotReadable(f"not exactly one value for {key[:40]!r}")
            self.position += 1
            items[key] = self.read_value(depth + 1)
            self._skip_comma("}")
        self.position += len(head)
        return items

    def _read_list(self, depth: int) -> list[object]:
        items: list[object] = []
        self.position += 1
        while (head := self._peek()) not in ("]", _END):
            items.append(self.read_value(depth + 1))
            self._skip_comma("]")
        self.position += len(head)
        return items

    def _skip_comma(self, closing: str) -> None:
        head = self._peek()
        if head == ",":
            self.position += 1
        elif head not in (closing, _END):
            raise NotReadable(f"no comma at {self.position}")

    def _read_key(self, head: str) -> str:
        if head in _QUOTES:
            return self._read_string(head)
        word = _WORD.match(self._text, self.position)
        if word is None:
            raise NotReadable(f"no key at {self.position}")
        self.position = word.end()
        return word[0]

    def _read_string(self, head: str) -> str:
        closing = _QUOTES[head]
        pieces: list[str] = []
        plain = re.compile(rf"[^\\{closing}]*")
        self.position += 1
        while True:
            piece = plain.match(self._text, self.position)
            end = piece.end() if piece is not None else self.position
            pieces.append(self._text[self.position : end])
            mark = self._text[end : end + 1]
            self.position = end + 1
            if mark == closing:
                return "".join(pieces)
            if not mark:
                raise NotReadable("a string has no end")
            pieces.append(self._read_escape())

    def _read_escape(self) -> str:
        letter = self._text[self.position : self.position + 1]
        if letter == "u":
            # The strict reader decodes surrogate pairs.
            pair = re.compile(r"(?:u[0-9a-fA-F]{4}\\?)+").match(self._text, self.position)
            quoted = '"\\' + (pair[0].rstrip("\\") if pair is not None else "u") + '"'
            self.position += len(quoted) - 3
            try:
                return str(read_value_at(quoted, 0)[0])
            except NotJson:
                raise NotReadable("an escape has no meaning") from None
        self.position += 1
        return _ESCAPES.get(letter, letter)


def _read_number(number: str) -> object:
    try:
        return read_value_at(number, 0)[0]
    except NotJson:
        raise NotReadable("a number is too large") from None
