"""Gemini objects in the spelling of Python, put back into the spelling of the wire.

The SDK writes `finish_reason` where the wire has `finishReason`. What the model or a tool wrote is
nobody's field name and stays as it is. This module must never change a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from holdfast.sdk.plain import Object, json_value

_WRITTEN_BY_OTHERS = frozenset({"args", "response"})


def in_wire_names(chunk: Mapping[str, object]) -> Object:
    """The same object with the names of the wire, without the fields that hold nothing.

    >>> in_wire_names({"candidates": [{"finish_reason": "STOP", "content": None}]})
    {'candidates': [{'finishReason': 'STOP'}]}
    >>> in_wire_names({"function_call": {"args": {"city_name": None}}})
    {'functionCall': {'args': {'city_name': None}}}
    """
    return {
        _camel(name): value if type(value) is str or name in _WRITTEN_BY_OTHERS else _renamed(value)
        for name, value in chunk.items()
        if value is not None
    }


def _renamed(value: object) -> object:
    kind = type(value)
    if kind is dict:
        return in_wire_names(value)  # type: ignore[arg-type]  # is a dictionary
    if kind is list:
        return [_renamed(inner) for inner in value]  # type: ignore[attr-defined]  # is a list
    return value if kind in _AS_THEY_ARE else _again(value)


_AS_THEY_ARE = frozenset({str, int, float, bool})


def _again(value: object) -> object:
    """What a dictionary may hold that a user made of an SDK's object: bytes, enums, objects."""
    found = json_value(value)
    return _renamed(found) if isinstance(found, dict | list) else found


@lru_cache(maxsize=512)
def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)
