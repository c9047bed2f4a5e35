"""Reads a JSON Schema part by part: follows references, and joins the parts that one value must fit together.

The drafts are 4, 6, 7, 2019-09 and 2020-12; a joined part has the keywords of 2020-12. All work counts its steps. This
module must never know a dialect, match a pattern, or fetch the target of a reference.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from holdfast.codecs.schemas.part_keywords import (
    ANNOTATIONS,
    CONDITIONS,
    DATA,
    FACTS,
    MAPS,
    SILENT,
    Part,
    Parts,
    RawPart,
    allows_type,
    find_reference,
    write_key,
)
from holdfast.core.errors import ConfigurationError
from holdfast.core.schema_checks.schema_limits import StepBudget, StepsExceededError
from holdfast.core.schema_checks.schema_places import SchemaError, SchemaPlaces, find_draft
from holdfast.core.schema_checks.schema_sense import check_schema_sense

_STRUCTURE: Final = frozenset(
    [
        *("type", "enum", "const", "properties", "patternProperties", "additionalProperties"),
        *("required", "items", "prefixItems", "additionalItems", "anyOf", "oneOf", "dependencies"),
        *("$ref", "$dynamicRef", "$recursiveRef", "propertyOrdering"),
    ]
)
_EVALUATING_ALL: Final = frozenset(
    ["additionalProperties", "patternProperties", "unevaluatedProperties"]
)
"""Keywords that may evaluate any property."""

_LEAST: Final = frozenset(["minLength", "minimum", "exclusiveMinimum", "minItems", "minProperties", "minContains"])  # fmt: skip
_MOST: Final = frozenset(["maxLength", "maximum", "exclusiveMaximum", "maxItems", "maxProperties", "maxContains"])  # fmt: skip
_RANGES: Final = (
    *(("number", "minimum", "maximum"), ("string", "minLength", "maxLength")),
    *(("array", "minItems", "maxItems"), ("object", "minProperties", "maxProperties")),
)
_UNITS: Final = (("if", "then", "else"), ("contains", "minContains", "maxContains"))
"""Keywords that mean something only beside the first one, of the same part."""

_LONGEST_WORDS: Final = 2_000
"""Characters of parts that are written in place of their references in one description."""

_NO_SCHEMA: Final = "is not a JSON Schema at "
_LEAST_STEPS: Final = 20_000
_STEPS_OF_A_VALUE: Final = 12

_LAST_WITHOUT_SIBLINGS: Final = 7
"""The last draft in which nothing counts beside `$ref`, and in which `dependencies` is a keyword."""

_NEWEST: Final = 2020
_SINCE: Final = {
    **dict.fromkeys(("const", "contains", "propertyNames"), 6),
    **dict.fromkeys(("if", "then", "else"), 7),
    **dict.fromkeys(("dependentRequired", "dependentSchemas", "minContains", "maxContains"), 2019),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties"), 2019),
    "prefixItems": _NEWEST,
}
"""The first drafts of keywords that not all drafts have."""


class UnusableSchemaError(Exception):
    """A schema cannot be read or said.

    Args:
        place: the place, as a JSON pointer.
        problem: the fault, in words.
        fix: the way out.
    """

    def __init__(self, place: str, problem: str, fix: str = "") -> None:
        super().__init__(problem)
        self.place = place
        self.problem = problem
        self.fix = fix


class Atom(NamedTuple):
    """A part without references and, if they were opened, without `allOf`.

    Args:
        part: the part.
        is_named: a reference named the whole part.
    """

    part: Part
    is_named: bool


class Choice(NamedTuple):
    """Parts of which a value must fit one.

    Args:
        keyword: `anyOf` or `oneOf`.
        branches: the parts.
        holder: the part that has it.
        keywords: the keywords of the holder that make the choice.
    """

    keyword: str
    branches: tuple[RawPart, ...]
    holder: Part
    keywords: tuple[str, ...]


class LeftOver(NamedTuple):
    """A keyword that has no other place in a joined part."""

    keyword: str
    value: object
    place: str


class JoinedPart(Struct, eq=False):
    """Several parts as one, a level deep: the parts inside stay as they are.

    Args:
        place: the place of the first part, as a JSON pointer.
        atoms: the parts.
        types: the types of the values; None for all types.
        literals: the only values; None if there are others.
        is_const: `const` gave the value.
        facts: the keywords of `FACTS`.
        conditions: the keywords of `CONDITIONS`.
        properties: the parts of each property that is named.
        patterns: the parts of properties by patterns of their names.
        others: the parts of all other properties; None if nothing is said about them.
        required: the properties that must be there.
        ordering: the order in which properties are written, of Gemini's `propertyOrdering`.
        prefix: the parts of the first items.
        items: the parts of all other items; None if nothing is said about them.
        choices: the values of `anyOf` and `oneOf`.
        annotations: the title, the description, the default and the examples.
        left_over: all other keywords.
        places: the place of each keyword.
    """

    place: str
    atoms: list[Atom]
    types: tuple[str, ...] | None = None
    literals: list[Any] | None = None
    is_const: bool = False
    facts: dict[str, Any] = {}
    conditions: dict[str, Any] = {}
    properties: dict[str, Parts] = {}
    patterns: dict[str, Parts] = {}
    others: Parts | None = None
    required: list[str] = []
    ordering: list[str] = []
    prefix: list[Parts] = []
    items: Parts | None = None
    choices: list[Choice] = []
    annotations: dict[str, Any] = {}
    left_over: list[LeftOver] = []
    places: dict[str, str] = {}

    @property
    def parts(self) -> list[Part]:
        """The parts, without the notes about their names."""
        return [atom.part for atom in self.atoms]

    @property
    def has_structure(self) -> bool:
        """Whether anything is said of the properties or the items."""
        return bool(
            self.properties
            or self.patterns
            or self.required
            or self.prefix
            or self.others is not None
            or self.items is not None
        )

    @property
    def has_constraints(self) -> bool:
        """Whether anything but the choices constrains the value."""
        return bool(
            self.types is not None
            or self.literals is not None
            or self.has_structure
            or self.facts
            or self.conditions
        )

    def place_of(self, keyword: str) -> str:
        """Return the place of a keyword."""
        return self.places.get(keyword, f"{self.place}/{keyword}")


class PartReader:
    """Reads the parts of one schema.

    Args:
        schema: the schema; it is not changed.

    Raises:
        UnusableSchemaError: the schema is none, or is not JSON.

    >>> reader = PartReader({"allOf": [{"minimum": 1}, {"minimum": 3, "type": "integer"}]})
    >>> joined = reader.join(reader.find_atoms((reader.root,)))
    >>> joined.types, joined.facts
    (('integer',), {'minimum': 3})
    """

    def __init__(self, schema: Mapping[str, object]) -> None:
        try:
            # A tree of plain data, in which each part has an identity of its own.
            self.root: Part = msgspec.json.decode(_encode_json(schema))
            check_schema_sense("schema", self.root)
        except ConfigurationError as error:
            place, _, problem = error.problem.removeprefix(_NO_SCHEMA).rpartition(": ")
            is_placed = place.startswith("/") and error.problem.startswith(_NO_SCHEMA)
            found = (place, f"is wrong: {problem}") if is_placed else ("", error.problem)
            raise UnusableSchemaError(*found, error.fix) from None
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise UnusableSchemaError("", f"cannot be written as JSON: {error}") from None
        self.draft = find_draft(self.root) or _NEWEST
        self.names: dict[str, None] = {}
        """The names of all properties."""
        self.open_names: set[str] = set()
        """The names of properties beside which there may be free keys."""
        self._trails: dict[int, tuple[int, str]] = {}
        self._pointers: dict[int, str] = {}
        self._variants: dict[tuple[int, object], Part] = {}
        self._origins: dict[int, tuple[Part, Part]] = {}
        self.budget = StepBudget(_LEAST_STEPS + _STEPS_OF_A_VALUE * self._walk())
        """Steps grow with the schema, so that parts that are put in place many times cannot take long."""
        try:
            self._places = SchemaPlaces(self.root, self.draft, self.budget)
        except StepsExceededError:
            raise UnusableSchemaError("", "is too large", "Leave parts of it out") from None

    def _walk(self) -> int:
        """Note the place of every part, and the names of the properties; return how many values there are."""
        count = 0
        waiting: list[tuple[object, bool]] = [(self.root, False)]
        while waiting:
            value, is_map = waiting.pop()
            if isinstance(value, dict):
                _replace_true(value, is_map=is_map)
                if self.draft < _NEWEST and not is_map:
                    for keyword in _SINCE.keys() & value.keys():
                        if _SINCE[keyword] > self.draft:
                            del value[keyword]  # it says nothing in this draft
                if not is_map:
                    self._note_names(value)
                inner = [
                    (key, one, not is_map and key in MAPS)
                    for key, one in value.items()
                    if is_map or key not in DATA
                ]
            elif isinstance(value, list):
                inner = [(str(at), one, False) for at, one in enumerate(value)]
            else:
                continue
            count += len(inner)
            for key, one, holds_map in inner:
                if isinstance(one, dict | list):
                    self._trails[id(one)] = (id(value), key)
                    waiting.append((one, holds_map))
        return count

    def _note_names(self, part: Part) -> None:
        for keyword in ("properties", "required"):
            given = part.get(keyword)
            if isinstance(given, dict | list):
                self.names.update(dict.fromkeys(name for name in given if isinstance(name, str)))
        if part.get("patternProperties") or part.get("additionalProperties", False) is not False:
            self.open_names.update(part.get("properties") or ())

    def find_place(self, part: object) -> str:
        """Return the place of a part of the schema, as a JSON pointer."""
        steps: list[tuple[int, str]] = []
        at = id(part)
        while at in self._trails and at not in self._pointers:
            owner, step = self._trails[at]
            steps.append((at, step))
            at = owner
        place = self._pointers.get(at, "")
        for one, step in reversed(steps):
            place += "/" + step.replace("~", "~0").replace("/", "~1")
            self._pointers[one] = place
        return place

    def find_name(self, part: Part) -> str:
        """Return a name for a part: the last step of its place."""
        return self._trails.get(id(part), (0, ""))[1] or str(part.get("title") or "") or "Root"

    def derive(self, part: Part, origin: Part) -> Part:
        """Return a part that was made from a part of the schema, and has its place."""
        self._origins[id(part)] = (part, self._origins.get(id(origin), (origin, origin))[1])
        if id(origin) in self._trails:
            self._trails[id(part)] = self._trails[id(origin)]
        return part

    def make_part(self, part: Part, origin: Part) -> Part:
        """Return a part with this content; the same one each time for the same origin."""
        key = (id(origin), msgspec.json.encode(part))
        if key not in self._variants:
            self._variants[key] = self.derive(part, origin)
        return self._variants[key]

    def leave_out(self, part: Part, keywords: Iterable[str]) -> Part:
        """Return a part without some keywords; the same one each time."""
        left_out = frozenset(keywords).intersection(part)
        if not left_out:
            return part
        key = (id(part), left_out)
        if key not in self._variants:
            rest = {name: value for name, value in part.items() if name not in left_out}
            self._variants[key] = self.derive(rest, part)
        return self._variants[key]

    def follow(self, part: Part) -> RawPart:
        """Return the part that a part with a reference refers to. Raises UnusableSchemaError."""
        keyword = find_reference(part)
        place = f"{self.find_place(part)}/{keyword}"
        reference = part[keyword]
        if not isinstance(reference, str):
            raise UnusableSchemaError(place, "is not a text", "Refer to a part of $defs")
        origin = self._find_origin(part)
        self.budget.take(1 + len(reference) // 16)
        try:
            return self._places.look_up(reference, origin)
        except SchemaError as error:
            raise UnusableSchemaError(place, error.problem, error.fix) from None

    def rest_beside_reference(self, part: Part) -> Part:
        """Return a part without its reference: until draft 7 nothing but annotations counts beside it."""
        if self.draft > _LAST_WITHOUT_SIBLINGS:
            return self.leave_out(part, (find_reference(part),))
        return self.leave_out(part, [name for name in part if name not in ANNOTATIONS])

    def find_atoms(
        self, parts: Parts, *, opens_references: bool = True, opens_all: bool = True
    ) -> list[Atom] | None:
        """Return the parts that make up some parts, without those that say nothing; None if no value fits.

        Args:
            parts: the parts.
            opens_references: put the targets of references in place.
            opens_all: put the parts of `allOf` in place.

        Raises:
            UnusableSchemaError: a reference leads nowhere.
        """
        atoms: list[Atom] = []
        seen: set[int] = set()
        waiting: list[tuple[RawPart, bool]] = [(part, False) for part in reversed(parts)]
        while waiting:
            part, is_named = waiting.pop()
            self.budget.take()
            if part is False:
                return None
            if not isinstance(part, dict) or id(part) in seen:
                continue
            seen.add(id(part))
            if opens_references and find_reference(part):
                waiting.append((self.follow(part), True))
                waiting.append((self.rest_beside_reference(part), False))
            elif opens_all and isinstance(part.get("allOf"), list):
                waiting.extend((inner, False) for inner in reversed(part["allOf"]))
                waiting.append((self.leave_out(part, ("allOf",)), False))
            elif not SILENT.issuperset(part):
                atoms.append(Atom(part, is_named))
        return atoms

    def join(self, atoms: Iterable[Atom]) -> JoinedPart | None:
        """Return parts as one; None if no value can fit all of them.

        Args:
            atoms: the parts, as `find_atoms` returns them.
        """
        joined = JoinedPart("", list(atoms))
        parts = joined.parts
        joined.place = self.find_place(parts[0]) if parts else ""
        for part in parts:
            self.budget.take(1 + len(part))
            place = self.find_place(part)
            apart = _find_units(joined, part)
            for keyword, value in part.items():
                if apart.get(keyword):
                    self._leave_over(joined, part, keyword, value)
                elif keyword not in SILENT and keyword not in apart:
                    joined.places.setdefault(keyword, f"{place}/{keyword}")
                    self._add_keyword(joined, part, keyword, value)
        self._join_objects(joined, parts)
        self._join_lists(joined, parts)
        return None if _is_contradictory(joined) else joined

    def _add_keyword(self, joined: JoinedPart, part: Part, keyword: str, value: Any) -> None:
        if keyword == "type":
            joined.types = _meet_types(joined.types, [value] if isinstance(value, str) else value)
        elif keyword in ("enum", "const"):
            values = value if keyword == "enum" else [value]
            _meet_literals(joined, values, is_const=keyword == "const")
        elif keyword in FACTS:
            self._add_fact(joined, part, keyword, value)
        elif keyword in ("anyOf", "oneOf"):
            joined.choices.append(Choice(keyword, tuple(value), part, (keyword,)))
        elif keyword in CONDITIONS:
            if joined.conditions.setdefault(keyword, value) is not value:
                self._leave_over(joined, part, keyword, value)
        elif keyword in ANNOTATIONS:
            _add_annotation(joined, keyword, value)
        elif keyword == "dependencies" and self.draft <= _LAST_WITHOUT_SIBLINGS:
            self._add_dependencies(joined, part, value)
        elif keyword not in _STRUCTURE or keyword == "dependencies":
            self._leave_over(joined, part, keyword, value)

    def _add_dependencies(self, joined: JoinedPart, part: Part, value: dict[str, Any]) -> None:
        """Read `dependencies` of draft 7 as the two keywords that came after it."""
        names = {key: one for key, one in value.items() if isinstance(one, list)}
        schemas = {key: one for key, one in value.items() if key not in names}
        if names:
            self._add_fact(joined, part, "dependentRequired", names)
        if schemas and joined.conditions.setdefault("dependentSchemas", schemas) is not schemas:
            self._leave_over(joined, part, "dependentSchemas", schemas)

    def _leave_over(self, joined: JoinedPart, part: Part, keyword: str, value: Any) -> None:
        joined.left_over.append(LeftOver(keyword, value, f"{self.find_place(part)}/{keyword}"))

    def _add_fact(self, joined: JoinedPart, part: Part, keyword: str, value: Any) -> None:
        if isinstance(value, bool) and keyword.startswith("exclusive"):
            return  # draft 4 and OpenAPI 3.0: it is read with the bound
        if keyword in ("minimum", "maximum"):
            exclusive = f"exclusive{keyword[0].upper()}{keyword[1:]}"
            keyword = exclusive if part.get(exclusive) is True else keyword
        known = joined.facts.get(keyword)
        if known is None:
            joined.facts[keyword] = value
        elif keyword in _LEAST:
            joined.facts[keyword] = max(known, value)
        elif keyword in _MOST:
            joined.facts[keyword] = min(known, value)
        elif keyword == "uniqueItems":
            joined.facts[keyword] = known or value
        elif known != value:
            self._leave_over(joined, part, keyword, value)

    def _join_objects(self, joined: JoinedPart, parts: list[Part]) -> None:
        holders: dict[str, list[Part]] = {}
        required = dict.fromkeys(joined.required)
        ordering: dict[str, None] = {}
        for part in parts:
            for name in part.get("properties") or ():
                holders.setdefault(name, []).append(part)
            required.update(dict.fromkeys(part.get("required") or ()))
            ordering.update(_read_ordering(part))
            for pattern, inner in (part.get("patternProperties") or {}).items():
                joined.patterns[pattern] = (*joined.patterns.get(pattern, ()), inner)
        others = [part["additionalProperties"] for part in parts if "additionalProperties" in part]
        if others:
            joined.others = tuple(others)
            self.budget.take(len(holders) * len(parts) // 16)
        joined.required, joined.ordering = list(required), list(ordering)
        for name, holding in holders.items():
            # Only a part with rules for other names says something of a name that it does not have.
            joined.properties[name] = tuple(
                inner
                for part in (parts if others else holding)
                for inner in _find_property(part, name)
            )
        self._read_key_names(joined)
        evaluating = {"allOf", "if", "dependentSchemas"}.intersection(joined.conditions)
        if not joined.choices and not evaluating:
            self._close_evaluated(joined, parts)

    def _close_evaluated(self, joined: JoinedPart, parts: list[Part]) -> None:
        """Refuse the properties that `unevaluatedProperties: false` does not find beside it."""
        for holder in parts:
            if holder.get("unevaluatedProperties") is not False:
                continue
            known = self.find_evaluated(parts, holder)
            for name in joined.properties.keys() - known if known is not None else ():
                joined.properties[name] = (*joined.properties[name], False)
        if joined.conditions.get("unevaluatedProperties") is False and joined.others is None:
            joined.others = (False,)
            del joined.conditions["unevaluatedProperties"]

    def find_evaluated(self, parts: list[Part], holder: Part) -> set[str] | None:
        """Return the properties that `unevaluatedProperties` of a part leaves alone; None for all.

        They are those of the parts that it holds for the same value. Parts beside it, which were joined with it, do
        not count.

        Args:
            parts: the joined parts.
            holder: the one of them that has the keyword.
        """
        origin = self._find_origin(holder)
        inside = {id(one) for one in self.list_same((origin,))} if len(parts) > 1 else set()
        names: set[str] = set()
        for part in parts:
            if part is holder or id(self._find_origin(part)) in inside:
                self.budget.take(1 + len(part))
                others = _EVALUATING_ALL.intersection(part)
                if others and (part is not holder or others != {"unevaluatedProperties"}):
                    return None
                names.update(part.get("properties") or ())
        return names

    def _find_origin(self, part: Part) -> Part:
        """Return the part of the schema that a part was made from."""
        return self._origins.get(id(part), (part, part))[1]

    def list_same(self, parts: Iterable[object]) -> Iterator[Part]:
        """Return parts and all parts in them, and in their references, that may describe the same value."""
        seen: set[int] = set()
        waiting = list(parts)
        while waiting:
            part = waiting.pop()
            self.budget.take()
            if not isinstance(part, dict) or id(part) in seen:
                continue
            seen.add(id(part))
            yield part
            if find_reference(part):
                waiting.append(self.follow(part))
            for keyword in ("allOf", "anyOf", "oneOf"):
                waiting.extend(part.get(keyword) or ())
            waiting.extend(part.get(keyword) for keyword in ("not", "if", "then", "else"))
            waiting.extend((part.get("dependentSchemas") or {}).values())

    def _read_key_names(self, joined: JoinedPart) -> None:
        """Close an object whose keys have a list of names."""
        names = joined.conditions.get("propertyNames")
        atoms = self.find_atoms((names,)) if names is not None and not joined.patterns else None
        keys = self.join(atoms) if atoms else None
        if keys is None or keys.literals is None or keys.facts or keys.conditions or keys.choices:
            return
        found = [key for key in keys.literals if isinstance(key, str)]
        if set(joined.properties).difference(found):
            return
        for name in found:
            joined.properties.setdefault(name, joined.others or (True,))
        joined.others = (False,)
        del joined.conditions["propertyNames"]

    def _join_lists(self, joined: JoinedPart, parts: list[Part]) -> None:
        heads: list[list[RawPart]] = []
        rests: list[RawPart | None] = []
        for part in parts:
            head, rest = part.get("prefixItems"), part.get("items")
            if isinstance(rest, list):  # until draft 2019-09
                head, rest = rest, part.get("additionalItems")
            if head or rest is not None:
                heads.append(head if isinstance(head, list) else [])
                rests.append(rest)
        for at in range(max(map(len, heads), default=0)):
            items = (
                head[at] if at < len(head) else rest
                for head, rest in zip(heads, rests, strict=True)
            )
            joined.prefix.append(tuple(item for item in items if item is not None))
        given = tuple(rest for rest in rests if rest is not None)
        if given:
            joined.items = given

    def write_words(self, value: object) -> object:
        """Return a value for a description, with short parts in place of their references."""
        return self._write_words(value, [_LONGEST_WORDS], set())

    def _write_words(self, value: object, left: list[int], opened: set[int]) -> object:
        if isinstance(value, list):
            return [self._write_words(inner, left, opened) for inner in value]
        if not isinstance(value, dict):
            return value
        if isinstance(value.get("$ref"), str):
            target = self.follow(value)
            left[0] -= len(msgspec.json.encode(target))
            if left[0] < 0 or id(target) in opened:
                return value
            rest = {name: inner for name, inner in value.items() if name != "$ref"}
            written = self._write_words(target, left, {*opened, id(target)})
            return {**written, **rest} if isinstance(written, dict) else written
        return {name: self._write_words(inner, left, opened) for name, inner in value.items()}


def _replace_true(value: Part, *, is_map: bool) -> None:
    """Write `{}` for a part that is true, so that it has a place."""
    for key, inner in value.items():
        if inner is True and (is_map or key == "items"):
            value[key] = {}
        elif isinstance(inner, list) and key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            value[key] = [{} if one is True else one for one in inner]


def _encode_json(schema: Mapping[str, object]) -> bytes:
    """Return a schema as JSON; unpaired surrogates are replaced, as in a request."""
    try:
        return msgspec.json.encode(schema)
    except UnicodeEncodeError:
        return json.dumps(schema, ensure_ascii=False).encode("utf-8", "replace")


def _find_units(joined: JoinedPart, part: Part) -> dict[str, bool]:
    """Return the keywords of a part that cannot be joined: without their leading keyword, or beside another one.

    The value is whether they mean something.
    """
    return {
        keyword: keyword in part and leading in part
        for leading, *rest in _UNITS
        if leading in joined.conditions or leading not in part
        for keyword in ((leading, *rest) if leading in part else rest)
    }


def _meet_types(known: tuple[str, ...] | None, given: Iterable[str]) -> tuple[str, ...]:
    """Return the types that are in both lists; an integer is a number."""
    names = tuple(given)
    if known is None:
        return names
    found = [name for name in known if allows_type(names, name)]
    found += [name for name in names if name not in found and allows_type(known, name)]
    return tuple(found)


def _meet_literals(joined: JoinedPart, values: list[Any], *, is_const: bool) -> None:
    if joined.literals is not None:
        known = set(map(write_key, joined.literals))
        values = [one for one in values if write_key(one) in known]
    joined.literals = values
    joined.is_const = joined.is_const or is_const


def _add_annotation(joined: JoinedPart, keyword: str, value: Any) -> None:
    """Add an annotation: the first one counts, and descriptions stand below each other."""
    if keyword in ("title", "description") and not isinstance(value, str):
        return
    known = joined.annotations.get(keyword, "")
    if keyword not in joined.annotations:
        joined.annotations[keyword] = value
    elif keyword == "description" and value not in known:
        joined.annotations[keyword] = f"{known}\n\n{value}" if known else value


def _read_ordering(part: Part) -> dict[str, None]:
    """Return the names in `propertyOrdering`, in their order."""
    given = part.get("propertyOrdering")
    names = given if isinstance(given, list) else ()
    return dict.fromkeys(name for name in names if isinstance(name, str))


def _find_property(part: Part, name: str) -> Iterator[RawPart]:
    """Return the parts that a property of one of the parts of an object must fit."""
    named = (part.get("properties") or {}).get(name)
    if named is not None:
        yield named
    elif "additionalProperties" in part and not part.get("patternProperties"):
        yield part["additionalProperties"]


def _is_contradictory(joined: JoinedPart) -> bool:
    """Whether no value can fit: no type is left, or a bound is above the other."""
    if joined.types is not None:
        if not joined.types:
            return True
        for name, least, most in _RANGES:
            low, high = joined.facts.get(least), joined.facts.get(most)
            if low is not None and high is not None and low > high:
                joined.types = tuple(one for one in joined.types if not allows_type((name,), one))
        return not joined.types
    return False
