"""Parses JSON while it is being written, to show the part of a value that is already there.

Each character is read once, whatever chunks the text arrives in. Numbers and words appear when they
are complete, strings while they grow. The value is not validated, so this module must never be used
to read the output of a turn.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from holdfast.core.deltas import TextDelta, ToolCallDelta
from holdfast.core.json_strict import NotJson, read_value_at
from holdfast.core.model_request import OutputSchema
from holdfast.core.notices import AttemptAbandoned, AttemptStarted, ReplyReplaced

Container: TypeAlias = dict[str, object] | list[object]

ENVELOPE: Final = "answer"
"""The property that contains an output which is not an object."""

_DEEPEST: Final = 200
_SPACE: Final = frozenset(" \t\r\n\ufeff")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
_WORD = re.compile(r"[A-Za-z0-9+.\-]+")
_REFRESH: Final = 32
"""A growing string is copied into the value each time it has grown by 1/32 of its length. So the
total cost of copying is proportional to the length of the string."""


class PartialJson:
    """An incremental parser of one JSON value.

    Text before the first bracket is skipped. Text that turns out not to be JSON is skipped too: the
    next bracket starts a new value. `value` is one object that grows; copy it to keep a state of it.

    Args:
        begins: the brackets that the value may begin with.

    >>> partial = PartialJson()
    >>> partial.feed('So: {"city": "Por'), partial.value
    (True, {'city': 'Por'})
    >>> partial.feed('to", "days": 1'), partial.value
    (True, {'city': 'Porto'})
    >>> partial.feed("2}"), partial.value, partial.is_complete
    (True, {'city': 'Porto', 'days': 12}, True)
    """

    __slots__ = (
        "_begin_pattern",
        "_escape",
        "_key",
        "_shown_length",
        "_stack",
        "_state",
        "_text_chunks",
        "_text_length",
        "_word_chunks",
        "characters_read",
        "is_complete",
        "value",
    )  # fmt: skip

    def __init__(self, begins: str = "{[") -> None:
        self._begin_pattern = re.compile("[" + re.escape(begins) + "]")
        self.value: Container | None = None
        self.is_complete = False
        self.characters_read = 0
        """The number of characters read so far, to measure the cost."""
        self._reset()

    def _reset(self) -> None:
        self._state = "outside"
        self._stack: list[Container] = []
        self._key: str | None = None
        self._text_chunks: list[str] = []
        self._text_length = 0
        self._shown_length = 0
        self._escape = ""
        self._word_chunks: list[str] = []

    def feed(self, text: str) -> bool:
        """Read the next chunk. Return whether the value has changed."""
        at, changed = 0, False
        while at < len(text) and not self.is_complete:
            begin = at
            at, news = _STATES[self._state](self, text, at)
            changed |= news
            self.characters_read += at - begin
        return changed

    def _seek_begin(self, text: str, at: int) -> tuple[int, bool]:
        found = self._begin_pattern.search(text, at)
        if found is None:
            return len(text), False
        self.value = None
        return found.end(), self._open_container(found[0])

    def _open_container(self, bracket: str) -> bool:
        container: Container = {} if bracket == "{" else []
        if len(self._stack) >= _DEEPEST:
            self.is_complete = True
            return False
        if self._stack:
            self._put_value(container)
        else:
            self.value = container
        self._stack.append(container)
        self._state = "first"
        return True

    def _restart(self) -> bool:
        self._reset()
        return False

    def _put_value(self, value: object) -> None:
        top = self._stack[-1]
        if isinstance(top, list):
            top.append(value)
        elif self._key is not None:
            top[self._key] = value

    def _after_open(self, text: str, at: int) -> tuple[int, bool]:
        """Read the character after an opening bracket."""
        if text[at] in _SPACE:
            return at + 1, False
        if text[at] in "}]":
            return at + 1, self._close_container(text[at])
        self._state = "key" if isinstance(self._stack[-1], dict) else "value"
        return at, False

    def _close_container(self, bracket: str) -> bool:
        if bracket != ("}" if isinstance(self._stack[-1], dict) else "]"):
            return self._restart()
        self._stack.pop()
        self._state, self.is_complete = "after", not self._stack
        return True

    def _before_key(self, text: str, at: int) -> tuple[int, bool]:
        if text[at] in _SPACE:
            return at + 1, False
        if text[at] != '"':
            return at + 1, self._restart()
        self._begin_text(None)
        return at + 1, False

    def _begin_text(self, key: str | None) -> None:
        self._key = key
        self._text_chunks, self._text_length, self._shown_length = [], 0, 0
        self._state = "in key" if key is None and isinstance(self._stack[-1], dict) else "in text"

    def _expect_colon(self, text: str, at: int) -> tuple[int, bool]:
        if text[at] in _SPACE:
            return at + 1, False
        if text[at] != ":":
            return at + 1, self._restart()
        self._state = "value"
        return at + 1, False

    def _before_value(self, text: str, at: int) -> tuple[int, bool]:
        head = text[at]
        if head in _SPACE:
            return at + 1, False
        if head in "{[":
            return at + 1, self._open_container(head)
        if head == '"':
            self._begin_text(self._key if isinstance(self._stack[-1], dict) else "")
            self._put_value("")
            return at + 1, True
        if _WORD.match(head):
            self._word_chunks = []
            self._state = "word"
            return at, False
        return at + 1, self._restart()

    def _in_word(self, text: str, at: int) -> tuple[int, bool]:
        more = _WORD.match(text, at)
        if more is not None:
            self._word_chunks.append(more[0])
            return more.end(), False
        word = "".join(self._word_chunks)
        try:
            value, end = read_value_at(word, 0)
        except NotJson:
            return at, self._restart()
        if end != len(word):
            return at, self._restart()
        self._put_value(value)
        self._state = "after"
        return at, True

    def _after_value(self, text: str, at: int) -> tuple[int, bool]:
        head = text[at]
        if head in _SPACE:
            return at + 1, False
        if head in "}]":
            return at + 1, self._close_container(head)
        if head != ",":
            return at + 1, self._restart()
        self._state = "key" if isinstance(self._stack[-1], dict) else "value"
        return at + 1, False

    def _in_text(self, text: str, at: int) -> tuple[int, bool]:
        if self._escape:
            return self._in_escape(text, at)
        plain = _PLAIN.match(text, at)
        if plain is not None:
            self._text_chunks.append(plain[0])
            self._text_length += len(plain[0])
            return plain.end(), self._show_text()
        if text[at] == "\\":
            self._escape = "\\"
            return at + 1, False
        if text[at] != '"':
            return at + 1, self._restart()
        whole = "".join(self._text_chunks)
        if self._state == "in key":
            self._key, self._state = whole, "colon"
            return at + 1, False
        self._replace_text(whole)
        self._state = "after"
        return at + 1, True

    def _show_text(self) -> bool:
        """Copy the growing string into the value, unless it has grown too little."""
        grown = self._text_length - self._shown_length
        if self._state == "in key" or grown * _REFRESH < self._shown_length:
            return False
        self._replace_text("".join(self._text_chunks))
        self._shown_length = self._text_length
        return True

    def _replace_text(self, text: str) -> None:
        top = self._stack[-1]
        if isinstance(top, list):
            top[-1] = text
        else:
            self._put_value(text)

    def _in_escape(self, text: str, at: int) -> tuple[int, bool]:
        self._escape += text[at]
        done = _decode_escape(self._escape)
        if done is None:
            return at + 1, False
        if done == "":
            return at + 1, self._restart()
        self._escape = ""
        self._text_chunks.append(done)
        self._text_length += len(done)
        return at + 1, self._show_text()


def _decode_escape(escape: str) -> str | None:
    r"""Decode an escape: None while it is incomplete, "" when it is invalid.

    >>> _decode_escape(r"\n"), _decode_escape(r"\u00e"), _decode_escape(r"\ud83d"), _decode_escape(r"\x")
    ('\n', None, None, '')
    """
    length = len(escape)
    if escape[1] == "u" and length < 6:  # \uXXXX
        return None
    half = escape[1] == "u" and escape[2:4].lower() in _HIGH_HALVES
    if half and length < 12:  # a surrogate pair: \uXXXX\uXXXX
        return None
    try:
        value, _ = read_value_at(f'"{escape}"', 0)
    except NotJson:
        return ""
    return str(value)


_HIGH_HALVES: Final = frozenset({"d8", "d9", "da", "db"})

_STATES: Final = {
    "outside": PartialJson._seek_begin,
    "first": PartialJson._after_open,
    "key": PartialJson._before_key,
    "in key": PartialJson._in_text,
    "colon": PartialJson._expect_colon,
    "value": PartialJson._before_value,
    "word": PartialJson._in_word,
    "in text": PartialJson._in_text,
    "after": PartialJson._after_value,
}


def parse_partial_json(text: str) -> object:
    """Return the JSON value of an incomplete text, as far as it goes; None when there is none.

    >>> parse_partial_json('{"city": "Porto", "days": [1, 2')
    {'city': 'Porto', 'days': [1]}
    """
    partial = PartialJson()
    partial.feed(text)
    return partial.value


class Partials:
    """Computes the preview from notices and deltas.

    Args:
        output: the schema of the output.
    """

    __slots__ = ("_calls", "_is_wrapped", "_json", "_names", "_opening_chars", "value")

    def __init__(self, output: OutputSchema) -> None:
        self._names = frozenset(tool.name for tool in output.tools)
        self._is_wrapped = output.envelope is not None
        self._opening_chars = "{[" if self._is_wrapped else "{"
        self.value: object = None
        """The preview so far; None when there is none, or when the last one became invalid."""
        self._start_over()

    def _start_over(self) -> bool:
        """Start over; returns whether there was a preview, which is now invalid."""
        void, self.value = self.value is not None, None
        self._json = PartialJson(self._opening_chars)
        self._calls: set[int] = set()
        return void

    def feed(self, item: object) -> bool:
        """Process the next item of a stream; returns whether `value` has changed."""
        if type(item) is TextDelta:
            # Once a tool is called, only its arguments are the output.
            return not self._calls and self._feed_text(item.text)
        if type(item) is ToolCallDelta:
            return self._feed_call(item)
        if type(item) is AttemptAbandoned or type(item) is ReplyReplaced:
            return self._start_over()
        if type(item) is AttemptStarted and not item.continues:
            return self._start_over()
        return False

    def _feed_call(self, delta: ToolCallDelta) -> bool:
        void = False
        if delta.name in self._names and not self._calls:
            void = self._start_over()
            self._calls.add(delta.index)
        if delta.index not in self._calls:
            return void
        return self._feed_text(delta.arguments) or void

    def _feed_text(self, text: str) -> bool:
        if not self._json.feed(text):
            return False
        value: object = self._json.value
        if self._is_wrapped and isinstance(value, dict):
            value = value.get(ENVELOPE)
        self.value = value
        return value is not None
