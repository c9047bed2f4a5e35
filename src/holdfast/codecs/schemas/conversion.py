"""Converts a JSON Schema to the dialect of a provider, with everything that the conversion changed.

The schema that is sent allows every value that the original allows, in the form that is sent. What a dialect cannot
enforce is said in descriptions, and validated later with the original. This module must never drop a constraint in
silence, nor send an object that can only be empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.codecs.schemas.dialects import Dialect
from holdfast.codecs.schemas.joined_parts import (
    Atom,
    Choice,
    JoinedPart,
    PartReader,
    UnusableSchemaError,
)
from holdfast.codecs.schemas.part_choices import combine_choices, is_assertion, unite_choices
from holdfast.codecs.schemas.part_keywords import (
    DATA,
    MAPS,
    Part,
    allows_type,
)
from holdfast.codecs.schemas.part_writer import USE_ANOTHER, PartWriter
from holdfast.codecs.schemas.rewriting import RewriteNode
from holdfast.codecs.schemas.sent_parts import (
    Edge,
    SaidConstraints,
    SchemaSize,
    SentGraph,
    SentPart,
    find_excess,
    find_request_excess,
)
from holdfast.core.schema_checks.schema_limits import StepsExceededError

_SAME_FORM: Final = "The same form as the value around it."


class ConvertedSchema(Struct, frozen=True):
    """A schema in the dialect of a provider.

    Args:
        schema: the schema to send.
        moved: the constraints, defaults and examples that stand in descriptions, as JSON pointers into the original.
        unenforced: the constraints that the provider does not enforce, as JSON pointers into the original.
        narrowed: the parts of which only a part can be sent, as JSON pointers into the original: objects without
            `additionalProperties` are closed, and parts without a type get the one that their keywords are for.
        size: how large it is.
        rewriting: how values come back in the form of the original; None if they already have it.
    """

    schema: dict[str, Any]
    moved: tuple[str, ...] = ()
    unenforced: tuple[str, ...] = ()
    narrowed: tuple[str, ...] = ()
    size: SchemaSize = SchemaSize()
    rewriting: RewriteNode | None = None

    @property
    def is_lossless(self) -> bool:
        """Whether the provider enforces exactly the original, and values need no rewriting."""
        return not (self.moved or self.unenforced or self.narrowed or self.rewriting)


class RefusedSchema(Struct, frozen=True):
    """A schema that cannot be said in the dialect.

    Args:
        place: the place in the original, as a JSON pointer.
        problem: the fault, in words that follow the place.
        fix: the way out.
    """

    place: str
    problem: str
    fix: str = ""


def convert_schema(
    schema: Mapping[str, object], dialect: Dialect
) -> ConvertedSchema | RefusedSchema:
    """Convert a schema to a dialect.

    The same schema gives the same result each time; a caller who converts it often keeps the result.

    Args:
        schema: the schema; it is not changed.
        dialect: the dialect.

    >>> from holdfast.codecs.schemas.dialects import ANTHROPIC_STRICT, OPENAI_STRICT
    >>> trip = {
    ...     "type": "object",
    ...     "properties": {"days": {"type": "integer", "minimum": 1}},
    ...     "required": ["days"],
    ... }
    >>> convert_schema(trip, ANTHROPIC_STRICT).schema["properties"]
    {'days': {'type': 'integer', 'description': '{"minimum":1}'}}
    >>> convert_schema({"type": "object"}, OPENAI_STRICT).problem
    'has free keys, which OpenAI (strict) does not take'
    """
    try:
        return _Converter(PartReader(schema), dialect).convert()
    except UnusableSchemaError as error:
        return RefusedSchema(error.place, error.problem, error.fix)
    except (StepsExceededError, RecursionError):
        return RefusedSchema("", "is too large", "Leave parts of it out")


class _Converter:
    def __init__(self, reader: PartReader, dialect: Dialect) -> None:
        self._reader = reader
        self._dialect = dialect
        self._writer = PartWriter(reader, dialect)

    def convert(self) -> ConvertedSchema | RefusedSchema:
        """Write the schema, break its cycles, and count it."""
        writer, dialect = self._writer, self._dialect
        sent = self._write_top()
        if dialect.recursion == "optional":
            self._open_cycles(sent)
        graph = SentGraph(sent, writer.sent.objects)
        if dialect.recursion == "none" and (cycle := graph.find_cycle(passes_optional=True)):
            place = self._find_place(cycle)
            raise writer.refuse(place, "contains itself", "Nest it a fixed number of times")
        rewriting = graph.make_rewriting(writer.sent.keys.make_name)
        size = graph.measure()
        if excess := find_excess(size, dialect.limits):
            return RefusedSchema("", f"{excess} for {dialect.vendor}", USE_ANOTHER)
        if excess := find_request_excess([size], dialect.limits):
            return RefusedSchema("", f"has {excess} for {dialect.vendor}", USE_ANOTHER)
        return ConvertedSchema(
            sent,
            moved=tuple(writer.sent.moved),
            unenforced=tuple(writer.sent.unenforced),
            narrowed=tuple(writer.sent.narrowed),
            size=size,
            rewriting=rewriting,
        )

    def _write_top(self) -> Part:
        """Return the whole schema as it is sent, with its cycles."""
        dialect = self._dialect
        takes_all = dialect.keywords is None or "allOf" in dialect.keywords
        opens_all = not takes_all or "allOf" in dialect.refused_at_top
        atoms = self._reader.find_atoms((self._reader.root,), opens_all=opens_all)
        joined = self._reader.join(atoms) if atoms is not None else None
        sent: SentPart = False
        if atoms is not None and joined is not None:
            top = self._make_object(atoms, joined) if dialect.needs_object else atoms
            sent = self._writer.write_top(top)
        if sent is False:
            raise UnusableSchemaError("", "fits no value", "Remove one of its constraints")
        if dialect.needs_object and not dialect.closes_objects:
            # "object schema missing properties" is OpenAI's answer to a tool without arguments.
            sent.setdefault("properties", {})
        if dialect.needs_object and dialect.types_literals and sent.keys() & {"enum", "const"}:
            # Anthropic asks for a type beside the values: "input_schema.type: Field required".
            sent["type"] = "object"
        return sent

    def _make_object(self, atoms: list[Atom], joined: JoinedPart) -> list[Atom]:
        """Return the parts of the top as those of an object, without choices if they are refused there."""
        root = self._reader.root
        self._check_values(joined)
        choices = [one for one in joined.choices if not is_assertion(one)]
        if choices and "anyOf" in self._dialect.refused_at_top:
            ways = combine_choices(self._reader, atoms)
            if len(ways) == 1 and ways[0].types == ("object",):
                self._check_values(ways[0])
                return ways[0].atoms
            if self._dialect.closes_objects:
                raise self._writer.refuse(
                    "", "is a choice at the top", "Make it the property of an object"
                )
            return [Atom(self._unite(atoms, choices), is_named=False)]
        if joined.types is None and not self._dialect.closes_objects:
            return [*atoms, Atom(self._reader.make_part({"type": "object"}, root), is_named=False)]
        if joined.types is None and joined.has_structure:
            return atoms
        if not allows_type(joined.types or (), "object"):
            raise self._writer.refuse("", "is not an object", "Make it the property of an object")
        if joined.types != ("object",):
            if self._dialect.closes_objects:
                raise self._writer.refuse(
                    "", "is not only an object", "Make it the property of an object"
                )
            return [*atoms, Atom(self._reader.make_part({"type": "object"}, root), is_named=False)]
        return atoms

    def _check_values(self, joined: JoinedPart) -> None:
        """Refuse a top that lists its values, if none is an object or if objects must name their properties."""
        if joined.literals is None:
            return
        place = joined.place_of("const" if "const" in joined.places else "enum")
        if not any(isinstance(one, dict) for one in joined.literals):
            raise self._writer.refuse(place, "lists no object", "Make it the property of an object")
        if self._dialect.closes_objects:
            problem = "lists the values of the top"
            raise self._writer.refuse(place, problem, "Make it the property of an object")

    def _unite(self, atoms: list[Atom], choices: list[Choice]) -> Part:
        """Return the top as one object, with its choices in words."""
        united = unite_choices(self._reader, atoms)
        if united is None:
            raise self._writer.refuse("", "is not an object", "Make it the property of an object")
        texts = [str(united.pop("description", ""))]
        for choice in choices:
            place = f"{self._reader.find_place(choice.holder)}/{choice.keyword}"
            self._writer.sent.moved[place] = self._writer.sent.unenforced[place] = None
            words = self._reader.write_words({choice.keyword: list(choice.branches)})
            texts.append(msgspec.json.encode(words).decode())
        united["description"] = "\n\n".join(text for text in texts if text)
        return united

    def _open_cycles(self, sent: Part) -> None:
        """Break each cycle that passes through no optional property, at a property or at an item."""
        graph = SentGraph(sent, {})
        while cycle := graph.find_cycle(passes_optional=False):
            self._reader.budget.take(len(cycle))
            steps = [step for step in cycle if step[1].kind != "same"]
            if not steps:
                place = self._find_place(cycle)
                raise UnusableSchemaError(
                    place, "refers to itself without end", "Remove the reference"
                )
            part, edge = next((one for one in steps if one[1].kind == "property"), steps[-1])
            said = SaidConstraints(self._writer.sent, self._reader.write_words)
            place = self._writer.sent.places.get(id(part), "")
            if edge.kind == "property":
                part["required"] = [name for name in part["required"] if name != edge.key]
                if not part["required"]:
                    del part["required"]
                said.add("required", [edge.key], f"{place}/required")
            else:
                _replace_part(part, edge.part, {"description": _SAME_FORM})
                graph = SentGraph(sent, {})
                keyword = "items" if edge.kind == "item" else "additionalProperties"
                said.note_place(f"{place}/{keyword}")
            said.finish(part)

    def _find_place(self, cycle: list[tuple[Part, Edge]]) -> str:
        places = [
            self._writer.sent.places.get(id(part), "") for part, edge in cycle if "$ref" in part
        ]
        return places[-1] if places else self._writer.sent.places.get(id(cycle[-1][0]), "")


def _replace_part(part: Part, inner: Part, other: Part) -> None:
    """Put another part in the place of a part inside of a part."""
    for keyword, value in part.items():
        if value is inner:
            part[keyword] = other
        elif isinstance(value, list):
            part[keyword] = [other if one is inner else one for one in value]
        elif isinstance(value, dict):
            part[keyword] = {key: other if one is inner else one for key, one in value.items()}


def check_request_sizes(dialect: Dialect, sizes: Iterable[SchemaSize]) -> str:
    """Return the limit of a request that its schemas exceed together, in words; "" if they keep all.

    Args:
        dialect: the dialect of all the schemas.
        sizes: the size of each schema that the provider enforces: of strict tools, and of the output.

    >>> from holdfast.codecs.schemas.dialects import ANTHROPIC_STRICT
    >>> check_request_sizes(ANTHROPIC_STRICT, [SchemaSize(unions=9), SchemaSize(unions=8)])
    '17 parts with anyOf or null, more than 16 in a request'
    """
    return find_request_excess(sizes, dialect.limits)


def wrap_schema(schema: Mapping[str, object], name: str) -> dict[str, object]:
    """Return the schema of an object with one property, whose values fit a schema.

    References of the schema, and the definitions that they name, keep their meaning.

    Args:
        schema: the schema of the property; it is not changed.
        name: the name of the property.

    >>> wrap_schema({"$ref": "#/$defs/A", "$defs": {"A": {"type": "null"}}}, "answer")["properties"]
    {'answer': {'$ref': '#/properties/answer/$defs/A', '$defs': {'A': {'type': 'null'}}}}
    """
    place = "/properties/" + name.replace("~", "~0").replace("/", "~1").replace("%", "%25")
    inner = _move_references(dict(schema), "#" + place, frozenset({"$id", "id"} & schema.keys()))
    wrapped: dict[str, object] = {
        "type": "object",
        "properties": {name: inner},
        "required": [name],
        "additionalProperties": False,
    }
    if isinstance(inner, dict) and "$schema" in inner:
        wrapped["$schema"] = inner.pop("$schema")
    return wrapped


def _move_references(value: object, place: str, based: object) -> object:
    """Return a part whose references start at another place; parts with an `$id` keep theirs."""
    if isinstance(value, list | tuple):
        return [_move_references(inner, place, based) for inner in value]
    if not isinstance(value, Mapping):
        return value
    if based or isinstance(value.get("$id"), str):
        return dict(value)
    moved: dict[str, object] = {}
    for keyword, given in value.items():
        if keyword in ("$ref", "$recursiveRef", "$dynamicRef") and isinstance(given, str):
            is_pointer = given == "#" or given.startswith("#/")
            # `$recursiveRef` can only be "#".
            name = "$ref" if is_pointer and keyword == "$recursiveRef" else keyword
            moved[name] = place + given[1:] if is_pointer else given
        elif keyword in MAPS and isinstance(given, Mapping):
            moved[keyword] = {
                key: _move_references(part, place, based) for key, part in given.items()
            }
        else:
            moved[keyword] = given if keyword in DATA else _move_references(given, place, based)
    return moved
