"""The output parser: from the text of a reply to a value of the wanted type, in up to three steps.

    strict      the whole text is the JSON value
    embedded    the only JSON value in a code fence, in prose, or inside a JSON string
    repaired    the same with small mistakes repaired, only where that is allowed

The steps are tried in order. If the text holds two candidate values that fit, neither is used. The
work is bounded by the length of the text, and no text makes the parser raise. Whether raw text is
accepted and whether the model is asked again is decided elsewhere.

Repaired are: an extra comma, single or typographic quotes, keys without quotes, Python's True, False
and None, comments, line breaks inside strings, and closing brackets that are missing at the very end.
All else is refused. Never pass a text that was cut, since its missing end would be invented, and never
the arguments of a tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import Final

from holdfast.core.json_strict import NotJson, dump_json, read_strict_json, read_value_at
from holdfast.core.output import Invalid, OutputType, ParsedBy, ParseResult, Valid
from holdfast.core.problems import Problem
from holdfast.core.schema_checks.schema_limits import CHECK_STEPS, StepBudget

_WHOLE = "the answer"
_SPACE = re.compile(r"[ \t\r\n\ufeff]*")
_MARK = re.compile(r"(?<!`)`{3,16}(?!`)|(?<!~)~{3,16}(?!~)")
_INFO = re.compile(r"[A-Za-z][\w+.-]*")
_BEGIN = re.compile(r'\{(?=\s*["}])|\[(?=\s*(?:["\[\]{\-0-9]|true|false|null))')
_SCALAR = re.compile(r'"(?:[^"\\\n]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null')
_BRACKET_OR_STRING = re.compile(r'[\[\]{}]|"(?:[^"\\]|\\.)*"', re.DOTALL)
_MOST_ATTEMPTS = 200
_MOST_TOKENS = 100_000
_MOST_FOUND = 16
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


def parse_output(
    text: str, output_type: OutputType, *, lenient: bool = False, now: float | None = None
) -> ParseResult:
    """Parse an output. On failure, return the problems of the step that came nearest.

    Args:
        text: the complete text of a reply that was not cut.
        output_type: the type's schema and check.
        lenient: whether small mistakes are repaired.
        now: the time in seconds since 1970, for messages about dates.
    """
    return _parse(text, _BoundedCheck(output_type, now), lenient=lenient)


class _BoundedCheck:
    """Checks all values that are found in one reply in the steps of one budget."""

    def __init__(self, output_type: OutputType, now: float | None) -> None:
        self._type = output_type
        self._steps = StepBudget(CHECK_STEPS)
        self._now = now

    def check(self, json_text: str) -> ParseResult:
        return self._type.check(json_text, self._steps, self._now)


def _parse(text: str, output_type: _BoundedCheck, *, lenient: bool) -> ParseResult:
    try:
        value = read_strict_json(text)
    except NotJson as error:
        if error.forbidden:
            return Invalid((error.problem,))
        return _parse_inexact(text, output_type, error.problem, lenient=lenient)
    checked = output_type.check(text.strip().lstrip("\ufeff"))
    if isinstance(checked, Invalid) and isinstance(value, str):
        inner = _choose_one([value] if _is_json(value) else [], output_type)
        if isinstance(inner, Valid):
            return inner
    return checked


def _parse_inexact(
    text: str, output_type: _BoundedCheck, problem: Problem, *, lenient: bool
) -> ParseResult:
    found = find_fenced_values(text) or find_prose_values(text)
    if found:
        return _choose_one(found, output_type)
    if lenient:
        return _parse_leniently(text, output_type, problem)
    return Invalid((problem,))


def _choose_one(candidates: list[str], output_type: _BoundedCheck) -> ParseResult:
    """Return the only value that fits; Invalid when several fit, or none."""
    checked = [output_type.check(candidate) for candidate in candidates]
    fitting = [result for result in checked if isinstance(result, Valid)]
    if len(fitting) == 1:
        return Valid(fitting[0].value, "embedded")
    if len(candidates) == 1:
        return checked[0]
    return Invalid((Problem(_WHOLE, f"must be one JSON value, and there are {len(candidates)}"),))


def _is_json(text: str) -> bool:
    try:
        return isinstance(read_strict_json(text), dict | list)
    except NotJson:
        return False


def find_fenced_values(text: str) -> list[str]:
    r"""Return the JSON values that fill a code fence, in order and without duplicates.

    >>> find_fenced_values("So:\n```json\n[1]\n```\nand\n```python\nx = 2\n```")
    ['[1]']
    """
    found: dict[str, None] = {}
    closings: dict[str, int] = {}
    at = 0
    while len(found) < _MOST_FOUND and (mark := _MARK.search(text, at)):
        block_end = _find_block_end(text, mark, closings)
        value, at = _read_fence(text, mark, block_end)
        if value:
            found[value] = None
    return list(found)


def _find_block_end(text: str, mark: re.Match[str], closings: dict[str, int]) -> int:
    """Return where the next line begins with this mark; `closings` has the last place of each mark."""
    closing = closings.get(mark[0], 0)
    if closing < mark.end():
        closing = text.find("\n" + mark[0], mark.end())
        closings[mark[0]] = closing = closing if closing >= 0 else len(text)
    return closing


def _read_fence(text: str, mark: re.Match[str], block_end: int) -> tuple[str, int]:
    """Return the JSON text that fills the fence, or "", and the index after it.

    Only the block is read, so that many fences take no more time than their text: no JSON value
    contains a line that begins with a mark.
    """
    for start in _value_starts(text, mark.end()):
        end = _find_value_end(text, start, block_end)
        if end is None or not _is_value(text[start:end]):
            continue
        after = _skip_space(text, end)
        if text.startswith(mark[0], after) or after == len(text):
            return text[start:end], after + len(mark[0])
    return "", min(block_end + 1 + len(mark[0]), len(text))


def _find_value_end(text: str, start: int, block_end: int) -> int | None:
    if text.startswith(("{", "["), start):
        return _find_closing(_BRACKET_OR_STRING.finditer(text, start, block_end))
    scalar = _SCALAR.match(text, start, block_end)
    return scalar.end() if scalar is not None else None


def _is_value(text: str) -> bool:
    try:
        return read_value_at(text, 0)[1] == len(text)
    except NotJson:
        return False


def _value_starts(text: str, at: int) -> list[int]:
    """Return where a value may begin: after the marks, or after the name of the language."""
    info = _INFO.match(text, at)
    places = [_skip_space(text, at)]
    return places if info is None else [*places, _skip_space(text, info.end())]


def _skip_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space is not None else at


def find_prose_values(text: str) -> list[str]:
    """Return the JSON objects and lists in prose, in order, without duplicates and nested values.

    >>> find_prose_values('As in [1], it is {"a": [2]}.')
    ['[1]', '{"a": [2]}']
    """
    found: dict[str, None] = {}
    at, attempts = 0, 0
    while begin := _BEGIN.search(text, at):
        attempts += 1
        if attempts > _MOST_ATTEMPTS or len(found) > _MOST_FOUND:
            return []
        try:
            _, at = read_value_at(text, begin.start())
            found[text[begin.start() : at]] = None
        except NotJson as error:
            if error.forbidden:
                return []
            # A value inside a broken value is a part of it, and not a candidate.
            tokens = islice(_BRACKET_OR_STRING.finditer(text, begin.start()), _MOST_TOKENS)
            if (closing := _find_closing(tokens)) is None:
                return []
            at = closing
    return list(found)


def _find_closing(tokens: Iterable[re.Match[str]]) -> int | None:
    """Return where the bracket that is the first of the tokens is closed; strings are tokens, too."""
    depth = 0
    for token in tokens:
        if token[0] in "[{":
            depth += 1
        elif token[0] in "]}":
            depth -= 1
            if not depth:
                return token.end()
    return None


def _parse_leniently(text: str, output_type: _BoundedCheck, problem: Problem) -> ParseResult:
    parsed_by: ParsedBy = "repaired"
    try:
        value = read_leniently(text)
    except NotReadable:
        return Invalid((problem,))
    checked = output_type.check(dump_json(value))
    return Valid(checked.value, parsed_by) if isinstance(checked, Valid) else checked


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
