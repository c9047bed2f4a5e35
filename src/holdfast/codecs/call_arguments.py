"""The text of a call's arguments: as it is read from a reply, and as it goes back to a provider.

Arguments that were repaired, or that JSON cannot express, are made invalid JSON.

A reader replaces bytes that are not UTF-8, because a reply with a wrong character is better than no
reply. A tool must never run with such arguments. This module puts a character into them that JSON
allows nowhere unescaped, so that every later reader rejects them, after a restart too. Servers refuse
a history with invalid arguments, so such a text goes back inside of a JSON object.

Some servers stream arguments that repeat: each piece is all that came so far, or the whole comes once
more at the end. Such a repetition is dropped if it is proved; nothing else about arguments is repaired.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from holdfast.codecs.json_text import UNREADABLE, dump_json, read_strict_json
from holdfast.core import json_strict
from holdfast.core.deltas import Delta, ToolCallDelta
from holdfast.core.json_strict import SUBSTITUTE, is_finite

_REPLACED: Final = "\ufffd"
_DEEPEST: Final = 64  # the readers of some servers stop at 100 levels


def arguments_text(value: object) -> str:
    """Return arguments as JSON text. NaN and infinite numbers make the text invalid; they do not become null.

    >>> arguments_text({"city": "Porto"})
    '{"city":"Porto"}'
    >>> arguments_text({"limit": float("inf")})
    '{"limit": Infinity}'
    """
    text = dump_json(value)
    # The encoder writes null for NaN and infinity.
    if "null" in text and not is_finite(value):
        return json.dumps(value, ensure_ascii=False)
    return text


def sendable_arguments(arguments: str) -> str:
    r"""Return arguments as every server accepts them: unchanged if they are a JSON object, "{}" if blank.

    Any other text becomes the member `unparsed` of an object: also an object with a repeated key, with
    a number that no float can hold, or with more than 64 levels, which not every server reads.

    >>> sendable_arguments('{"city": "Porto"}'), sendable_arguments("")
    ('{"city": "Porto"}', '{}')
    >>> sendable_arguments('{"city": "Por')
    '{"unparsed":"{\\"city\\": \\"Por"}'
    """
    if not arguments or arguments.isspace():
        return "{}"
    if is_plain_object(arguments):
        return arguments
    text = arguments.encode("utf-8", "replace").decode()  # without unpaired surrogates
    return json.dumps({"unparsed": text}, ensure_ascii=False, separators=(",", ":"))


def is_plain_object(text: str) -> bool:
    """Whether a text is a JSON object that every server reads as it is.

    >>> is_plain_object('{"city": "Porto"}'), is_plain_object("[1]"), is_plain_object('{"a": 1e999}')
    (True, False, False)
    """
    # The first reader refuses invalid Unicode, the second ambiguous objects.
    if not isinstance(read_strict_json(text), dict):
        return False
    try:
        return not _is_too_deep(text, json_strict.read_strict_json(text))
    except json_strict.NotJson:
        return False


def _is_too_deep(text: str, value: object) -> bool:
    if text.count("{") + text.count("[") <= _DEEPEST:
        return False
    level: list[object] = [value]
    for _ in range(_DEEPEST):
        level = [inner for one in level for inner in _iterate_children(one)]
        if not level:
            return False
    return True


def _iterate_children(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def spoil_mended(out: list[Delta], start: int) -> None:
    """Make the arguments invalid JSON in which a character was replaced.

    Args:
        out: the deltas.
        start: the index of the first delta that comes from repaired text.
    """
    for at in range(start, len(out)):
        delta = out[at]
        if isinstance(delta, ToolCallDelta) and _REPLACED in delta.arguments:
            spoiled = delta.arguments.replace(_REPLACED, SUBSTITUTE)
            out[at] = replace(delta, arguments=spoiled)


def drop_repetitions(pieces: Sequence[str]) -> str | None:
    """Return the arguments of a call whose pieces repeat earlier ones; None without a proof.

    The joined pieces must not be JSON, since then they are the arguments. There are two proofs: the
    last piece is a JSON object, and each piece begins with the one before it, or the last one with all
    before it; or the joined text is one JSON object several times. An empty object proves nothing: some
    servers send it before the arguments. It takes linear time.

    Args:
        pieces: the pieces of the arguments, as they were streamed.

    >>> drop_repetitions(['{"city": ', '{"city": "Por', '{"city": "Porto"}'])
    '{"city": "Porto"}'
    >>> drop_repetitions(['{"city": "Porto"}', '{"city": "Porto"}'])
    '{"city": "Porto"}'
    >>> drop_repetitions(['{"city": "Porto"}', '{"city": "Faro"}'])
    """
    pieces = [piece for piece in pieces if piece]
    text = "".join(pieces)
    if read_strict_json(text) is not UNREADABLE:
        return None
    if len(pieces) > 1 and _is_filled_object(pieces[-1]):
        if all(later.startswith(earlier) for earlier, later in pairwise(pieces)):
            return pieces[-1]
        if pieces[-1].startswith(text[: -len(pieces[-1])]):
            return pieces[-1]
    return _find_repeated_object(text)


def _find_repeated_object(text: str) -> str | None:
    """Return the JSON object of which a text is several copies; they may differ in their white space."""
    first, copy, at = "", "", 0
    while at < len(text):
        try:
            value, end = json_strict.read_value_at(text, at)
        except json_strict.NotJson:
            return None
        if not first:
            first, copy = text[at:end], _to_comparable(value)
            if not _is_filled_object(first):
                return None
        elif _to_comparable(value) != copy:
            return None
        at = _BLANKS.match(text, end).end()  # type: ignore[union-attr]  # it matches anywhere
    return first or None


def _is_filled_object(text: str) -> bool:
    value = read_strict_json(text)
    return isinstance(value, dict) and bool(value)


def _to_comparable(value: object) -> str:
    """Return a text that distinguishes 1, 1.0 and True, which are equal in Python."""
    return json.dumps(value)


_BLANKS = re.compile(r"[ \t\r\n]*")


def grows_by_repeating(pieces: Sequence[str], begin: int = 1) -> bool:
    """Whether each piece from `begin` on begins with the one before it.

    >>> grows_by_repeating(["{", '{"a"', '{"a": 1}']), grows_by_repeating(["{", '"a"'])
    (True, False)
    """
    pairs = pairwise(pieces[at] for at in range(max(begin - 1, 0), len(pieces)))
    return all(later.startswith(earlier) for earlier, later in pairs)
