"""The text of a call's arguments: as it is read from a reply, and as it goes back to a provider.

Arguments that were repaired, or that JSON cannot express, are made invalid JSON.

A reader replaces bytes that are not UTF-8, because a reply with a wrong character is better than no
reply. A tool must never run with such arguments. This module puts a character into them that JSON
allows nowhere unescaped, so that every later reader rejects them, after a restart too. Servers refuse
a history with invalid arguments, so such a text goes back inside of a JSON object.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from holdfast.codecs.json_text import dump_json, read_strict_json
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
    if _is_plain_object(arguments):
        return arguments
    text = arguments.encode("utf-8", "replace").decode()  # without unpaired surrogates
    return json.dumps({"unparsed": text}, ensure_ascii=False, separators=(",", ":"))


def _is_plain_object(text: str) -> bool:
    # The first reader refuses invalid Unicode, the second what is ambiguous.
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
