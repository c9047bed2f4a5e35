"""Checks whether a value has the type that a signature declares, as far as an entry point checks it."""

from __future__ import annotations

import collections.abc
import inspect
import os
import types
from collections.abc import Callable, Iterable, Mapping
from typing import (
    Any,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)


def declared(entry: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of the parameters of a class or a function."""
    fields = hasattr(entry, "__struct_fields__") or hasattr(entry, "__dataclass_fields__")
    plain = inspect.isclass(entry) and not fields
    return get_type_hints(entry.__init__ if plain else entry)


def fits(wanted: Any, value: Any) -> bool:
    """Whether `value` is of the type; numbers must be from 0 and below 2**63, a bool is no number."""
    origin, inner = get_origin(wanted), get_args(wanted)
    if wanted in (Any, object) or isinstance(wanted, TypeVar):
        return True
    if origin in (Union, types.UnionType):
        return any(fits(one, value) for one in inner)
    if origin is Literal:
        return isinstance(value, str) and value in inner
    if origin is collections.abc.Callable:
        return callable(value)
    if wanted in (int, float):
        kinds = (int,) if wanted is int else (int, float)
        number = isinstance(value, kinds) and not isinstance(value, bool)
        return number and 0 <= value < 2**63
    if inspect.isclass(origin) and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(
            fits(inner[0], name) and fits(inner[1], one) for name, one in value.items()
        )
    if inspect.isclass(origin) and issubclass(origin, Iterable):
        listed = isinstance(value, Iterable) and not isinstance(value, str | bytes)
        return listed and all(fits(inner[0], one) for one in value)
    return _is_one(origin or wanted, value)


def _is_one(kind: Any, value: object) -> bool:
    if is_typeddict(kind):
        return isinstance(value, dict)
    if kind is os.PathLike:
        return isinstance(value, os.PathLike)
    if getattr(kind, "_is_protocol", False):
        methods = [name for name in vars(kind) if not name.startswith("_")]
        return not isinstance(value, type) and all(hasattr(value, name) for name in methods)
    return isinstance(value, kind)
