"""Constraints of msgspec in annotations, in a form that pydantic checks.

pydantic ignores metadata that it does not know, so a constraint would be lost without a word. This
module must never drop a constraint: one that it cannot convert is an error.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from pydantic import AwareDatetime, Field, NaiveDatetime
from pydantic.fields import FieldInfo

from holdfast.core.errors import ConfigurationError

_CHECKS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length")
_WORDS = ("title", "description", "examples")


def convert_constraints(kind: Any, argument: str) -> Any:
    """Return a type with every `msgspec.Meta` replaced by the field of pydantic that says the same.

    Args:
        kind: the type.
        argument: where it was given, for errors.

    Raises:
        ConfigurationError: a field of a class has such a constraint; only its author can change it.

    >>> convert_constraints(Annotated[int, msgspec.Meta(gt=0)], "output").__metadata__
    (FieldInfo(annotation=NoneType, required=True, metadata=[Gt(gt=0)]),)
    >>> convert_constraints(list[int], "output")
    list[int]
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        base, *metadata = inner
        converted = [new for one in metadata for new in _convert_metadata(one, base, argument)]
        return Annotated[convert_constraints(base, argument), *converted]
    if origin is Literal or not inner:
        _refuse_constrained_fields(kind, argument, set())
        return kind
    parts = tuple(
        one if isinstance(one, list) else convert_constraints(one, argument) for one in inner
    )
    if all(new is old for new, old in zip(parts, inner, strict=True)):
        return kind
    if origin in (Union, types.UnionType):
        return Union[parts]  # noqa: UP007  # at run time
    return origin[parts]


def _convert_metadata(metadata: object, base: object, argument: str) -> list[object]:
    """Return the metadata of pydantic that says the same as one of a type."""
    if not isinstance(metadata, msgspec.Meta):
        return [metadata]
    if metadata.tz is None:
        return [_to_field(metadata)]
    if base is not datetime:
        problem = "has a msgspec.Meta(tz=...) for a type that is not datetime, which is not checked"
        raise ConfigurationError(argument, problem, fix="Use it for datetime alone")
    return [_to_field(metadata), AwareDatetime if metadata.tz else NaiveDatetime]


def _to_field(meta: msgspec.Meta) -> FieldInfo:
    given = {name: getattr(meta, name) for name in (*_CHECKS, *_WORDS)}
    known: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    field: FieldInfo = Field(**known, json_schema_extra=meta.extra_json_schema)
    return field


def _refuse_constrained_fields(kind: object, argument: str, seen: set[object]) -> None:
    """Raise ConfigurationError if a class, or a class in its fields, has constraints of msgspec."""
    if not isinstance(kind, type) or kind in seen or not _has_fields(kind):
        return
    seen.add(kind)
    try:
        hints = get_type_hints(kind, include_extras=True)
    except Exception:  # noqa: BLE001  # REASON: pydantic reports annotations that cannot be read
        return
    for name, hint in hints.items():
        for part in _iter_parts(hint):
            if isinstance(part, msgspec.Meta):
                problem = (
                    f"the field {kind.__name__}.{name} has a msgspec.Meta, which is not checked"
                )
                fix = "Use pydantic.Field or annotated_types in fields"
                raise ConfigurationError(argument, problem, fix=fix)
            _refuse_constrained_fields(part, argument, seen)


def _has_fields(kind: type) -> bool:
    is_struct = issubclass(kind, msgspec.Struct)  # pydantic reports that it cannot be used
    return not is_struct and hasattr(kind, "__annotations__")


def _iter_parts(kind: object) -> Iterator[object]:
    """Yield a type, its parts and its metadata."""
    yield kind
    for part in get_args(kind):
        yield from _iter_parts(part)
