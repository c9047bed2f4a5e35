"""Converts the field names of Gemini objects from the SDK's spelling to the wire's.

The SDK writes `finish_reason` for the wire's `finishReason`. Names inside arguments and results
come from the model or a tool, so they stay unchanged. Values are never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from holdfast.calls.object_json import Object, to_json_value

_USER_DATA = frozenset({"args", "response"})


def to_wire_names(chunk: Mapping[str, object]) -> Object:
    """Return the object with the names of the wire and without the fields that are None.

    >>> to_wire_names({"candidates": [{"finish_reason": "STOP", "content": None}]})
    {'candidates': [{'finishReason': 'STOP'}]}
    >>> to_wire_names({"function_call": {"args": {"city_name": None}}})
    {'functionCall': {'args': {'city_name': None}}}
    """
    return {
        _to_camel_case(name): value
        if type(value) is str or name in _USER_DATA
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
    """Convert values that a dictionary made from an SDK's object may hold: bytes, enums, objects."""
    converted = to_json_value(value)
    return _rename_fields(converted) if isinstance(converted, dict | list) else converted


@lru_cache(maxsize=512)
def _to_camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)
