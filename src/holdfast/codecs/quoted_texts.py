"""Separates the words of an error from those that it only quotes of the request.

An error may quote the user's text, which may hold anything, also the words of a refusal. So words of an error that
are in what was sent prove nothing, and neither does a bare name that is a text or a name of the user's. Whoever
compares must pass what the user wrote, and leave out what the codec wrote. This module must never decide what an
error asks for.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

from msgspec import Struct

from holdfast.core.model_request import ModelRequest, OutputSchema

LARGEST_TEXT: Final = 8_000
"""How many characters of an error are read."""

_MOST_MENTIONS: Final = 200
_MOST_VALUES: Final = 200_000
_AROUND: Final = 2
"""How many words before or after a word show that it is quoted."""


class SentTexts:
    """The words of a user in a request: every text, and every name of a property, tool or field.

    Args:
        values: texts, JSON values, records, and the objects of SDKs.
        of_wire: names that the wire has itself: they are no names of the user, and a text under one is no text of his.

    >>> texts = SentTexts([{"role": "user", "content": "Draw a JSON schema"}], of_wire=frozenset({"role"}))
    >>> texts.contain("a json 'schema'"), texts.are_one("user"), texts.are_one("draw a json schema")
    (True, False, True)
    """

    def __init__(self, *values: object, of_wire: frozenset[str] = frozenset()) -> None:
        found = [normalize_words(text) for text in _list_texts([*values], of_wire)]
        self._known = frozenset(found)
        self._joined = "\n".join(found)

    def are_one(self, words: str) -> bool:
        """Whether a text or a name has these words and no others, so that an error may mean that one."""
        return normalize_words(words) in self._known

    def contain(self, phrase: str) -> bool:
        """Whether a phrase of an error may be quoted from what was sent."""
        return normalize_words(phrase) in self._joined


def list_user_parts(request: ModelRequest) -> Iterator[object]:
    """Yield the parts of a request that hold words of the user, for `SentTexts`."""
    yield request.instructions
    yield from (message.parts for message in request.messages)
    yield from (request.tools, request.hosted_tools, request.prefill)
    yield from (request.settings.stop, request.settings.extra)
    if request.output is not None:
        yield from list_output_parts(request.output)


def list_output_parts(output: OutputSchema) -> Iterator[object]:
    """Yield the parts of the type of an output that hold words of the user."""
    yield from (output.name, output.schema, output.tools, output.tags)


def names_subject(
    subject: re.Pattern[str], error: str, find_texts: Callable[[], SentTexts]
) -> bool:
    """Whether an error names a subject in words that it does not only quote.

    Args:
        subject: the words for the subject, in lower case.
        error: the text of the error.
        find_texts: returns what the user sent; called only if the error has such words.

    >>> schema = re.compile("schema")
    >>> sent = SentTexts("Draw a schema of it")
    >>> names_subject(schema, "The schema is not supported", lambda: sent)
    True
    >>> names_subject(schema, "Bad content: 'Draw a schema of it'", lambda: sent)
    False
    """
    text = error[:LARGEST_TEXT].replace("\\", "").lower()
    mentions = [match.span() for match in islice(subject.finditer(text), _MOST_MENTIONS)]
    if not mentions:
        return False
    words = [match.span() for match in re.finditer(r"\w+", text)]
    texts = find_texts()
    return not all(_is_quoted(text, words, mention, texts) for mention in mentions)


def _is_quoted(
    text: str, words: list[tuple[int, int]], mention: tuple[int, int], texts: SentTexts
) -> bool:
    """Whether words of an error may be quoted, alone or with the words before or after them."""
    first = max(bisect_right(words, mention[0], key=lambda word: word[0]) - 1, 0)
    last = max(bisect_left(words, mention[1], key=lambda word: word[0]) - 1, first)
    start, end = max(first - _AROUND, 0), min(last + _AROUND, len(words) - 1)
    begins = [words[at][0] for at in range(start, first + 1)]
    ends = [words[at][1] for at in range(last, end + 1)]
    before, after = text[begins[0] : ends[0]], text[begins[-1] : ends[-1]]
    # Within one name, such as `json_schema`, no words stand around.
    longer = {before, after} - {text[begins[-1] : ends[0]]}
    return any(map(texts.contain, longer)) or any(
        texts.are_one(text[begin:end]) for begin in begins for end in ends
    )


def normalize_words(text: str) -> str:
    """Return only the words, since an error may quote a text with other quotes, escapes and spaces."""
    return " ".join(re.findall(r"[^\W_]+|_", text.replace("\\", "").lower()))


def _list_texts(waiting: list[object], of_wire: frozenset[str]) -> Iterator[str]:
    seen: set[int] = set()
    while waiting and len(seen) < _MOST_VALUES:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
            continue
        if value is None or isinstance(value, bytes | bool | int | float) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, list | tuple | set | frozenset):
            waiting += value
            continue
        fields = _read_fields(value)
        if isinstance(value, Mapping):
            yield from (str(name) for name in fields if name not in of_wire)
        waiting += [
            inner
            for name, inner in fields.items()
            if not (isinstance(inner, str) and name in of_wire)
        ]


def _read_fields(value: object) -> Mapping[object, object]:
    """Return the fields of a mapping, a record, or an object of an SDK; any other object may be large, and has none."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    kind = type(value)
    if hasattr(kind, "model_fields") or hasattr(kind, "__dataclass_fields__"):
        return dict(getattr(value, "__dict__", {}))
    return {}
