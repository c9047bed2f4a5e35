"""Judges whether a provider takes a JSON Schema, by the rules of its dialect.

It is written from the rules alone and judges the conversion, so it must never import it. It must never raise and never
loop: a part that occurs twice is read once, and a schema with too many parts or faults is judged in part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from holdfast.codecs.schemas.dialects import ANNOTATIONS, Dialect


class SchemaFault(Struct, frozen=True):
    """One reason for which a provider refuses a schema.

    Args:
        place: the part, as a JSON pointer.
        problem: what is wrong, in the words of the provider where they are known.
        rule: the field of `Dialect` that is broken; or `form` for a keyword with a wrong value, `reference` for a
            reference to nothing, and `properties` for an object of OpenAI's without this keyword.
        keyword: the keyword that breaks it, or "".
    """

    place: str
    problem: str
    rule: str
    keyword: str = ""


_MOST_PARTS = 50_000
_MOST_FAULTS = 100

_TYPES: Final = ("string", "number", "integer", "boolean", "null", "object", "array")
_MAPS = frozenset({"$defs", "definitions", "properties", "patternProperties", "dependentSchemas"})
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLE = frozenset({
    "contains", "else", "if", "items", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
_DEFINITIONS = frozenset({"$defs", "definitions"})
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_TYPING = ("type", "$ref", "anyOf", "enum", "const")
_FREE_OF_RULES = ANNOTATIONS | _DEFINITIONS
# Only these compile references to any part; the others find definitions by their names.
_TAKES_DEEP_REFERENCES = frozenset(
    {"openai_tool", "anthropic_tool", "llguidance", "llama_cpp", "xgrammar"}
)

_LOOK_AROUND = re.compile(r"\(\?<?[=!]")
_BACK_REFERENCE = re.compile(r"\\[1-9]|\\k<|\(\?P=")


class _Part(Struct, eq=False):
    """A part of a schema, and how it was reached.

    Args:
        schema: the part: a mapping, or what stands in its place.
        parent: the part that holds it.
        steps: the steps from there: a keyword and a name or number.
        level: how many objects and arrays it is inside of, with itself.
        skippable: whether a value may be without this part.
        children: the parts inside of it, without its definitions.
    """

    schema: object
    parent: _Part | None = None
    steps: tuple[str, ...] = ()
    level: int = 0
    skippable: bool = False
    children: list[_Part] = []

    @property
    def place(self) -> str:
        """The place of the part, as a JSON pointer."""
        steps: list[str] = []
        part: _Part | None = self
        while part is not None:
            steps += reversed(part.steps)
            part = part.parent
        return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in reversed(steps))


def find_faults(schema: object, dialect: Dialect) -> list[SchemaFault]:
    """Return the reasons for which a provider refuses a schema: at most 100, and none if it takes it.

    The limits of a whole request are counted by `find_request_faults`.

    Args:
        schema: the schema as it is sent.
        dialect: the provider's dialect.

    >>> from holdfast.codecs.schemas.dialects import OPENAI_STRICT
    >>> [fault.problem for fault in find_faults({"type": "object", "properties": {}}, OPENAI_STRICT)]
    ["'additionalProperties' is required to be supplied and to be false."]
    """
    if not isinstance(schema, Mapping):
        return [
            _Judge(dialect, [_Part(schema)]).make_fault(
                "form", _Part(schema), detail="is no object"
            )
        ]
    parts = _list_parts(schema)
    judge = _Judge(dialect, parts)
    faults: list[SchemaFault] = []
    for fault in judge.judge_parts():
        faults.append(fault)
        if len(faults) == _MOST_FAULTS:
            break
    return faults


def find_request_faults(schemas: Sequence[object], dialect: Dialect) -> list[SchemaFault]:
    """Return the limits of a request that its enforced schemas together exceed.

    Args:
        schemas: the strict tools and the output.
        dialect: the provider's dialect.

    >>> from holdfast.codecs.schemas.dialects import ANTHROPIC_STRICT
    >>> find_request_faults([{"type": "object", "properties": {"a": {"type": "string"}}}] * 25, ANTHROPIC_STRICT)[1].problem
    'Schemas contains too many optional parameters (25), which would make grammar compilation inefficient. Reduce the number of optional parameters in your tool schemas (limit: 24).'
    """
    optional = unions = 0
    for schema in schemas:
        for part in _list_parts(schema):
            if isinstance(part.schema, Mapping):
                optional += len(_optional_names(part.schema))
                unions += "anyOf" in part.schema or isinstance(
                    part.schema.get("type"), list | tuple
                )
    limits = dialect.limits
    counted = (
        ("strict_schemas", len(schemas), limits.strict_schemas),
        ("optional", optional, limits.optional),
        ("unions", unions, limits.unions),
    )
    return [
        SchemaFault("", _REQUEST_LIMITS[name].format(count=count, limit=limit), "limits")
        for name, count, limit in counted
        if limit is not None and count > limit
    ]


def _list_parts(schema: object) -> list[_Part]:
    """Return the parts of a schema, each object once, from the top."""
    top = _Part(schema)
    parts, known, waiting = [top], {id(schema): top}, [top]
    while waiting and len(parts) < _MOST_PARTS:
        part = waiting.pop()
        if not isinstance(part.schema, Mapping):
            continue
        part.level += _is_nested(part.schema)
        children: list[_Part] = []
        for steps, inner, skippable in _iter_inside(part.schema):
            child = known.get(id(inner)) if isinstance(inner, Mapping) else None
            if child is None:
                child = _Part(inner, part, steps, 0, skippable)
                known[id(inner)] = child
                parts.append(child)
                waiting.append(child)
                child.level = 0 if steps[0] in _DEFINITIONS else part.level
            if steps[0] not in _DEFINITIONS:
                children.append(child)
        part.children = children
    return parts


def _iter_inside(schema: Mapping[str, object]) -> Iterator[tuple[tuple[str, ...], object, bool]]:
    """Yield the parts of one part: the steps to it, the part, and whether a value may be without it."""
    optional = _optional_names(schema)
    for keyword, value in schema.items():
        if keyword in _MAPS and isinstance(value, Mapping):
            for name, inner in value.items():
                yield (keyword, str(name)), inner, keyword != "properties" or name in optional
        elif keyword in _LISTS and isinstance(value, list | tuple):
            # A branch may be left out if another one takes null.
            is_nullable = any(
                isinstance(one, Mapping) and one.get("type") == "null" for one in value
            )
            for at, inner in enumerate(value):
                yield (keyword, str(at)), inner, is_nullable and keyword != "allOf"
        elif keyword in _SINGLE and isinstance(value, Mapping | bool):
            yield (keyword,), value, keyword == "items" and not schema.get("minItems")
        elif keyword == "additionalProperties" and isinstance(value, Mapping):
            yield (keyword,), value, True


def _optional_names(schema: Mapping[str, object]) -> set[str]:
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping):
        return set()
    needed = (
        {name for name in required if isinstance(name, str)}
        if isinstance(required, list | tuple)
        else set()
    )
    return {name for name in properties if name not in needed}


def _types_of(schema: Mapping[str, object]) -> list[object]:
    value = schema.get("type")
    return list(value) if isinstance(value, list | tuple) else [] if value is None else [value]


def _is_object(schema: Mapping[str, object]) -> bool:
    return "object" in _types_of(schema) or ("properties" in schema and "type" not in schema)


def _is_nested(schema: Mapping[str, object]) -> bool:
    return _is_object(schema) or "array" in _types_of(schema)


class _Judge:
    """Judges the parts of one schema."""

    def __init__(self, dialect: Dialect, parts: list[_Part]) -> None:
        self._dialect = dialect
        self._parts = parts
        self._family = dialect.name.partition("_")[0]
        self._targets: dict[int, _Part] = {}

    def make_fault(self, rule: str, part: _Part, keyword: str = "", **words: object) -> SchemaFault:
        template = _WORDS.get(self._family, {}).get(rule) or _WORDS[""][rule]
        place = part.place
        dotted = place.removeprefix("/").replace("/", ".")
        problem = template.format(keyword=keyword, place=dotted, **words)
        return SchemaFault(place, problem, rule, keyword)

    def judge_parts(self) -> Iterator[SchemaFault]:
        if len(self._parts) >= _MOST_PARTS:
            yield self.make_fault("form", self._parts[0], detail=f"has over {_MOST_PARTS} parts")
        yield from self._judge_top()
        for part in self._parts:
            if not isinstance(part.schema, Mapping):
                yield from self._judge_other(part)
            elif form := list(self._judge_form(part, part.schema)):
                yield from form
            else:
                for check in _CHECKS:
                    yield from check(self, part, part.schema)
        yield from self._judge_recursion()
        yield from self._judge_limits()

    def _judge_top(self) -> Iterator[SchemaFault]:
        dialect, top = self._dialect, self._parts[0]
        schema = top.schema
        assert isinstance(schema, Mapping)  # noqa: S101  # the caller has checked it
        if dialect.needs_object and schema.get("type") != "object":
            kind = schema.get("type")
            shown = kind if isinstance(kind, str) else "None"
            yield self.make_fault("needs_object", top, "type", value=shown)
        for keyword in sorted(dialect.refused_at_top & schema.keys()):
            yield self.make_fault("refused_at_top", top, keyword)
        if (
            self._family == "openai"
            and schema.get("type") == "object"
            and "properties" not in schema
        ):
            yield self.make_fault("properties", top, "properties")

    def _judge_other(self, part: _Part) -> Iterator[SchemaFault]:
        """Judge what stands in the place of a part: true and false are schemas, too."""
        if not isinstance(part.schema, bool):
            yield self.make_fault("form", part, detail="is no schema")
        elif self._family == "xai" and part.steps[:1] == ("properties",):
            yield self.make_fault("form", part, detail="a property cannot be true or false")
        elif self._dialect.needs_types:
            yield self.make_fault("needs_types", part)
        elif not self._dialect.takes_empty:
            shown = "true" if part.schema else "false"
            yield self.make_fault("takes_empty", part, shown, schema=shown)

    def _judge_form(self, part: _Part, schema: Mapping[str, object]) -> Iterator[SchemaFault]:
        for keyword, value in schema.items():
            if detail := _describe_form(keyword, value):
                yield self.make_fault("form", part, keyword, detail=f"{keyword!r} {detail}")
        for kind in _types_of(schema):
            if kind not in _TYPES:
                yield self.make_fault("form", part, "type", detail=f"{str(kind)[:80]!r} is no type")

    def judge_keywords(self, part: _Part, schema: Mapping[str, object]) -> Iterator[SchemaFault]:
        taken = self._dialect.keywords
        if taken is None:
            return
        kind = next(iter(_types_of(schema)), "any")
        for keyword in schema:
            if keyword not in taken and keyword not in ANNOTATIONS:
                yield self.make_fault("keywords", part, keyword, type=kind)

    def judge_reference(self, part: _Part, schema: Mapping[str, object]) -> Iterator[SchemaFault]:
        if "$ref" not in schema:
            return
        dialect, reference = self._dialect, str(schema["$ref"])
        if dialect.beside_reference is not None:
            free = dialect.beside_reference | _DEFINITIONS | {"$ref"}
            if others := sorted(set(schema) - free):
                names = "{" + ", ".join(map(repr, others)) + "}"
                yield self.make_fault("beside_reference", part, others[0], names=names)
        target = _find_target(self._parts[0].schema, reference)
        if target is None:
            shown = reference[:200]
            missing = _find_missing_step(self._parts[0].schema, reference)[:200]
            detail = f"{shown!r} leads to nothing"
            yield self.make_fault(
                "reference", part, "$ref", detail=detail, value=shown, missing=missing
            )
        elif reference == "#":
            if not dialect.refers_to_root:
                yield self.make_fault("refers_to_root", part, "$ref")
        elif dialect.name not in _TAKES_DEEP_REFERENCES and not _names_definition(reference):
            yield self.make_fault(
                "reference", part, "$ref", detail=_DEEP_REFERENCE, value=reference, missing=""
            )

    def judge_types(self, part: _Part, schema: Mapping[str, object]) -> Iterator[SchemaFault]:
        dialect = self._dialect
        kinds = {kind for kind in _types_of(schema) if isinstance(kind, str)}
        if dialect.needs_types and not any(keyword in schema for keyword in _TYPING):
            yield self.make_fault("needs_types", part)
        elif not dialect.takes_empty and not set(schema) - _FREE_OF_RULES:
            shown = msgspec.json.encode(schema).decode()[:200]
            yield self.make_fault("takes_empty", part, next(iter(schema), ""), schema=shown)
        if not dialect.takes_type_lists and isinstance(schema.get("type"), list | tuple):
            yield self.make_fault("takes_type_lists", part, "type")
        for keyword in ("enum", "const"):
            if keyword in schema:
                yield from self._judge_literals(part, schema, keyword)
        if dialect.formats is not None and "format" in schema:
            value = schema["format"]
            takes_keyword = dialect.keywords is None or "format" in dialect.keywords
            # OpenAI's server answered requests with formats of numbers, such as int64.
            is_number = self._family == "openai" and bool({"integer", "number"} & kinds)
            if takes_keyword and not is_number and value not in dialect.formats:
                yield self.make_fault("formats", part, "format", value=str(value)[:80])

    def _judge_literals(
        self, part: _Part, schema: Mapping[str, object], keyword: str
    ) -> Iterator[SchemaFault]:
        dialect, value = self._dialect, schema[keyword]
        if not dialect.types_literals and "type" in schema:
            yield self.make_fault("types_literals", part, keyword)
        values = value if keyword == "enum" and isinstance(value, list | tuple) else [value]
        for kind in sorted({_literal_type(one) for one in values} - dialect.literal_types):
            yield self.make_fault("literal_types", part, keyword, value=kind)
        limits = dialect.limits
        if limits.long_enum is not None and len(values) > limits.long_enum:
            size = sum(len(one) for one in values if isinstance(one, str))
            if limits.long_enum_characters is not None and size > limits.long_enum_characters:
                detail = f"an enum of {len(values)} values has {size} characters"
                yield self.make_fault(
                    "limits", part, keyword, detail=detail, limit=limits.long_enum_characters
                )

    def judge_objects(self, part: _Part, schema: Mapping[str, object]) -> Iterator[SchemaFault]:
        dialect = self._dialect
        properties = schema.get("properties", {})
        assert isinstance(properties, Mapping)  # noqa: S101  # its form was judged
        if dialect.property_names is not None:
            pattern = dialect.property_names
            for name in properties:
                if not re.fullmatch(pattern.strip("^$"), str(name)):
                    yield self.make_fault(
                        "property_names", part, "properties", value=str(name)[:80], pattern=pattern
                    )
                    break
        if not _is_object(schema):
            return
        if dialect.closes_objects and schema.get("additionalProperties") is not False:
            yield self.make_fault("closes_objects", part, "additionalProperties")
        if dialect.requires_all:
            required = schema.get("required", [])
            assert isinstance(required, list | tuple)  # noqa: S101  # its form was judged
            needed = set(required)
            if missing := [name for name in properties if name not in needed]:
                detail = f"Missing {str(missing[0])[:80]!r}"
                names = ", ".join(str(name)[:80] for name in missing[:10])
                yield self.make_fault("requires_all", part, "required", detail=detail, names=names)
            elif extra := [name for name in required if name not in properties]:
                detail = f"Extra required key {str(extra[0])[:80]!r} supplied"
                yield self.make_fault("requires_all", part, "required", detail=detail, names="")

    def judge_arrays(self, part: _Part, schema: Mapping[str, object]) -> Iterator[SchemaFault]:
        dialect = self._dialect
        has_items = "items" in schema or "prefixItems" in schema
        if dialect.needs_items and "array" in _types_of(schema) and not has_items:
            yield self.make_fault("needs_items", part, "items")
        fewest, largest = schema.get("minItems"), dialect.largest_min_items
        if largest is not None and isinstance(fewest, int | float) and fewest > largest:
            yield self.make_fault("largest_min_items", part, "minItems", value=fewest)
        first = schema.get("prefixItems")
        if dialect.fixed_tuples and isinstance(first, list | tuple):
            size = len(first)
            if (fewest, schema.get("maxItems")) != (size, size):
                yield self.make_fault("fixed_tuples", part, "prefixItems", value=size)

    def judge_choices(self, part: _Part, schema: Mapping[str, object]) -> Iterator[SchemaFault]:
        dialect, branches = self._dialect, schema.get("anyOf")
        if not isinstance(branches, list | tuple):
            return
        if dialect.most_branches is not None and len(branches) > dialect.most_branches:
            limit = dialect.most_branches
            yield self.make_fault("most_branches", part, "anyOf", value=len(branches), limit=limit)
        others = sorted(set(schema) - _FREE_OF_RULES - {"anyOf"})
        if not dialect.joins_choices and others:
            yield self.make_fault("joins_choices", part, "anyOf", names=", ".join(others))

    def judge_bounds(self, part: _Part, schema: Mapping[str, object]) -> Iterator[SchemaFault]:
        kinds = _types_of(schema)
        if not self._dialect.whole_bounds or "integer" not in kinds or "number" in kinds:
            return
        for keyword in _BOUNDS:
            value = schema.get(keyword)
            if isinstance(value, float) and not value.is_integer():
                yield self.make_fault("whole_bounds", part, keyword)

    def judge_pattern(self, part: _Part, schema: Mapping[str, object]) -> Iterator[SchemaFault]:
        pattern, form = schema.get("pattern"), self._dialect.patterns
        if isinstance(pattern, str) and (detail := _describe_pattern(pattern, form)):
            yield self.make_fault("patterns", part, "pattern", detail=detail)

    def _judge_recursion(self) -> Iterator[SchemaFault]:
        """Find a part that contains itself; with "optional", by a way that no value can avoid."""
        if self._dialect.recursion == "any":
            return
        is_optional = self._dialect.recursion == "optional"
        known = {id(part.schema): part for part in self._parts}
        graph: dict[int, set[int]] = {}
        for part in self._parts:
            inside = {
                id(child.schema) for child in part.children if not (is_optional and child.skippable)
            }
            if isinstance(part.schema, Mapping) and "$ref" in part.schema:
                target = _find_target(self._parts[0].schema, str(part.schema["$ref"]))
                inside.add(id(target))
            graph[id(part.schema)] = inside
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            parts = [known[one] for one in error.args[1] if one in known]
            yield self.make_fault("recursion", parts[0] if parts else self._parts[0], "$ref")

    def _judge_limits(self) -> Iterator[SchemaFault]:
        limits, top = self._dialect.limits, self._parts[0]
        schemas = [part.schema for part in self._parts if isinstance(part.schema, Mapping)]
        names = [
            str(name)
            for schema in schemas
            for key in ("properties", *_DEFINITIONS)
            for name in _keys_of(schema, key)
        ]
        values = [value for schema in schemas for value in _literals_of(schema)]
        texts = sum(len(name) for name in names) + sum(
            len(one) for one in values if isinstance(one, str)
        )
        counted = (
            ("levels of nesting", max(part.level for part in self._parts), limits.levels),
            (
                "properties",
                sum(len(_keys_of(one, "properties")) for one in schemas),
                limits.properties,
            ),
            ("enum values", len(values), limits.enum_values),
            ("characters", texts, limits.characters),
        )
        for noun, count, limit in counted:
            if limit is not None and count > limit:
                yield self.make_fault("limits", top, detail=f"{count} {noun}", limit=limit)


_Check: TypeAlias = Callable[[_Judge, _Part, Mapping[str, object]], Iterator[SchemaFault]]
_CHECKS: tuple[_Check, ...] = (
    _Judge.judge_keywords,
    _Judge.judge_reference,
    _Judge.judge_types,
    _Judge.judge_objects,
    _Judge.judge_arrays,
    _Judge.judge_choices,
    _Judge.judge_bounds,
    _Judge.judge_pattern,
)


def _describe_form(keyword: str, value: object) -> str:
    """Return what is wrong with the value of a keyword, whatever the dialect; "" if nothing is."""
    if keyword in _MAPS and not isinstance(value, Mapping):
        return "must be an object"
    if keyword in _LISTS and not (isinstance(value, list | tuple) and value):
        return "must be a list with at least one schema"
    if keyword == "enum" and not (isinstance(value, list | tuple) and value):
        return "must be a list with at least one value"
    if keyword == "required":
        is_listed = isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)
        return "" if is_listed else "must be a list of names"
    if keyword in ("$ref", "pattern", "format") and not isinstance(value, str):
        return "must be a text"
    return ""


def _describe_pattern(pattern: str, form: str) -> str:
    """Return which part of a pattern is not supported; "" if all are."""
    if form == "none":
        return "patterns are not supported"
    if form == "any":
        return ""
    plain = pattern.replace(
        "\\\\", ""
    )  # without escaped backslashes, so that each backslash begins an escape
    if _LOOK_AROUND.search(plain.replace("\\(", "")):
        return "regex lookaround is not supported"
    if _BACK_REFERENCE.search(plain):
        return "back references are not supported"
    if "\\b" in plain or "\\B" in plain:
        return "word boundaries are not supported"
    if form == "llama_cpp":
        if not (pattern.startswith("^") and plain.endswith("$") and not plain.endswith("\\$")):
            return "Pattern must start with '^' and end with '$'"
        if found := re.search(r"\\[a-zA-Z]", plain.replace("\\n", "").replace("\\t", "")):
            return f"{found[0]} is not supported"
    return ""


def _literal_type(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case Mapping():
            return "object"
        case _:
            return "array"


def _literals_of(schema: Mapping[str, object]) -> list[object]:
    values = schema.get("enum")
    found = list(values) if isinstance(values, list | tuple) else []
    return [*found, schema["const"]] if "const" in schema else found


def _keys_of(schema: Mapping[str, object], keyword: str) -> Mapping[str, object]:
    value = schema.get(keyword)
    return value if isinstance(value, Mapping) else {}


def _find_target(schema: object, reference: str) -> object | None:
    """Return what a reference leads to inside of the schema; None if it leads nowhere, or elsewhere."""
    if not reference.startswith("#"):
        return None
    found: object = schema
    for step in reference[1:].split("/")[1:] if "/" in reference else []:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = found.get(name)
        elif (
            isinstance(found, list | tuple)
            and name.isdecimal()
            and len(name) < 8
            and int(name) < len(found)
        ):
            found = found[int(name)]
        else:
            return None
    return (
        found
        if isinstance(found, Mapping | bool) and (reference == "#" or "/" in reference)
        else None
    )


def _find_missing_step(schema: object, reference: str) -> str:
    """Return the first name of a reference that is not there."""
    found: object = schema
    for step in reference.removeprefix("#/").split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or name not in found:
            return name
        found = found[name]
    return ""


def _names_definition(reference: str) -> bool:
    steps = reference.split("/")
    return len(steps) == 3 and steps[0] == "#" and steps[1] in _DEFINITIONS


_DEEP_REFERENCE = "can only point to definitions defined at the top level of the schema"

_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "": {
        "form": "the schema is malformed: {detail}",
        "reference": "the reference {detail}",
        "properties": "'properties' is missing",
        "keywords": "the keyword '{keyword}' is not supported",
        "formats": "the format '{value}' is not supported",
        "beside_reference": "'$ref' cannot have siblings {names}",
        "recursion": "the schema contains itself",
        "refers_to_root": "a reference to '#' is not supported",
        "takes_empty": "a schema for every value is not supported",
        "fixed_tuples": "'prefixItems' needs minItems and maxItems of {value}",
        "closes_objects": "'additionalProperties' must be false",
        "requires_all": "'required' must name every property: {detail}",
        "needs_types": "a type is missing",
        "needs_items": "an array needs 'items'",
        "needs_object": "the top must have the type 'object', not '{value}'",
        "refused_at_top": "the top cannot have '{keyword}'",
        "patterns": "the pattern is refused: {detail}",
        "property_names": "the name '{value}' does not match '{pattern}'",
        "takes_type_lists": "a list of types is not supported",
        "types_literals": "'type' cannot stand beside '{keyword}'",
        "literal_types": "'{keyword}' cannot hold a value of the type '{value}'",
        "joins_choices": "'anyOf' cannot stand beside {names}",
        "most_branches": "'anyOf' has {value} branches, more than {limit}",
        "largest_min_items": "'minItems' cannot be {value}",
        "whole_bounds": "'{keyword}' of an integer must be a whole number",
        "limits": "{detail} exceed the limit of {limit}",
    },
    # The refusals of OpenAI's server, which are in the sources of `dialects.py`.
    "openai": {
        "properties": "object schema missing properties.",
        "keywords": "'{keyword}' is not permitted.",
        "formats": "'{value}' is not a valid format.",
        "reference": "reference {detail}.",
        "beside_reference": "$ref cannot have keywords {names}.",
        "closes_objects": "'additionalProperties' is required to be supplied and to be false.",
        "requires_all": "'required' is required to be supplied and to be an array including every key in properties. {detail}.",
        "needs_types": "schema must have a 'type' key.",
        "needs_items": "array schema missing items.",
        "needs_object": "schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{value}\"'.",
        "refused_at_top": "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.",
        "patterns": "{detail}.",
        "limits": "{detail} exceeds limit of {limit}.",
    },
    # Those of Anthropic's and of Google's.
    "anthropic": {
        "keywords": "For '{type}' type, property '{keyword}' is not supported",
        "closes_objects": "For 'object' type, 'additionalProperties' must be explicitly set to false",
        "largest_min_items": "For 'array' type, 'minItems' values other than 0 or 1 are not supported (got: {value})",
        "refused_at_top": "input_schema does not support oneOf, allOf, or anyOf at the top level",
        "property_names": "Property keys should match pattern '{pattern}'",
    },
    "gemini": {
        "beside_reference": "schema at {place} can only contain properties starting with '$' when $ref is present",
        "recursion": "ref loops are only supported if they include optional or nullable property values, or a potentially-zero-length array items, but a ref loop of required fields was found at {place}",
    },
    # agno#6013, claude-code-router#708.
    "cerebras": {
        "closes_objects": "'additionalProperties' is required to be supplied and set to false.",
        "keywords": "Unsupported JSON schema fields: {{'{keyword}'}}",
    },
    # eigent#1786, and a published recording; beeai-framework#1215.
    "groq": {
        "closes_objects": "additionalProperties:false must be set on every object",
        "requires_all": "The following properties must be listed in `required`: {names}",
        "keywords": "{keyword} is not supported",
    },
    # club-3090#45, paroquant#31.
    "llguidance": {
        "keywords": 'Unimplemented keys: ["{keyword}"]',
        "formats": "Unknown format: {value}",
    },
    # BrowserOS#255, and its `json-schema-to-grammar.cpp`.
    "llama": {
        "takes_empty": "Unrecognized schema: {schema}",
        "patterns": "{detail}",
        "reference": "Error resolving ref {value}: {missing} not in {{...}}",
    },
    # Its `json_schema_converter.cc`, and a published recording of the first one.
    "xgrammar": {
        "reference": "Cannot find field {missing} in {value}",
        "whole_bounds": "Integer constraint must be a whole number",
    },
    # CLIProxyAPI#4343.
    "xai": {
        "needs_object": "tool parameter root must be an object type",
        "refused_at_top": "tool parameter root must be an object type (root schema is an anyOf/oneOf union with a non-object branch)",
    },
}  # fmt: skip

_REQUEST_LIMITS: Final = {
    "strict_schemas": "Too many strict tools ({count}). The maximum number of strict tools supported is {limit}. Try reducing the number of tools marked as strict.",
    "optional": "Schemas contains too many optional parameters ({count}), which would make grammar compilation inefficient. Reduce the number of optional parameters in your tool schemas (limit: {limit}).",
    "unions": "Schemas contains too many parameters with union types ({count} parameters with type arrays or anyOf). This causes exponential compilation cost. Reduce the number of nullable or union-typed parameters (limit: {limit} parameters with unions).",
}  # fmt: skip
"""The refusals of Anthropic's server, which were recorded."""
