"""Converts validated arguments to JSON data, for hooks, rules and people.

Serializers, excluded fields and secrets of pydantic models do not hide anything here, because rules
must check the same values that the tool gets. A value that JSON cannot express raises an error.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from math import isfinite
from pathlib import PurePath
from typing import TypeAlias
from uuid import UUID

import msgspec
from pydantic import AnyUrl, BaseModel, RootModel, SecretStr
from pydantic_core import MultiHostUrl, Url, to_jsonable_python

Names: TypeAlias = Iterable[tuple[str, object, bool]]
"""Name and value of each field, and whether the model wrote it (otherwise it is a default)."""

_encode = msgspec.json.Encoder(order="deterministic").encode
_ATOMS = frozenset({str, bool, type(None)})
_PRINTED = (
    date, time, timedelta, Decimal, UUID, AnyUrl, Url, MultiHostUrl,
    IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network,
)  # fmt: skip
"""Types with one JSON form, which validates to an equal value again."""


class NotShowableError(ValueError):
    """A value that JSON cannot express, such as infinity."""


class UnknownKindError(ValueError):
    """A value of a class without a known JSON form."""


def json_data(value: object) -> object:
    """Convert a validated value to JSON data.

    Raises:
        NotShowableError: JSON cannot express the value.
        UnknownKindError: the value holds an object of an unknown class.

    >>> json_data({1: (True, {"b", "a"})})
    {'1': [True, ['a', 'b']]}
    """
    kind = type(value)
    if kind in _ATOMS or kind is int:
        return value
    if kind is float:
        return _finite(value)  # type: ignore[arg-type]  # REASON: mypy does not follow `kind`
    if isinstance(value, Enum):
        return json_data(value.value)
    if isinstance(value, Mapping):
        return _object(value)
    if isinstance(value, list | tuple | deque):
        return list(value) if _ATOMS.issuperset(map(type, value)) else [*map(json_data, value)]
    if isinstance(value, set | frozenset):
        # The order of a set differs between processes.
        return sorted(map(json_data, value), key=_encode)
    if isinstance(value, RootModel):
        return json_data(value.root)
    if isinstance(value, BaseModel):
        return fields_data(_of_model(value))
    if dataclasses.is_dataclass(value):
        return fields_data(_of_dataclass(value))
    return _scalar(value)


def fields_data(fields: Names) -> dict[str, object]:
    """Convert fields to a JSON object. A default that JSON cannot express is left out, as in the schema."""
    data: dict[str, object] = {}
    for name, value, is_set in fields:
        try:
            data[name] = json_data(value)
        except (NotShowableError, UnknownKindError):
            if is_set:
                raise
    return data


def _finite(value: float) -> float:
    if not isfinite(value):
        raise NotShowableError(str(value))
    return value


def _scalar(value: object) -> object:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    for plain in (str, int):
        if isinstance(value, plain):
            return plain(value)
    if isinstance(value, float):
        return _finite(float(value))
    if isinstance(value, Decimal) and not value.is_finite():
        raise NotShowableError(str(value))
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, _PRINTED):
        return to_jsonable_python(value)
    raise UnknownKindError(type(value).__name__)


def _object(value: Mapping[object, object]) -> dict[str, object]:
    data: dict[str, object] = {}
    for key, inner in value.items():
        name = key if type(key) is str else json_data(key)
        data[name if isinstance(name, str) else _encode(name).decode()] = json_data(inner)
    if len(data) != len(value):
        raise NotShowableError("an object with the same name twice")
    return data


def _of_model(value: BaseModel) -> Iterator[tuple[str, object, bool]]:
    set_fields = value.__pydantic_fields_set__
    values = value.__dict__
    for name in type(value).__pydantic_fields__:
        yield name, values[name], name in set_fields
    for name, inner in (value.__pydantic_extra__ or {}).items():
        yield name, inner, True


def _of_dataclass(value: object) -> Iterator[tuple[str, object, bool]]:
    for field in dataclasses.fields(value):  # type: ignore[arg-type]  # REASON: it is one
        if field.init:
            inner = getattr(value, field.name)
            yield field.name, inner, inner is not field.default
