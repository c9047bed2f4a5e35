"""Makes the arguments of a call invalid JSON if they were repaired or if JSON cannot express them.

A reader replaces bytes that are not UTF-8, because a reply with a wrong character is better than no
reply. A tool must never run with such arguments. This module puts a character into them that JSON
allows nowhere unescaped, so that every later reader rejects them, after a restart too.
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
