"""The limits of a schema that a caller passes, the check of its size, and the budget of steps.

The check of the size comes before everything else. A thread cannot be stopped from outside, and while
it computes, the other threads of the process wait for it. So work whose size somebody else decides
counts its own steps. Counting is deterministic: the same input stops at the same step on every
machine. This module must never read the meaning of a schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from holdfast.core.errors import ConfigurationError
from holdfast.core.printable import escape_invisible

Trail: TypeAlias = tuple[Any, ...]
"""The place of a part: the trail of its owner and its own name; () at the top."""

_LARGEST_INTEGER = 2**64
_SMALLEST_INTEGER = -(2**63)
_LONGEST_STEP = 40
_MOST_STEPS = 12
_FIX = "Leave parts of it out, or say them in the instructions"

COMPILE_STEPS: Final = 200_000
"""Steps that the compilation of one schema may take."""

CHECK_STEPS: Final = 250_000
"""Steps that the check of one reply may take, over all the values that are found in it."""


class SchemaLimits(Struct, frozen=True):
    """How large a schema may be.

    Args:
        bytes: bytes of its JSON text.
        nodes: JSON values in it: objects, lists, texts, numbers, booleans and nulls.
        depth: how deeply objects and lists are nested.
        references: uses of `$ref`, `$dynamicRef` and `$recursiveRef`.
        alternatives: parts of one `anyOf`, `oneOf` or `allOf`.
    """

    bytes: int
    nodes: int
    depth: int
    references: int
    alternatives: int = 1_000


OUTPUT_LIMITS: Final = SchemaLimits(bytes=256 * 1024, nodes=20_000, depth=64, references=2_000)
"""The limits of a schema of an output."""

TOOL_LIMITS: Final = SchemaLimits(bytes=64 * 1024, nodes=2_000, depth=64, references=500)
"""The limits of the schema of a tool that a caller runs."""

_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_CHOICES = frozenset({"anyOf", "oneOf", "allOf"})
_CONTAINERS = (dict, list, tuple)


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
    if len(schema) > limits.nodes:
        raise _too_large(argument, (), limits.nodes, "JSON values")
    plain = dict(schema)
    _SizeCount(argument, limits).count(plain)
    try:
        text = msgspec.json.encode(plain)
        copy: dict[str, object] = msgspec.json.decode(text)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ConfigurationError(argument, f"cannot be written as JSON: {error}") from None
    if len(text) > limits.bytes:
        raise _too_large(argument, (), limits.bytes, "bytes")
    return copy


class _SizeCount:
    """Counts the values of a schema, and stops at the place at which a limit is passed."""

    def __init__(self, argument: str, limits: SchemaLimits) -> None:
        self._argument = argument
        self._limits = limits
        self._waiting: list[tuple[Any, int, Trail]] = []
        self._nodes, self._references, self._characters = 1, 0, 0

    def count(self, schema: dict[str, object]) -> None:
        """Raise ConfigurationError if there are too many values, levels, references or characters."""
        self._waiting.append((schema, 1, ()))
        while self._waiting:
            value, depth, trail = self._waiting.pop()
            self._nodes += len(value)
            if self._nodes > self._limits.nodes:
                raise self._refuse(trail, self._limits.nodes, "JSON values")
            if depth > self._limits.depth:
                raise self._refuse(trail, self._limits.depth, "levels of nesting")
            if not isinstance(value, dict):
                self._check_alternatives(value, trail)
                self._count_inner(enumerate(value), depth, trail)
            else:
                self._count_inner(value.items(), depth, trail)
                if not _REFERENCES.isdisjoint(value):
                    self._references += len(_REFERENCES & value.keys())
                    if self._references > self._limits.references:
                        raise self._refuse(trail, self._limits.references, "references")

    def _check_alternatives(self, value: Any, trail: Trail) -> None:
        """Refuse a choice of more parts than a provider reads, whose conversion would take long."""
        most = self._limits.alternatives
        if len(value) > most and trail[1] in _CHOICES:
            raise self._refuse(trail, most, "parts in one anyOf, oneOf or allOf")

    def _count_inner(self, named: Iterable[tuple[object, Any]], depth: int, trail: Trail) -> None:
        for name, inner in named:
            if isinstance(name, str):
                self._characters += len(name)
            if isinstance(inner, str):
                self._characters += len(inner)
            elif isinstance(inner, _CONTAINERS):
                self._waiting.append((inner, depth + 1, (trail, name)))
            elif not isinstance(inner, bool):
                self._check_number(inner, (trail, name))
            if self._characters > self._limits.bytes:
                raise self._refuse((trail, name), self._limits.bytes, "bytes")

    def _check_number(self, value: object, trail: Trail) -> None:
        is_large = isinstance(value, int) and not _SMALLEST_INTEGER <= value < _LARGEST_INTEGER
        if is_large or (isinstance(value, float) and not isfinite(value)):
            problem = f"holds a number that is too large, at {write_place(trail)}"
            fix = "Leave the number out: integers have at most 64 bits"
            raise ConfigurationError(self._argument, problem, fix=fix)

    def _refuse(self, trail: Trail, limit: int, unit: str) -> ConfigurationError:
        return _too_large(self._argument, trail, limit, unit)


def _too_large(argument: str, trail: Trail, limit: int, unit: str) -> ConfigurationError:
    problem = f"is too large: a schema may have at most {limit:,} {unit}"
    where = f"; they end at {write_place(trail)}" if trail else ""
    return ConfigurationError(argument, problem + where, fix=_FIX)


def write_place(trail: Trail) -> str:
    """Return a place as a JSON pointer for a message; a long one is shortened.

    >>> write_place(((((), "properties"), "a/b"), "enum"))
    '/properties/a~1b/enum'
    >>> write_place(())
    'the top'
    """
    steps: list[str] = []
    while trail:
        trail, name = trail
        is_huge = isinstance(name, int) and name.bit_length() > 63
        text = "..." if is_huge else str(name)
        more = "..." if len(text) > _LONGEST_STEP else ""
        step = text[:_LONGEST_STEP].replace("~", "~0").replace("/", "~1")
        steps.append(f"/{escape_invisible(step)}{more}".replace("\n", "\\n"))
    steps.reverse()
    if len(steps) > _MOST_STEPS:
        half = _MOST_STEPS // 2
        steps[half:-half] = ["/..."]
    return "".join(steps) or "the top"


class StepsExceededError(Exception):
    """The work took more steps than its budget has."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"more than {limit:,} steps")
        self.limit = limit


class StepBudget:
    """How many steps some work may still take.

    Args:
        limit: the number of steps.

    >>> budget = StepBudget(3)
    >>> budget.take(2)
    >>> budget.used
    2
    """

    __slots__ = ("left", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.left = limit

    @property
    def used(self) -> int:
        """How many steps were taken."""
        return self.limit - self.left

    def take(self, steps: int = 1) -> None:
        """Count steps before they are taken. Raises StepsExceededError if they are too many."""
        self.left -= steps
        if self.left < 0:
            raise StepsExceededError(self.limit)
