"""Gemini objects in the spelling of Python, put back into the spelling of the wire.

The SDK writes `finish_reason` where the wire has `finishReason`. What the model or a tool wrote is
nobody's field name and stays as it is. This module must never change a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from holdfast.calls.object_json import Object, to_json_value

_WRITTEN_BY_OTHERS = frozenset({"args", "response"})


def to_wire_names(chunk: Mapping[str, object]) -> Object:
    """The same object with the names of the wire, without the fields that hold nothing.

    >>> to_wire_names({"candidates": [{"finish_reason": "STOP", "content": None}]})
    {'candidates': [{'finishReason': 'STOP'}]}
    >>> to_wire_names({"function_call": {"args": {"city_name": None}}})
    {'functionCall': {'args': {'city_name': None}}}
    """
    return {
        _to_camel_case(name): value
        if type(value) is str or name in _WRITTEN_BY_OTHERS
        else _rename_fields(value)
        for name, value in chunk.items()
        if value is not None
    }


def _rename_fields(value: object) -> object:
    kind = type(value)
    if kind is dict:
        return to_wire_names(value)  # type: ignore[arg-type]  # is a dictionary
    if kind is list:
        return [_rename_fields(inner) for inner in value]  # type: ignore[attr-defined]  # is a list
    return value if kind in _AS_THEY_ARE else _convert_value(value)


_AS_THEY_ARE = frozenset({str, int, float, bool})


def _convert_value(value: object) -> object:
    """What a dictionary may hold that a user made of an SDK's object: bytes, enums, objects."""
    found = to_json_value(value)
    return _rename_fields(found) if isinstance(found, dict | list) else found


@lru_cache(maxsize=512)
def _to_camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)
