"""The choices of a JSON Schema, the parts that they can be made of, and the names and parts inside of joined parts.

This module must never know a dialect, nor write a part that is sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Final

from holdfast.codecs.schemas.joined_parts import (
    Atom,
    Choice,
    JoinedPart,
    PartReader,
    UnusableSchemaError,
)
from holdfast.codecs.schemas.part_keywords import (
    ANNOTATIONS,
    CONDITIONS,
    FACTS,
    MAPS,
    Part,
    Parts,
    RawPart,
    allows_type,
    find_reference,
    write_key,
)

MOST_COMBINATIONS: Final = 100
"""How many ways there may be to choose all the branches of a part."""

_ASSERTIONS: Final = frozenset(
    ["required", "not", "minProperties", "maxProperties", "dependentRequired", *ANNOTATIONS]
)
"""Keywords of branches that are better said than sent as copies of the whole part."""

_UNITED: Final = frozenset(
    [
        "type",
        "properties",
        "required",
        "additionalProperties",
        "anyOf",
        "oneOf",
        "allOf",
        "$ref",
        "$defs",
    ]
)
"""Keywords of the top that are joined with those of its branches."""

_TYPED: Final = frozenset(["type", "enum", "const", "anyOf", "oneOf"])
_TYPING: Final = frozenset(
    [
        *FACTS,
        *("properties", "patternProperties", "additionalProperties", "required"),
        *("items", "prefixItems", "additionalItems"),
    ]
)
"""Keywords that show the type of a part without one."""

_HOLDERS: Final = frozenset(
    [
        *CONDITIONS,
        *("anyOf", "oneOf", "items", "prefixItems", "additionalItems", "additionalProperties"),
        *("properties", "patternProperties", "dependencies"),
    ]
)
"""Keywords that hold parts, but for definitions."""

_KINDS: Final = ("string", "number", "boolean", "null", "object", "array")


def as_part(parts: Parts) -> object:
    """Return parts that a value must fit together as one part, for words."""
    return parts[0] if len(parts) == 1 else {"allOf": list(parts)}


def find_keys(joined: JoinedPart) -> set[str]:
    """Return the properties that an object names."""
    needed: dict[str, list[str]] = joined.facts.get("dependentRequired", {})
    schemas = joined.conditions.get("dependentSchemas", ())
    return {*joined.properties, *joined.required, *needed, *schemas}.union(*needed.values())


def leave_out_choice(reader: PartReader, part: Part, choice: Choice) -> Part:
    """Return a part without the keywords of a choice, if it is the one that has them."""
    return reader.leave_out(part, choice.keywords) if part is choice.holder else part


def is_assertion(choice: Choice) -> bool:
    """Whether the branches of a choice say only which properties must be there."""
    return all(
        isinstance(inner, dict) and _ASSERTIONS.issuperset(inner) for inner in choice.branches
    )


def count_combinations(joined: JoinedPart) -> int:
    """Return in how many ways the branches of all choices can be chosen."""
    return prod(len(choice.branches) for choice in joined.choices)


def implies(reader: PartReader, branch: RawPart, base: JoinedPart | None) -> bool:
    """Whether each value that fits a branch fits the part around it: it constrains nothing but the type."""
    if base is None:
        return True
    types = base.types
    if base.has_structure or base.facts or base.conditions or base.choices or base.literals is not None:  # fmt: skip
        return False
    atoms = reader.find_atoms((branch,))
    joined = reader.join(atoms) if atoms else None
    if joined is None or joined.types is None or types is None:
        return False
    return all(allows_type(types, name) for name in joined.types)


def choose_type(reader: PartReader, joined: JoinedPart, atoms: list[Atom]) -> Choice:
    """Return the types of a part as a choice."""
    origin = atoms[0].part
    types = [name for name in joined.types or () if name != "integer" or "number" not in (joined.types or ())]  # fmt: skip
    parts = tuple(reader.make_part({"type": name}, origin) for name in types)
    return Choice("anyOf", parts, origin, ("anyOf",))


def excludes_each_other(reader: PartReader, choice: Choice) -> bool:
    """Whether at most one branch fits a value: they differ in their types, or in a property that names the branch."""
    if "discriminator" in choice.holder:
        return True
    every: list[JoinedPart] = []
    for inner in choice.branches:
        atoms = reader.find_atoms((inner,))
        joined = reader.join(atoms) if atoms is not None else None
        if joined is not None:
            every.append(joined)
    types = [
        "number" if name == "integer" else name for one in every for name in one.types or _KINDS
    ]
    if len(set(types)) == len(types):
        return True
    names = set.intersection(*(set(one.properties) for one in every)) if every else set()
    return any(_names_branch(reader, name, every) for name in sorted(names))


def _names_branch(reader: PartReader, name: str, every: list[JoinedPart]) -> bool:
    seen: list[object] = []
    for one in every:
        atoms = reader.find_atoms(one.properties[name])
        joined = reader.join(atoms) if atoms is not None else None
        if joined is None or joined.literals is None:
            return False
        seen += map(write_key, joined.literals)
    return len(set(seen)) == len(seen)


def open_conditions(joined: JoinedPart, reader: PartReader) -> list[str]:
    """Make choices of conditions with properties that a closed object would not have; return their places."""
    conditions, places = joined.conditions, list[str]()
    options = [conditions.get(keyword, True) for keyword in ("then", "else")]
    holder = next((part for part in joined.parts if "if" in part), None)
    if holder is not None and not _is_declared(reader, joined, options):
        wanted = reader.derive({"allOf": [conditions["if"], options[0]]}, holder)
        keywords = ("if", "then", "else")
        joined.choices.append(Choice("anyOf", (wanted, options[1]), holder, keywords))
        places.append(joined.place_of("if"))
        for keyword in keywords:
            conditions.pop(keyword, None)
    # A property that is not named cannot be there, and nothing depends on it.
    given = conditions.get("dependentSchemas", {})
    schemas = {key: one for key, one in given.items() if key in joined.properties}
    holder = next((part for part in joined.parts if "dependentSchemas" in part), None)
    if holder is not None and not _is_declared(reader, joined, schemas.values()):
        name, inner = next(iter(schemas.items()))
        others = {key: one for key, one in schemas.items() if key != name}
        rest = reader.derive({"dependentSchemas": others} if others else {}, holder)
        wanted = reader.derive({"allOf": [rest, inner, {"required": [name]}]}, holder)
        joined.choices.append(Choice("anyOf", (wanted, rest), holder, ("dependentSchemas",)))
        places.append(joined.place_of("dependentSchemas"))
        del conditions["dependentSchemas"]
    return places


def _find_declared(reader: PartReader, parts: Iterable[object]) -> set[str]:
    """Return the properties that parts name for the object itself, in any branch."""
    return {name for part in reader.list_same(parts) for name in part.get("properties") or ()}


def _is_declared(reader: PartReader, joined: JoinedPart, parts: Iterable[RawPart]) -> bool:
    """Whether an object names all properties that other parts name for it."""
    return _find_declared(reader, parts) <= joined.properties.keys()


_COUNTING: Final = frozenset(
    [
        *("minProperties", "maxProperties", "propertyNames", "patternProperties"),
        *("additionalProperties", "unevaluatedProperties"),
    ]
)
"""Keywords that read properties without their names."""

_NAMING: Final = ("required", "properties", "dependentRequired", "dependentSchemas", "dependencies")


def find_presence_rule(reader: PartReader, joined: JoinedPart, key: str) -> str:
    """Return the keyword for which it matters whether a property is absent or null; "" if none is found.

    Args:
        reader: the schema.
        joined: an object, whose choices can only be assertions.
        key: an optional property that may be null.
    """
    if joined.facts.get("maxProperties", len(joined.properties)) < len(joined.properties):
        return "maxProperties"
    rules = [*joined.facts.items(), *joined.conditions.items()]
    rules += [(one.keyword, one.value) for one in joined.left_over]
    rules += [(one.keyword, list(one.branches)) for one in joined.choices]
    required = set(joined.required)
    for keyword, value in rules:
        if keyword == "dependentRequired":
            matters = not required.issuperset(value.get(key, ()))
        elif keyword == "dependentSchemas":
            matters = key in value or _reads_presence(reader, value.values(), key)
        elif keyword == "unevaluatedProperties":
            holders = [part for part in joined.parts if keyword in part]
            known = [reader.find_evaluated(joined.parts, part) for part in holders]
            matters = any(names is not None and key not in names for names in known)
        elif keyword in ("not", "if", "then", "else", "anyOf", "oneOf"):
            matters = _reads_presence(reader, value if isinstance(value, list) else [value], key)
        else:
            matters = keyword == "propertyNames"
        if matters:
            return keyword
    return ""


def _reads_presence(reader: PartReader, parts: Iterable[object], key: str) -> bool:
    """Whether some parts of an object may treat a property that is absent and one that is null in different ways."""
    for part in reader.list_same(parts):
        if _COUNTING.intersection(part) or any(key in part.get(name, ()) for name in _NAMING):
            return True
        literals = [*part.get("enum", ()), part.get("const")]
        if any(isinstance(one, dict) for one in literals):
            return True
    return False


def unite_choices(reader: PartReader, atoms: list[Atom]) -> Part | None:
    """Return an object that allows the properties of all branches of its choices; None if none allows an object.

    Raises:
        UnusableSchemaError: the choices make too many combinations.
    """
    branches = [
        one
        for one in combine_choices(reader, atoms)
        if allows_type(one.types, "object")
        and (one.literals is None or any(isinstance(value, dict) for value in one.literals))
    ]
    if not branches:
        return None
    properties: dict[str, dict[int, RawPart]] = {}
    for branch in branches:
        for key, parts in branch.properties.items():
            known = properties.setdefault(key, {})
            if len(parts) == 1:
                known[id(parts[0])] = parts[0]
            else:
                whole = reader.derive({"allOf": list(parts)}, reader.root)
                known[id(whole)] = whole
    united: Part = {"type": "object", **reader.leave_out(reader.root, _UNITED)}
    if properties:
        united["properties"] = {
            key: next(iter(found.values()))
            if len(found) == 1
            else reader.derive({"anyOf": list(found.values())}, reader.root)
            for key, found in properties.items()
        }
    united["required"] = [
        name for name in branches[0].required if all(name in one.required for one in branches)
    ]
    if all(False in (one.others or ()) and not one.patterns for one in branches):
        united["additionalProperties"] = False
    return reader.derive(united, reader.root)


def combine_choices(reader: PartReader, atoms: list[Atom]) -> list[JoinedPart]:
    """Return all ways to choose the branches of joined parts."""
    found: list[JoinedPart] = []
    waiting = [atoms]
    while waiting:
        joined = reader.join(waiting.pop())
        choices = [one for one in joined.choices if not is_assertion(one)] if joined else []
        if joined is None:
            continue
        if not choices:
            found.append(joined)
            continue
        if len(found) + len(waiting) > MOST_COMBINATIONS:
            raise UnusableSchemaError("", "makes too many combinations", "Use less alternatives")
        base = tuple(leave_out_choice(reader, atom.part, choices[0]) for atom in joined.atoms)
        options = (reader.find_atoms((*base, inner)) for inner in reversed(choices[0].branches))
        waiting.extend(one for one in options if one is not None)
    return found


def list_parts(reader: PartReader, part: RawPart) -> list[Part]:
    """Return all parts of a part, and those that references in it name."""
    found: list[Part] = []
    seen: set[int] = set()
    waiting: list[RawPart] = [part]
    while waiting:
        value = waiting.pop()
        if isinstance(value, bool) or id(value) in seen:
            continue
        reader.budget.take()
        seen.add(id(value))
        found.append(value)
        if find_reference(value):
            waiting.append(reader.follow(value))
        for keyword in _HOLDERS.intersection(value):
            inner = value[keyword]
            if keyword in MAPS:
                inner = [one for one in inner.values() if isinstance(one, dict)]
            waiting += inner if isinstance(inner, list) else [inner]
    return found


class NullFinder:
    """Finds out whether null fits parts.

    Args:
        reader: the schema.

    >>> reader = PartReader({"not": {"type": "null"}})
    >>> NullFinder(reader).allows_null((reader.root,))
    False
    """

    def __init__(self, reader: PartReader) -> None:
        self._reader = reader
        self._nullable: dict[tuple[int, bool], bool] = {}

    def allows_null(self, parts: Parts, *, infers_types: bool = False) -> bool:
        """Whether null fits some parts. This is exact.

        Args:
            parts: the parts.
            infers_types: a part without a type has the one that its keywords are for.
        """
        return all(self._fits_null(part, infers_types) for part in parts)

    def _fits_null(self, part: object, infers: bool) -> bool:
        if not isinstance(part, dict):
            return part is not False
        key = (id(part), infers)
        if key not in self._nullable:
            self._reader.budget.take(1 + len(part))
            self._nullable[key] = True  # where a part contains itself
            self._nullable[key] = self._decide_null(part, infers)
        return self._nullable[key]

    def _decide_null(self, part: Part, infers: bool) -> bool:
        if find_reference(part):
            rest = self._reader.rest_beside_reference(part)
            return self._fits_null(self._reader.follow(part), infers) and self._fits_null(
                rest, infers
            )
        if infers and not _TYPED.intersection(part) and _TYPING.intersection(part):
            return False
        types, options = part.get("type"), part.get("oneOf")
        fits = "then" if self._fits_null(part.get("if", True), False) else "else"
        return (
            (types is None or "null" in ([types] if isinstance(types, str) else types))
            and ("enum" not in part or None in part["enum"])
            and part.get("const") is None
            and all(self._fits_null(inner, infers) for inner in part.get("allOf", ()))
            and any(self._fits_null(inner, infers) for inner in part.get("anyOf", (True,)))
            and (options is None or sum(self._fits_null(one, infers) for one in options) == 1)
            and not self._fits_null(part.get("not", False), False)
            and ("if" not in part or self._fits_null(part.get(fits, True), infers))
        )


def find_ambiguous_null(
    reader: PartReader, nulls: NullFinder, joined: JoinedPart, choice: Choice
) -> RawPart | None:
    """Return a property whose null, sent in place of an absent one, may let a second branch of `oneOf` fit.

    It is optional and may be null in one branch, and another branch requires that it is there.

    Args:
        reader: the schema.
        nulls: finds out whether null fits.
        joined: the part that has the choice.
        choice: the choice, whose branches do not exclude each other.
    """
    around = {key: parts for key, parts in joined.properties.items() if key not in joined.required}
    outside = [part for parts in joined.properties.values() for one in parts for part in list_parts(reader, one)]  # fmt: skip
    shared = {key: parts[0] for key, parts in around.items() if nulls.allows_null(parts)}
    branches = [list_parts(reader, branch) for branch in choice.branches]
    optional = [{**shared, **_find_nullable([*outside, *parts], nulls)} for parts in branches]
    for at, parts in enumerate(branches):
        needed = _find_needed(reader, parts, nulls)
        others = (inner for index, inner in enumerate(optional) if index != at)
        for key, part in (item for inner in others for item in inner.items()):
            if needed is None or key in needed:
                return part
    return None


def _find_nullable(parts: Iterable[Part], nulls: NullFinder) -> dict[str, RawPart]:
    """Return the properties that are optional and may be null, in any object of some parts."""
    return {
        key: inner
        for part in parts
        for key, inner in (part.get("properties") or {}).items()
        if key not in part.get("required", ()) and nulls.allows_null((inner,))
    }


def _find_needed(reader: PartReader, parts: Iterable[Part], nulls: NullFinder) -> set[str] | None:
    """Return the properties that an object of some parts may refuse when absent and take when null; None for any."""
    found: set[str] = set()
    for part in parts:
        if part.get("minProperties"):
            return None
        properties = part.get("properties") or {}
        needed = {*part.get("required", ())}.union(*(part.get("dependentRequired") or {}).values())
        found |= {
            key for key in needed if key not in properties or nulls.allows_null((properties[key],))
        }
        literals = [*part.get("enum", ()), part.get("const")]
        found |= {key for one in literals if isinstance(one, dict) for key in one}
        for keyword in ("not", "if"):
            for inner in list_parts(reader, part.get(keyword, True)):
                found |= {*(inner.get("properties") or ())}
    return found
