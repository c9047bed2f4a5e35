"""Arguments of calls that were mended on their way, or that JSON cannot hold: made malformed.

A reader may replace bytes that are not UTF-8, since a reply with a broken character is better than
no reply. A tool must never run with such arguments. They are spoiled here by a character that JSON
allows nowhere unescaped, so that every later reader refuses them, also one of a journal.
"""

from __future__ import annotations

import json
from typing import Final

from msgspec.structs import replace

from holdfast.codecs.json_text import dump_json
from holdfast.core.deltas import Delta, ToolCallDelta
from holdfast.core.json_strict import SUBSTITUTE, is_finite

_REPLACED: Final = "\ufffd"


def arguments_text(value: object) -> str:
    """Arguments as JSON text. Numbers that JSON cannot hold make it malformed, and not null.

    >>> arguments_text({"city": "Porto"})
    '{"city":"Porto"}'
    >>> arguments_text({"limit": float("inf")})
    '{"limit": Infinity}'
    """
    text = dump_json(value)
    # The encoder writes null for such a number.
    if "null" in text and not is_finite(value):
        return json.dumps(value, ensure_ascii=False)
    return text


def spoil_mended(out: list[Delta], start: int) -> None:
    """Make the arguments malformed in which a character was replaced.

    Args:
        out: the deltas; those from `start` on come from text that was mended.
        start: the first of them.
    """
    for at in range(start, len(out)):
        delta = out[at]
        if isinstance(delta, ToolCallDelta) and _REPLACED in delta.arguments:
            spoiled = delta.arguments.replace(_REPLACED, SUBSTITUTE)
            out[at] = replace(delta, arguments=spoiled)
