"""The limits of a schema that a caller passes, and the check of its size, which comes before everything else.

This module must never read what a schema means.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.core.errors import ConfigurationError

_LARGEST_INTEGER = 2**64
_SMALLEST_INTEGER = -(2**63)
_FIX = "Leave parts of it out, or say them in the instructions"


class SchemaLimits(Struct, frozen=True):
    """How large a schema may be.

    Args:
        bytes: bytes of its JSON text.
        nodes: JSON values in it: objects, lists, texts, numbers, booleans and nulls.
        depth: how deeply objects and lists are nested.
        references: uses of `$ref`, `$dynamicRef` and `$recursiveRef`.
    """

    bytes: int
    nodes: int
    depth: int
    references: int


OUTPUT_LIMITS: Final = SchemaLimits(bytes=256 * 1024, nodes=50_000, depth=64, references=2_000)
"""The limits of a schema of an output."""

TOOL_LIMITS: Final = SchemaLimits(bytes=64 * 1024, nodes=2_000, depth=64, references=500)
"""The limits of the schema of a tool that a caller runs."""

_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})


def check_schema_size(
    argument: str, schema: Mapping[str, object], limits: SchemaLimits
) -> dict[str, object]:
    """Return a copy of a schema as plain JSON data.

    Args:
        argument: the name of the schema in errors.
        schema: the schema.
        limits: how large it may be.

    Raises:
        ConfigurationError: it is too large, or is not JSON.

    >>> check_schema_size("schema", {"type": "object"}, TOOL_LIMITS)
    {'type': 'object'}
    """
    plain = dict(schema)
    _count_values(argument, plain, limits)
    try:
        text = msgspec.json.encode(plain)
        copy: dict[str, object] = msgspec.json.decode(text)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ConfigurationError(argument, f"cannot be written as JSON: {error}") from None
    if len(text) > limits.bytes:
        raise _too_large(argument, limits.bytes, "bytes")
    return copy


def _count_values(argument: str, schema: dict[str, object], limits: SchemaLimits) -> None:
    """Raise ConfigurationError if a schema has too many values, is nested too deeply or has too long texts."""
    waiting: list[tuple[object, int]] = [(schema, 1)]
    nodes, references, characters = 1, 0, 0
    while waiting:
        value, depth = waiting.pop()
        if depth > limits.depth:
            raise _too_large(argument, limits.depth, "levels of nesting")
        if isinstance(value, dict):
            inner: list[object] = list(value.values())
            references += len(_REFERENCES & value.keys())
            characters += sum(len(name) for name in value if isinstance(name, str))
        else:
            inner = list(value) if isinstance(value, list | tuple) else []
        nodes += len(inner)
        if nodes > limits.nodes:
            raise _too_large(argument, limits.nodes, "JSON values")
        for one in inner:
            if isinstance(one, dict | list | tuple):
                waiting.append((one, depth + 1))
            elif isinstance(one, str):
                characters += len(one)
            else:
                _check_number(argument, one)
        if characters > limits.bytes:
            raise _too_large(argument, limits.bytes, "bytes")
    if references > limits.references:
        raise _too_large(argument, limits.references, "references")


def _check_number(argument: str, value: object) -> None:
    is_large = isinstance(value, int) and not _SMALLEST_INTEGER <= value < _LARGEST_INTEGER
    if is_large or (isinstance(value, float) and not isfinite(value)):
        problem = "holds a number that is too large: integers have at most 64 bits"
        raise ConfigurationError(argument, problem, fix="Leave the number out")


def _too_large(argument: str, limit: int, unit: str) -> ConfigurationError:
    problem = f"is too large: a schema may have at most {limit:,} {unit}"
    return ConfigurationError(argument, problem, fix=_FIX)
