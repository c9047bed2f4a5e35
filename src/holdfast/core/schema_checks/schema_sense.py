"""Refuses a schema that is none: its keywords have wrong values, or no value can fit it.

The error names the place as a JSON pointer, and the way to correct it. All parts are read once, so the time grows
with the size alone. This module must never fetch the target of a reference, match a pattern, or refuse a schema
because a provider lacks one of its keywords.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import ceil, floor
from typing import Any, Final, Literal, TypeAlias, TypeGuard

from holdfast.core.errors import ConfigurationError
from holdfast.core.schema_checks.schema_limits import (
    SchemaLimits,
    StepBudget,
    StepsExceededError,
    Trail,
    check_schema_size,
    write_place,
)
from holdfast.core.schema_checks.schema_nodes import shorten
from holdfast.core.schema_checks.schema_places import (
    Part,
    SchemaError,
    SchemaPlaces,
    decode_step,
    find_draft,
    step_into,
)
from holdfast.core.schema_checks.value_keywords import TYPES, is_integer, is_number

Fact: TypeAlias = Callable[[Any, Part], None]
"""Checks the value of a keyword, and those beside it. Raises SchemaError."""

Kind: TypeAlias = Literal["one", "some", "one or some", "named", "named or names"]
"""Which parts a keyword has: one, a list, one or a list, parts by name, parts or lists of names by name."""

_PLACE_STEPS: Final = 50_000
"""Steps that the places of anchors and of parts with an `$id` may take, about 30 milliseconds."""

_PARTS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), "some"),
    **dict.fromkeys(("not", "if", "then", "else", "contains", "propertyNames"), "one"),
    **dict.fromkeys(("additionalItems", "additionalProperties"), "one"),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties"), "one"),
    **dict.fromkeys(("$defs", "definitions", "properties"), "named"),
    **dict.fromkeys(("patternProperties", "dependentSchemas"), "named"),
    "dependencies": "named or names",
    "items": "one or some",  # a list in drafts before 2020-12
}

_SAME_VALUE: Final = frozenset(
    ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"]
)
"""The keywords whose parts are for the same value, and not for a part of it."""

_CONDITIONAL: Final = ("then", "else")
"""The keywords that count only beside `if`."""

_CHOICES: Final = frozenset(["allOf", "anyOf", "oneOf"])
"""The keywords whose lists must not be empty."""

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")

_NEEDING: Final = frozenset([*_REFERENCES, *_CHOICES, "required", "minItems"])
"""The keywords because of which a value must hold another value."""

_NAMES_ELSEWHERE: Final = {
    "int": "integer", "long": "integer", "float": "number", "double": "number", "decimal": "number", "str": "string",
    "text": "string", "bool": "boolean", "list": "array", "tuple": "array", "dict": "object", "map": "object",
    "none": "null", "nil": "null", "nonetype": "null",
}  # fmt: skip
"""Types of other languages, and the types of JSON Schema."""


def read_schema(
    argument: str, schema: Mapping[str, object], limits: SchemaLimits
) -> dict[str, object]:
    """Return a copy of a schema as plain JSON data.

    Args:
        argument: the name of the schema in errors.
        schema: the schema.
        limits: how large it may be.

    Raises:
        ConfigurationError: it is not JSON, is too large, or is not a schema.
    """
    plain = check_schema_size(argument, schema, limits)
    check_schema_sense(argument, plain)
    return plain


def check_schema_sense(argument: str, schema: Mapping[str, object]) -> None:
    """Raise ConfigurationError if a schema is none: it names the place and the fix.

    Args:
        argument: the name of the schema in errors.
        schema: plain JSON data whose size was checked.

    >>> check_schema_sense("schema", {"properties": {"age": {"minimum": 5, "maximum": 3}}})
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: schema: is not a JSON Schema at /properties/age/maximum: it is 3, below \
minimum, which is 5. Correct one of them
    """
    walk = _Walk(dict(schema))
    try:
        walk.check()
    except _FoundError as error:
        problem = f"is not a JSON Schema at {write_place(error.trail)}: {error.problem}"
        raise ConfigurationError(argument, problem, fix=error.fix) from None
    except StepsExceededError:
        problem = "is too large: its parts with an $id cannot be looked up"
        raise ConfigurationError(argument, problem, fix="Refer to #/$defs/NAME") from None


class _FoundError(Exception):
    """A fault of a schema, with its place."""

    def __init__(self, trail: Trail, problem: str, fix: str) -> None:
        super().__init__(problem)
        self.trail = trail
        self.problem = problem
        self.fix = fix


class _Entry:
    """A part of a schema, and its place: the entry of its owner, the keyword there, its name or number there."""

    __slots__ = ("keyword", "name", "owner", "part")

    def __init__(self, part: Part, owner: _Entry | None, keyword: str, name: object) -> None:
        self.part = part
        self.owner = owner
        self.keyword = keyword
        self.name = name

    def make_trail(self, *names: object) -> Trail:
        """Return the place of a value in the part."""
        inner: Trail = ()
        if self.owner is not None:
            inner = self.owner.make_trail(self.keyword)
            inner = inner if self.name is None else (inner, self.name)
        for name in names:
            inner = (inner, name)
        return inner


class _Walk:
    """Reads each part of a schema once, then follows its references."""

    def __init__(self, schema: Part) -> None:
        self._schema = schema
        self._draft = find_draft(schema) or 2020
        self._id = "id" if self._draft == 4 else "$id"
        self._places: SchemaPlaces | None = None
        self._has_inner_roots = False
        self._entries = [_Entry(schema, None, "", None)]
        self._references: list[tuple[_Entry, str]] = []
        self._known: dict[int, _Entry] = {}
        """The entries by the identities of their parts; only if there are references."""
        self._targets: dict[int, list[object]] = {}
        """The targets of the references of a part, by its identity."""

    def check(self) -> None:
        """Raise _FoundError for the first fault."""
        read = followed = 0
        while read < len(self._entries):
            while read < len(self._entries):
                self._read_part(self._entries[read])
                read += 1
            if self._references and not self._known:
                self._known = {id(entry.part): entry for entry in self._entries}
            # A target may lie under an unknown keyword, and is read as a part because of the reference.
            while followed < len(self._references):
                self._follow(*self._references[followed])
                followed += 1
        if self._references:  # without one, each part holds smaller ones alone
            self._refuse_loops()
            self._refuse_endless_values()

    def _read_part(self, entry: _Entry) -> None:
        for name, given in entry.part.items():
            fact = _FACTS.get(name)
            if fact is not None:
                try:
                    fact(given, entry.part)
                except SchemaError as error:
                    raise _FoundError(entry.make_trail(name), error.problem, error.fix) from None
            elif name in _PARTS:
                self._read_inner_parts(name, given, entry)
            elif name in _REFERENCES:
                self._references.append((entry, name))
            elif name == self._id and entry.owner is not None:
                self._has_inner_roots = True

    def _read_inner_parts(self, name: str, given: object, owner: _Entry) -> None:
        kind = _PARTS[name]
        if kind == "some" or (kind == "one or some" and isinstance(given, list)):
            if not isinstance(given, list) or (not given and name in _CHOICES):
                problem = f"{shorten(given)} is not a list of schemas"
                fix = "Name one schema at least, or leave it out"
                raise _FoundError(owner.make_trail(name), problem, fix)
            for at, part in enumerate(given):
                self._add_part(part, owner, name, at)
        elif kind in {"named", "named or names"}:
            if not isinstance(given, dict):
                problem = f"{shorten(given)} is not an object"
                raise _FoundError(owner.make_trail(name), problem, _NAMED_FIX)
            for key, part in given.items():
                if kind == "named" or not _is_names(part):
                    self._add_part(part, owner, name, key)
        else:
            self._add_part(given, owner, name, None)

    def _add_part(self, part: object, owner: _Entry, keyword: str, name: object) -> None:
        if isinstance(part, dict):
            entry = _Entry(part, owner, keyword, name) if part else None  # {} has no keywords
            if entry and (not self._known or self._known.setdefault(id(part), entry) is entry):
                self._entries.append(entry)
        elif not isinstance(part, bool):
            place = owner.make_trail(keyword, *() if name is None else (name,))
            problem = f"{shorten(part)} is not a schema"
            raise _FoundError(place, problem, 'Write an object such as {"type": "string"}')

    def _follow(self, entry: _Entry, keyword: str) -> None:
        """Note the target of a reference. Raises _FoundError if it has none."""
        reference = entry.part[keyword]
        if not isinstance(reference, str):
            problem = f"{shorten(reference)} is not a text"
            raise _FoundError(entry.make_trail(keyword), problem, _REFERENCE_FIX)
        target = self._look_up(reference, entry, keyword)
        self._targets.setdefault(id(entry.part), []).append(target)
        if isinstance(target, dict):
            self._add_part(target, entry, keyword, None)

    def _look_up(self, reference: str, entry: _Entry, keyword: str) -> Part | bool:
        base, _, fragment = reference.partition("#")
        where = "not in it"
        if base or fragment[:1] not in ("", "/") or self._has_inner_roots:
            if self._places is None:
                self._places = SchemaPlaces(self._schema, self._draft, StepBudget(_PLACE_STEPS))
            try:
                return self._places.look_up(reference, entry.part)
            except SchemaError:
                where = "outside of it, and is never fetched" if base else where
        elif (target := self._step_to(fragment)) is not None:
            return target
        problem = f"has a reference to {shorten(reference)}, which is {where}"
        raise _FoundError(entry.make_trail(keyword), problem, "Put its target into $defs")

    def _step_to(self, fragment: str) -> Part | bool | None:
        """Return the part that a JSON pointer leads to; None if there is none."""
        found: object = self._schema
        kind: str = "one"
        for step in fragment.split("/")[1:]:
            name = decode_step(step)
            found = step_into(found, name)
            if kind == "one":
                kind = "data" if name in _DATA or name in _FACTS else _PARTS.get(name, "free")
                if kind == "one or some":
                    kind = "some" if isinstance(found, list) else "one"
            elif kind != "free":
                kind = "one"
            if found is None or kind == "data":
                return None
        return found if kind in ("one", "free") and isinstance(found, dict | bool) else None

    def _refuse_loops(self) -> None:
        """Raise _FoundError if a part leads to itself for the same value."""
        inner: dict[int, list[int]] = {
            key: [id(target) for target in targets if isinstance(target, dict)]
            for key, targets in self._targets.items()
        }
        for entry in self._entries:
            if entry.keyword not in _SAME_VALUE or entry.owner is None:
                continue
            if entry.keyword not in _CONDITIONAL or "if" in entry.owner.part:
                inner.setdefault(id(entry.owner.part), []).append(id(entry.part))
        is_done: dict[int, bool] = {}
        for start in self._targets:
            path = [] if start in is_done else [(start, iter(inner[start]))]
            is_done.setdefault(start, False)
            while path:
                key, rest = path[-1]
                below = next(rest, None)
                if below is None:
                    path.pop()
                    is_done[key] = True
                elif below not in is_done:
                    is_done[below] = False
                    path.append((below, iter(inner.get(below, ()))))
                elif not is_done[below]:
                    problem = "refers to itself without an end"
                    fix = "Refer to it only from a property or an item"
                    raise _FoundError(self._known[below].make_trail(), problem, fix)

    def _refuse_endless_values(self) -> None:
        """Raise _FoundError if each value of a part holds another value of it.

        Such as a person who must have a mother, who is a person.
        """
        groups = {
            key: needs for key, entry in self._known.items() if (needs := self._list_needs(entry))
        }
        users: dict[int, list[tuple[int, int]]] = {}
        for key, needs in groups.items():
            for at, group in enumerate(needs):
                for member in group:
                    users.setdefault(member, []).append((key, at))
        waits = {key: set(range(len(needs))) for key, needs in groups.items()}
        ending = [member for member in users if member not in groups]
        while ending:
            for key, at in users.get(ending.pop(), ()):
                if at in waits[key]:
                    waits[key].remove(at)
                    if not waits[key]:
                        ending.append(key)
        key = next((key for key in groups if waits[key]), 0)
        if not key:
            return
        path: dict[int, None] = {}
        while key not in path:
            path[key] = None
            key = groups[key][min(waits[key])][0]
        cycle = [*path][[*path].index(key) :]
        named = next((one for one in cycle if "type" in self._known[one].part), key)
        problem = "has no value that ends: each one must hold another one"
        fix = "Make one of its properties optional, or allow null in its place"
        raise _FoundError(self._known[named].make_trail(), problem, fix)

    def _list_needs(self, entry: _Entry) -> list[list[int]]:
        """Return the parts that must have a value that ends if a part is to have one; of each group, one part."""
        part = entry.part
        if _NEEDING.isdisjoint(part):
            return []
        groups = [[target] for target in self._targets.get(id(part), ())]
        if not groups or self._draft > 7:  # in old drafts a reference stands alone
            groups += [[inner] for inner in part.get("allOf", ())]
            groups += [part[name] for name in ("anyOf", "oneOf") if name in part]
            if "required" in part or "minItems" in part:
                groups += _list_contents(part)
        return [
            [id(inner) for inner in group]
            for group in groups
            if all(isinstance(inner, dict) for inner in group)
        ]


def _list_contents(part: Part) -> Iterator[list[object]]:
    """Yield the parts of which each value of a part must hold a value."""
    if "enum" in part or "const" in part:
        return
    if part.get("type") == "object":
        properties = part.get("properties", {})
        yield from ([properties[name]] for name in part.get("required", ()) if name in properties)
    elif part.get("type") == "array" and part.get("minItems", 0) >= 1:
        first = part.get("prefixItems") or part.get("items", True)
        yield [first[0]] if isinstance(first, list) and first else [first]


def _check_type(given: object, _: Part) -> None:
    if isinstance(given, str) and given in TYPES:
        return
    names = given if isinstance(given, list) else [given]
    if not names:
        raise SchemaError("[] names no type", "Leave it out")
    for name in names:
        if not isinstance(name, str) or name not in TYPES:
            lower = name.lower() if isinstance(name, str) else ""
            meant = lower if lower in TYPES else _NAMES_ELSEWHERE.get(lower)
            fix = f'Write "{meant}"' if meant else "Leave it out, so that any type fits"
            known = "" if meant else f"; a type is one of {', '.join(TYPES)}"
            raise SchemaError(f"{shorten(name)} is not a type{known}", fix)


def _check_enum(given: object, _: Part) -> None:
    if not isinstance(given, list):
        raise SchemaError(f"{shorten(given)} is not a list of values", "Write a list")
    if not given:
        raise SchemaError("[] has no value, so nothing fits", "Name one value at least")


def _check_required(given: object, part: Part) -> None:
    if not _is_names(given):
        fix = 'List the names beside "properties", such as "required": ["name"]'
        raise SchemaError(f"{shorten(given)} is not a list of names", fix)
    most, count = part.get("maxProperties"), len(set(given))
    if is_number(most) and count > most:  # type: ignore[operator]  # REASON: it is a number
        raise SchemaError(f"it has {count} names, above maxProperties, which is {most}", _PAIR_FIX)


def _is_names(given: object) -> TypeGuard[list[str]]:
    return isinstance(given, list) and all(isinstance(name, str) for name in given)


def _check_dependent(given: object, _: Part) -> None:
    if not isinstance(given, dict) or not all(map(_is_names, given.values())):
        fix = 'Write lists of names, such as {"card": ["address"]}'
        raise SchemaError(f"{shorten(given)} has no lists of names", fix)


def _check_text(given: object, _: Part) -> None:
    if not isinstance(given, str):
        raise SchemaError(f"{shorten(given)} is not a text", "Write a text, or leave it out")


def _check_switch(given: object, _: Part) -> None:
    if not isinstance(given, bool):
        raise SchemaError(f"{shorten(given)} is not true or false", "Write true, or leave it out")


def _check_step(given: object, _: Part) -> None:
    if not is_number(given) or given <= 0:  # type: ignore[operator]  # REASON: it is a number
        raise SchemaError(f"{shorten(given)} is not a number above 0", "Leave it out")


def _check_number(given: object, _: Part) -> None:
    if not is_number(given):
        raise SchemaError(f"{shorten(given)} is not a number", "Write a number without quotes")


def _check_exclusive(given: object, part: Part) -> None:
    if not isinstance(given, bool):  # as OpenAPI 3.0 and draft 4 write it, beside the bound
        _check_number(given, part)


def _check_upper(name: str) -> Fact:
    """Return the check of an upper bound of a number, and of the lower ones beside it."""

    def check(given: object, part: Part) -> None:
        (_check_number if name == "maximum" else _check_exclusive)(given, part)
        if isinstance(given, bool):
            return
        is_whole = part.get("type") == "integer"
        most = _read_bound(name, part, is_whole=is_whole)
        for lower in ("minimum", "exclusiveMinimum"):
            if is_number(part.get(lower)) and _read_bound(lower, part, is_whole=is_whole) > most:
                text = f"it is {given}, below {lower}, which is {part[lower]}"
                if part[lower] <= given:
                    kind = "whole number" if is_whole else "number"
                    text = f"no {kind} lies between {part[lower]}, which is {lower}, and {given}"
                raise SchemaError(text, _PAIR_FIX)

    return check


def _read_bound(name: str, part: Part, *, is_whole: bool) -> tuple[float, int]:
    """Return a bound in a form that compares with one of the other side: a lower one is above it if nothing fits."""
    sign, is_exclusive = _BOUNDS[name]
    bound = part[name]
    is_exclusive = is_exclusive or part.get(f"exclusive{name[0].upper()}{name[1:]}") is True
    if not is_whole:
        return bound, sign if is_exclusive else 0
    whole = ceil(bound) if sign > 0 else floor(bound)
    return whole + (sign if is_exclusive and whole == bound else 0), 0


_BOUNDS: Final = {
    "minimum": (1, False),
    "maximum": (-1, False),
    "exclusiveMinimum": (1, True),
    "exclusiveMaximum": (-1, True),
}
"""The side of each bound, and whether the bound itself does not fit."""


def _check_count(lower: str) -> Fact:
    """Return the check of a size, and of the keyword beside it that must not be above it.

    Args:
        lower: that keyword; may be empty.
    """

    def check(given: object, part: Part) -> None:
        if not is_integer(given) or given < 0:  # type: ignore[operator]  # REASON: it is a number
            raise SchemaError(f"{shorten(given)} is not a whole number from 0", "Write one")
        least = part.get(lower)
        if is_number(least) and least > given:  # type: ignore[operator]  # REASON: both are numbers
            raise SchemaError(f"it is {given}, below {lower}, which is {least}", _PAIR_FIX)

    return check


_PAIR_FIX: Final = "Correct one of them"
_NAMED_FIX: Final = (
    'Write an object with a schema for each name, such as {"name": {"type": "string"}}'
)
_REFERENCE_FIX: Final = 'Write a place of the schema, such as "#/$defs/Node"'

_FACTS: Final[Mapping[str, Fact]] = {
    "type": _check_type,
    "enum": _check_enum,
    "required": _check_required,
    "dependentRequired": _check_dependent,
    "pattern": _check_text,
    "format": _check_text,
    "uniqueItems": _check_switch,
    "multipleOf": _check_step,
    "minimum": _check_number,
    "exclusiveMinimum": _check_exclusive,
    "maximum": _check_upper("maximum"),
    "exclusiveMaximum": _check_upper("exclusiveMaximum"),
    **dict.fromkeys(("minLength", "minItems", "minProperties", "minContains"), _check_count("")),
    **{
        f"max{of}": _check_count(f"min{of}") for of in ("Length", "Items", "Properties", "Contains")
    },
}
_DATA: Final = frozenset(["const", "default", "example", "examples"])
"""Keywords whose values are data and hold no parts, beside those of `_FACTS`."""
