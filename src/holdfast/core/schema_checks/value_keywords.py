"""The keywords of a schema that look at one value: its type, its size, its equality with others.

Values are equal as JSON is: 1 equals 1.0, and `true` equals no number. Each function compiles a keyword. This module
must never check a part of a value by another schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final, TypeAlias

from holdfast.core.schema_checks.schema_nodes import (
    DEEPEST,
    CheckState,
    Keyword,
    NestedTooDeeplyError,
    Path,
    shorten,
)

Compile: TypeAlias = Callable[[Any], Keyword]
"""Compiles the value of a keyword. Raises ValueError that says what is wrong with it."""

_NUMBERS = (int, float)


def make_key(value: object, state: CheckState) -> str:
    """Return a text that is equal for equal values only.

    A text and not a hash of Python: somebody can choose integers whose hashes are all the same.
    """
    if isinstance(value, str):
        state.budget.take(1 + len(value) // 256)
        return f'"{value}'
    if isinstance(value, dict | list):
        known = state.keys.get(id(value))
        if known is None:
            known = state.keys[id(value)] = _make_key_of_parts(value, state)
        state.budget.take(1 + len(known) // 256)
        return known
    state.budget.take()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or value is None or isinstance(value, float):
        return repr(value)
    return f"{value:x}"


def _make_key_of_parts(value: dict[str, object] | list[object], state: CheckState) -> str:
    if state.depth >= DEEPEST:
        raise NestedTooDeeplyError
    state.depth += 1
    parts: list[str] = []
    if isinstance(value, list):
        for item in value:
            parts.append(make_key(item, state))  # noqa: PERF401  # REASON: a comprehension would be one nested call more
    else:
        for name in sorted(value):
            parts += (name, make_key(value[name], state))
    state.depth -= 1
    lengths = ",".join([str(len(part)) for part in parts])
    return f"{'[' if isinstance(value, list) else '{'}{lengths}:{''.join(parts)}"


def is_number(value: object) -> bool:
    """Whether a value is a number of JSON."""
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


def is_integer(value: object) -> bool:
    """Whether a value is a number without a fraction."""
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


TYPES: Final[Mapping[str, Callable[[object], bool]]] = {
    "array": lambda value: isinstance(value, list),
    "boolean": lambda value: isinstance(value, bool),
    "integer": is_integer,
    "null": lambda value: value is None,
    "number": is_number,
    "object": lambda value: isinstance(value, dict),
    "string": lambda value: isinstance(value, str),
}
"""The types by their names."""


def compile_type(given: object) -> Keyword:
    """Compile `type`."""
    names = given if isinstance(given, list) else [given]
    for name in names:
        if not isinstance(name, str) or name not in TYPES:
            raise ValueError(f"{shorten(given)} is not valid: a type is one of {', '.join(TYPES)}")
    if not names:
        raise ValueError("[] should be non-empty")
    listed = ", ".join(repr(name) for name in dict.fromkeys(names))
    tests = [TYPES[name] for name in dict.fromkeys(names)]
    if len(tests) == 1:
        (only,) = tests
        return Keyword(
            lambda value, _: only(value), lambda value: f"{shorten(value)} is not of type {listed}"
        )
    return Keyword(
        lambda value, _: any(test(value) for test in tests),
        lambda value: f"{shorten(value)} is not of type {listed}",
    )


def compile_enum(given: object, budget: CheckState) -> Keyword:
    """Compile `enum`."""
    if not isinstance(given, list):
        raise ValueError(f"{shorten(given)} is not of type 'array'")  # noqa: TRY004  # REASON: a wrong schema
    return _compile_choices(
        given, budget, lambda value: f"{shorten(value)} is not one of {shorten(given)}"
    )


def compile_const(given: object, budget: CheckState) -> Keyword:
    """Compile `const`."""
    return _compile_choices([given], budget, lambda _: f"{shorten(given)} was expected")


def _compile_choices(
    choices: list[object], state: CheckState, describe: Callable[[object], str]
) -> Keyword:
    texts = frozenset(choice for choice in choices if isinstance(choice, str))
    others = frozenset(make_key(choice, state) for choice in choices if not isinstance(choice, str))
    has_parts = any(isinstance(choice, dict | list) for choice in choices)

    def fits(value: object, state: CheckState) -> bool:
        if isinstance(value, str):
            return value in texts
        if isinstance(value, dict | list) and not has_parts:
            return False
        return make_key(value, state) in others

    return Keyword(fits, describe)


def compile_multiple(given: object) -> Keyword:
    """Compile `multipleOf`. Numbers are what their decimal digits say, so 0.3 is a multiple of 0.1."""
    if not is_number(given) or given <= 0:  # type: ignore[operator]  # REASON: it is a number
        raise ValueError(f"{shorten(given)} is not a number above 0")
    step = Fraction(repr(given))

    def fits(value: object, state: CheckState) -> bool:
        if not is_number(value):
            return True
        if isinstance(value, int) and isinstance(given, int):
            return value % given == 0
        state.budget.take(4)
        exact = Fraction(value) if isinstance(value, int) else Fraction(repr(value))
        return (exact / step).denominator == 1

    return Keyword(fits, lambda value: f"{shorten(value)} is not a multiple of {shorten(given)}")


_BOUNDS: Final[Mapping[str, tuple[Callable[[Any, Any], bool], str]]] = {
    "minimum": (lambda value, bound: value >= bound, "less than the minimum of"),
    "maximum": (lambda value, bound: value <= bound, "greater than the maximum of"),
    "exclusiveMinimum": (
        lambda value, bound: value > bound,
        "less than or equal to the minimum of",
    ),
    "exclusiveMaximum": (
        lambda value, bound: value < bound,
        "greater than or equal to the maximum of",
    ),
}


def compile_bound(keyword: str, given: object) -> Keyword:
    """Compile `minimum`, `maximum`, `exclusiveMinimum` and `exclusiveMaximum`."""
    if not is_number(given):
        raise ValueError(f"{shorten(given)} is not of type 'number'")
    holds, words = _BOUNDS[keyword]
    return Keyword(
        lambda value, _: not is_number(value) or holds(value, given),
        lambda value: f"{shorten(value)} is {words} {given}",
    )


_SIZES: Final[Mapping[str, tuple[type, bool, str]]] = {
    "minLength": (str, True, "is too short"),
    "maxLength": (str, False, "is too long"),
    "minItems": (list, True, "is too short"),
    "maxItems": (list, False, "is too long"),
    "minProperties": (dict, True, "does not have enough properties"),
    "maxProperties": (dict, False, "has too many properties"),
}


def read_count(given: object) -> int:
    """Return a whole number from 0. Raises ValueError."""
    if not is_integer(given) or given < 0:  # type: ignore[operator]  # REASON: it is a number
        raise ValueError(f"{shorten(given)} is not a whole number from 0")
    return int(given)  # type: ignore[call-overload,no-any-return]  # REASON: as above


def compile_size(keyword: str, given: object) -> Keyword:
    """Compile the keywords for the length of texts, lists and objects."""
    count = read_count(given)
    kind, is_least, words = _SIZES[keyword]

    def fits(value: object, _: CheckState) -> bool:
        if not isinstance(value, kind):
            return True
        size = len(value)  # type: ignore[arg-type]  # REASON: the kinds have lengths
        return size >= count if is_least else size <= count

    return Keyword(
        fits,
        lambda value: (
            f"{shorten(value)} should be non-empty"
            if is_least and count == 1
            else f"{shorten(value)} {words}"
        ),
    )


def compile_unique(given: object) -> Keyword:
    """Compile `uniqueItems`."""
    if not isinstance(given, bool):
        raise ValueError(f"{shorten(given)} is not of type 'boolean'")  # noqa: TRY004  # REASON: a wrong schema

    def fits(value: object, state: CheckState) -> bool:
        if not given or not isinstance(value, list):
            return True
        seen: set[str] = set()
        for item in value:
            key = make_key(item, state)
            if key in seen:
                return False
            seen.add(key)
        return True

    return Keyword(fits, lambda value: f"{shorten(value)} has non-unique elements")


def compile_required(given: object) -> Keyword:
    """Compile `required`."""
    names = read_names(given)

    def fits(value: object, state: CheckState) -> bool:
        if not isinstance(value, dict):
            return True
        state.budget.take(1 + len(names) // 16)
        return all(name in value for name in names)

    def explain(value: object, path: Path, state: CheckState) -> None:
        for name in names:
            if isinstance(value, dict) and name not in value:
                state.add_problem(path, f"{shorten(name)} is a required property", value)

    return Keyword(fits, explain=explain)


def read_names(given: object) -> list[str]:
    """Return a list of names. Raises ValueError."""
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise ValueError(f"{shorten(given)} is not a list of names")
    return given


def compile_dependent_names(given: object) -> Keyword:
    """Compile `dependentRequired`."""
    if not isinstance(given, dict):
        raise ValueError(f"{shorten(given)} is not of type 'object'")  # noqa: TRY004  # REASON: a wrong schema
    needed = {name: read_names(names) for name, names in given.items()}

    def find_missing(value: object, state: CheckState) -> Iterator[tuple[str, str]]:
        state.budget.take(1 + len(needed) // 16)
        for name, names in needed.items():
            if isinstance(value, dict) and name in value:
                state.budget.take(1 + len(names) // 16)
                yield from ((name, other) for other in names if other not in value)

    def explain(value: object, path: Path, state: CheckState) -> None:
        for name, other in find_missing(value, state):
            state.add_problem(path, f"{shorten(other)} is a dependency of {shorten(name)}", value)

    return Keyword(lambda value, state: not any(find_missing(value, state)), explain=explain)
