"""Reads the arguments and the results of tools as values that a user interface can show."""

from __future__ import annotations

import msgspec

from holdfast.core.messages import ToolResult


def parse_arguments(text: str) -> dict[str, object] | None:
    """Return the arguments of a call; None if the text is not a JSON object.

    >>> parse_arguments('{"a": 1}'), parse_arguments(""), parse_arguments("[]")
    ({'a': 1}, {}, None)
    """
    if not text.strip():
        return {}
    try:
        value: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_result(result: ToolResult) -> object:
    """Return the value of a result: an object or a list that was written as JSON, otherwise its text.

    >>> from holdfast.core.messages import Text
    >>> read_result(ToolResult("c", "t", (Text('{"a": 1}'),))), read_result(ToolResult("c", "t", (Text("5"),)))
    ({'a': 1}, '5')
    """
    text = result.text
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        value: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
    return value
