"""Reads slightly invalid JSON, and writes values as JSON text.

Servers send invalid UTF-8, unpaired surrogate escapes and `NaN`. These are replaced, so that the
reply is not lost. This module never completes truncated JSON: it is unreadable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct

_ESCAPE = re.compile(
    r"\\(?:(?P<pair>u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)

_decode = msgspec.json.decode
_encode = msgspec.json.encode


class Unreadable:
    """The result of `read_json` for text that is not JSON; `None` is a JSON value."""


UNREADABLE = Unreadable()


class JsonReader(Struct, eq=False):
    r"""Reads the JSON texts of one body.

    Attributes:
        has_mended: whether the last value was repaired: U+FFFD replaces bytes that are not UTF-8 and
            unpaired surrogates.

    >>> reader = JsonReader()
    >>> reader.read(b'{"a": "\xff"}') == {"a": "\ufffd"}, reader.has_mended
    (True, True)
    >>> reader.read(b'{"a": 1}'), reader.has_mended
    ({'a': 1}, False)
    """

    has_mended: bool = False

    def read(self, data: bytes) -> object:
        """Return the value of a JSON text, or UNREADABLE; never raises."""
        self.has_mended = False
        try:
            return _decode(data)
        except (ValueError, RecursionError):
            # UnicodeDecodeError and the errors of msgspec are ValueErrors.
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
    r"""Return the value of a JSON text, or UNREADABLE; never raises.

    >>> read_json(b'{"a": 1}')
    {'a': 1}
    >>> read_json(b'{"a": "\xff"}') == {"a": "\ufffd"}
    True
    >>> read_json(b'{"a": ') is UNREADABLE
    True
    """
    return JsonReader().read(data)


def read_strict_json(text: str) -> object:
    """Return the value of a valid JSON text, or UNREADABLE without any repair; never raises."""
    try:
        return _decode(text)
    except (ValueError, RecursionError):
        return UNREADABLE


def _replace_half_pair(match: re.Match[str]) -> str:
    return "\\ufffd" if match["half"] else match[0]


def dump_json(value: object) -> str:
    """Return a JSON value as text; NaN, infinity and a value that nests too deep become null.

    >>> dump_json({"city": "Porto"})
    '{"city":"Porto"}'
    """
    try:
        return _encode(value).decode()
    except RecursionError:
        return "null"


def string_or_empty(value: object) -> str:
    """Return a string unchanged, and "" for any other value."""
    return value if isinstance(value, str) else ""


def read_count(values: Mapping[str, object], *names: str) -> int:
    """Return the first value of `names` that is a positive integer (at most 2**53); 0 without one.

    >>> read_count({"tokens": 3.0}, "total", "tokens"), read_count({"tokens": "many"}, "tokens")
    (3, 0)
    """
    for name in names:
        value = values.get(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return min(value, 2**53)
    return 0


_TIERS = {
    "batch": "batch",
    "fast": "fast",
    "flex": "flex",
    "on_demand_flex": "flex",
    "on_demand_priority": "priority",
    "priority": "priority",
    "provisioned": "provisioned",
    "provisioned_throughput": "provisioned",
    "scale": "provisioned",
}


def read_tier(*words: object) -> str:
    """Return the first service tier that a provider names and charges in its own way; "" for the standard one.

    >>> read_tier(None, "PROVISIONED_THROUGHPUT"), read_tier("default"), read_tier("flex")
    ('provisioned', '', 'flex')
    """
    for word in words:
        if isinstance(word, str) and (tier := _TIERS.get(word.lower())):
            return tier
    return ""


def json_kind(value: object) -> str:
    """Return the JSON name of a value's type, for errors that must not show the value.

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
