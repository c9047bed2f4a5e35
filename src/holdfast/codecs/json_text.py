"""JSON as it should not be, read as far as it can be trusted; and values written back as text.

Servers send characters that are cut in two, half an emoji as an escape, `NaN`. None of that is a
reason to lose a reply. This module must never guess the end of text that was cut: JSON that is
not whole stays unreadable.
"""

from __future__ import annotations

import json
import re

import msgspec

_ESCAPE = re.compile(
    r"\\(?:(?P<pair>u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)

_decode = msgspec.json.decode
_encode = msgspec.json.encode


class Unreadable:
    """What `read_json` gives for text that is no JSON; `None` is a JSON value."""


UNREADABLE = Unreadable()


class JsonReader:
    r"""Reads the JSON texts of one body.

    Attributes:
        has_mended: whether U+FFFD stands in the last value for bytes that are not UTF-8, or for half a
            surrogate pair.

    >>> reader = JsonReader()
    >>> reader.read(b'{"a": "\xff"}') == {"a": "\ufffd"}, reader.has_mended
    (True, True)
    >>> reader.read(b'{"a": 1}'), reader.has_mended
    ({'a': 1}, False)
    """

    __slots__ = ("has_mended",)

    def __init__(self) -> None:
        self.has_mended = False

    def read(self, data: bytes) -> object:
        """The value of a JSON text, or UNREADABLE; never raises."""
        self.has_mended = False
        try:
            return _decode(data)
        except (ValueError, RecursionError):
            # UnicodeDecodeError is a ValueError, and so is what msgspec raises.
            return self._read_mended(data)

    def _read_mended(self, data: bytes) -> object:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text, self.has_mended = data.decode("utf-8", "replace"), True
        mended = _ESCAPE.sub(_replace_half_pair, text)
        self.has_mended |= mended != text
        try:
            return json.loads(mended, strict=False)
        except (ValueError, RecursionError):
            return UNREADABLE


def read_json(data: bytes) -> object:
    r"""The value of a JSON text, or UNREADABLE; never raises.

    >>> read_json(b'{"a": 1}')
    {'a': 1}
    >>> read_json(b'{"a": "\xff"}') == {"a": "\ufffd"}
    True
    >>> read_json(b'{"a": ') is UNREADABLE
    True
    """
    return JsonReader().read(data)


def read_strict_json(text: str) -> object:
    """The value of a JSON text that must be right as it stands, or UNREADABLE; never raises."""
    try:
        return _decode(text)
    except (ValueError, RecursionError):
        return UNREADABLE


def _replace_half_pair(match: re.Match[str]) -> str:
    return "\\ufffd" if match["half"] else match[0]


def dump_json(value: object) -> str:
    """A JSON value as text; what JSON has no form for, or nests too deep, becomes null.

    >>> dump_json({"city": "Porto"})
    '{"city":"Porto"}'
    """
    try:
        return _encode(value).decode()
    except RecursionError:
        return "null"


def json_kind(value: object) -> str:
    """The JSON word for a value's kind, for an error that must not show the value.

    >>> json_kind([1]), json_kind(None), json_kind("secret")
    ('array', 'null', 'string')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    for kind, name in ((str, "string"), (list, "array"), (dict, "object")):
        if isinstance(value, kind):
            return name
    return "number"
