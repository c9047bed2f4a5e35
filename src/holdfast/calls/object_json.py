"""An object of anybody's SDK as the JSON that it was made of.

Objects say themselves what they are by `model_dump`, `to_dict` or `dict`; those that cannot are
read by their own values. An attribute that exists and holds nothing is as good as absent. This
module must never run a property of a foreign object, and must never follow a value in a circle.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from enum import Enum
from typing import TypeAlias

Object: TypeAlias = dict[str, object]

_WAYS = ("to_dict", "dict")
_DEEPEST = 30
_NOTHING: Mapping[str, object] = {}


def to_json_object(thing: object) -> Object | None:
    """The JSON form of one chunk or response; None when it has none.

    >>> from types import SimpleNamespace
    >>> to_json_object(SimpleNamespace(text="Hi", parts=None, _private=1))
    {'text': 'Hi'}
    >>> to_json_object("Hi") is None
    True
    """
    if isinstance(thing, dict):
        return thing
    if isinstance(thing, Mapping):
        return {str(name): value for name, value in thing.items()}
    found = _dump_object(thing)
    if found is not None or isinstance(thing, _NO_OBJECTS):
        return found
    return _dump_attributes(thing, frozenset())


def own_values(thing: object) -> Mapping[str, object]:
    """The dictionary of an object, or an empty one."""
    own = getattr(thing, "__dict__", None)
    return own if isinstance(own, dict) else _NOTHING


def declared_fields(thing: object) -> Mapping[str, object]:
    """The fields that an object's class promises, or that a dictionary has."""
    if isinstance(thing, Mapping):
        return thing
    fields = getattr(type(thing), "model_fields", None)
    return fields if isinstance(fields, Mapping) else own_values(thing)


def _dump_object(thing: object) -> Object | None:
    dump = getattr(thing, "model_dump", None)
    if callable(dump):
        # The helpers of some SDKs put everything that came so far beside each piece.
        beside = {"snapshot"} if "snapshot" in own_values(thing) else None
        try:
            found = dump(
                mode="json", by_alias=True, exclude_none=True, exclude=beside, warnings=False
            )
        except TypeError:
            # Not the method that we know by this name.
            found = None
        if isinstance(found, dict):
            return found
    for way in _WAYS:
        dump = getattr(thing, way, None)
        if callable(dump) and isinstance(found := dump(), dict):
            return found
    return None


_NO_OBJECTS = (str, bytes, bytearray, int, float, complex, type(None), list, tuple, type)


def _dump_attributes(thing: object, above: frozenset[int]) -> Object | None:
    own = own_values(thing)
    if callable(thing) and not own:
        return None
    above |= {id(thing)}
    values = {
        name: to_json_value(value, above)
        for name, value in own.items()
        if value is not None and not name.startswith("_")
    }
    # Which fields an object has says what it is, even where they hold nothing.
    empty = {name: None for name in _TELLING if name in own and own[name] is None}
    return {**values, **empty} if len(above) == 1 else values


_TELLING = ("candidates", "choices", "output", "content")


def to_json_value(value: object, above: frozenset[int] = frozenset()) -> object:
    """A value as JSON has it: bytes in base64, an enum by its value, an object by its fields."""
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
    found = _dump_object(value)
    return found if found is not None else _dump_attributes(value, above)
