"""Converts an object of any SDK back to the JSON that it was made from.

Objects are converted by their `model_dump`, `to_dict` or `dict`; an object without these is read by
its attributes and slots. Only if none of them is a field of a response, the attributes of its class
that have the name of such a field are read, and their properties are run. An attribute that is None
counts as missing. This module stops at cyclic references.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from enum import Enum
from functools import cached_property
from types import MemberDescriptorType
from typing import TypeAlias

Object: TypeAlias = dict[str, object]

_DUMP_METHODS = ("to_dict", "dict")
_DEEPEST = 30
_NOTHING: Mapping[str, object] = {}


def to_json_object(source: object) -> Object | None:
    """Return the JSON form of one chunk or response; None if it has none.

    >>> from types import SimpleNamespace
    >>> to_json_object(SimpleNamespace(text="Hi", parts=None, _private=1))
    {'text': 'Hi'}
    >>> to_json_object("Hi") is None
    True
    """
    if isinstance(source, dict):
        return source
    if isinstance(source, Mapping):
        return {str(name): value for name, value in source.items()}
    dumped = _dump_object(source)
    if dumped is not None or isinstance(source, _NO_OBJECTS):
        return dumped
    return _dump_attributes(source, frozenset())


def own_values(source: object) -> Mapping[str, object]:
    """Return the `__dict__` of an object, or an empty mapping."""
    values = getattr(source, "__dict__", None)
    return values if isinstance(values, dict) else _NOTHING


def declared_fields(source: object) -> Mapping[str, object]:
    """Return the fields that an object's class declares, or the keys of a dictionary."""
    if isinstance(source, Mapping):
        return source
    fields = getattr(type(source), "model_fields", None)
    return fields if isinstance(fields, Mapping) else own_values(source)


def _dump_object(source: object) -> Object | None:
    dump = getattr(source, "model_dump", None)
    if callable(dump):
        # The helpers of some SDKs add everything that came so far to each piece.
        excluded = {"snapshot"} if "snapshot" in own_values(source) else None
        try:
            dumped = dump(
                mode="json", by_alias=True, exclude_none=True, exclude=excluded, warnings=False
            )
        except TypeError:
            # The method has another signature than pydantic's.
            dumped = None
        if isinstance(dumped, dict):
            return dumped
    for name in _DUMP_METHODS:
        dump = getattr(source, name, None)
        if callable(dump) and isinstance(dumped := dump(), dict):
            return dumped
    return None


_NO_OBJECTS = (str, bytes, bytearray, int, float, complex, type(None), list, tuple, type)


def _dump_attributes(source: object, above: frozenset[int]) -> Object | None:
    attributes = _all_values(source)
    if callable(source) and not attributes:
        return None
    above |= {id(source)}
    values = {
        name: to_json_value(value, above)
        for name, value in attributes.items()
        if value is not None and not name.startswith("_")
    }
    # These fields show the type of an object even if they are empty.
    empty = {name: None for name in _TYPE_FIELDS if name in attributes and attributes[name] is None}
    return {**values, **empty} if len(above) == 1 else values


def _all_values(source: object) -> Mapping[str, object]:
    """Return the attributes and slots of an object.

    If none of them is a field of a response, those that its class has by a known name are added. So
    the convenience properties of an SDK's object, which may raise or warn, are not run.
    """
    own = own_values(source)
    kinds = type(source).__mro__[:-1]
    slots = {
        name: getattr(source, name)
        for kind in kinds
        for name, member in vars(kind).items()
        if isinstance(member, MemberDescriptorType) and name[0] != "_" and hasattr(source, name)
    }
    values = {**slots, **own} if slots else own
    if not _RESPONSE_FIELDS.isdisjoint(values):
        return values
    names = {
        name
        for kind in kinds
        for name, value in vars(kind).items()
        if name in _RESPONSE_FIELDS and _is_value_of_class(value)
    }
    return {**values, **{name: getattr(source, name, None) for name in names}}


def _is_value_of_class(value: object) -> bool:
    """Whether a class attribute is a property, or a value that all instances share."""
    if isinstance(value, property | cached_property):
        return True
    return not callable(value) and not hasattr(value, "__get__")


_RESPONSE_FIELDS = frozenset(
    {
        "candidates",
        "choices",
        "content",
        "delta",
        "error",
        "finish_reason",
        "function_call",
        "message",
        "name",
        "output",
        "output_text",
        "parts",
        "refusal",
        "role",
        "stop_reason",
        "text",
        "tool_calls",
        "type",
    }
)
"""The names of the attributes of a class that are read."""

_TYPE_FIELDS = ("candidates", "choices", "output", "content")


def to_json_value(value: object, above: frozenset[int] = frozenset()) -> object:
    """Convert a value to JSON types: bytes to base64, an enum to its value, an object to its fields."""
    if value is None or isinstance(value, bool | int | float) or type(value) is str:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes | bytearray):
        return binascii.b2a_base64(value, newline=False).decode()
    if isinstance(value, str):
        return str(value)
    if id(value) in above or len(above) >= _DEEPEST:
        return None
    inside = above | {id(value)}
    if isinstance(value, list | tuple):
        return [to_json_value(inner, inside) for inner in value]
    if isinstance(value, Mapping):
        return {str(name): to_json_value(inner, inside) for name, inner in value.items()}
    dumped = _dump_object(value)
    return dumped if dumped is not None else _dump_attributes(value, above)
