"""Converts the schemas of an OpenAPI document to JSON Schemas for the arguments of tools.

What 3.0 writes in its own way becomes JSON Schema, read-only properties are left out, and so is what models do not
need: examples, names of XML, extensions. Referred parts are converted once, and each tool gets those that it uses. This
module must never check whether a schema makes sense.
"""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec import Struct

from holdfast.core.schema_checks.schema_limits import StepBudget
from holdfast.core.schema_checks.schema_nodes import shorten
from holdfast.openapi.openapi_document import (
    DocumentError,
    Json,
    OpenAPIDocument,
    extend_place,
)

_ONE: Final = frozenset(
    [
        *("additionalItems", "additionalProperties", "contains", "else", "if", "items", "not"),
        *("propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
    ]
)
_SOME: Final = frozenset(["allOf", "anyOf", "oneOf", "prefixItems"])
_NAMED: Final = frozenset(["dependentSchemas", "patternProperties", "properties"])
_LEFT_OUT: Final = frozenset(
    [
        *("$anchor", "$comment", "$defs", "$id", "$ref", "$schema", "definitions", "deprecated"),
        *("discriminator", "example", "examples", "externalDocs", "nullable", "readOnly"),
        *("writeOnly", "xml"),
    ]
)
_COMBINED: Final = ("$ref", "allOf", "anyOf", "oneOf")
_DEEPEST: Final = 200
_MOST_SCHEMAS: Final = 20_000
_MOST_PARENTS: Final = 5
"""How many levels of `allOf` are searched for read-only properties."""


_NOTHING: Final[frozenset[str]] = frozenset()


class _At(Struct, frozen=True):
    """Where a schema stands: its place, its depth, and the read-only properties of those around it.

    Args:
        place: its place in the document.
        uses: the names of the parts that it refers to.
        budget: how many schemas may still be converted: in YAML, a part may stand at many places.
        depth: how many schemas are around it.
        hidden: the properties of the same value that are left out.
    """

    place: str
    uses: set[str]
    budget: StepBudget
    depth: int = 0
    hidden: frozenset[str] = _NOTHING

    def enter(self, *steps: object, hidden: frozenset[str] = _NOTHING) -> _At:
        """Return the place of a value inside."""
        return _At(extend_place(self.place, *steps), self.uses, self.budget, self.depth + 1, hidden)


class ArgumentSchemas:
    """The schemas of a document as JSON Schemas.

    Args:
        document: the document.
    """

    def __init__(self, document: OpenAPIDocument) -> None:
        self._document = document
        self._read_only: dict[tuple[str, int], frozenset[str]] = {}
        """The read-only properties of parts, by their places and levels."""
        self._names: dict[str, str] = {}
        """The names of the referred parts, by their places."""
        self._places: dict[str, str] = {}
        self._parts: dict[str, tuple[object, frozenset[str]]] = {}
        """The converted parts by their names, with the names of those that they use."""

    def convert(self, schema: object, place: str, uses: set[str]) -> object:
        """Return a schema as JSON Schema; its references lead to `$defs`.

        Args:
            schema: the schema.
            place: its place.
            uses: the names of the parts that it refers to are added to it.

        Raises:
            DocumentError: it is not an object, or a reference in it leads to nothing.
        """
        return self._convert(schema, _At(place, uses, StepBudget(_MOST_SCHEMAS)))

    def collect_definitions(self, uses: set[str]) -> Json:
        """Return the referred parts of these names, and those that they use, by name."""
        found: Json = {}
        waiting = sorted(uses)
        while waiting:
            name = waiting.pop()
            if name in found:
                continue
            if name not in self._parts:
                inner: set[str] = set()
                place = self._places[name]
                schema, _ = self._document.look_up(f"#{place}", place)
                self._parts[name] = (self.convert(schema, place, inner), frozenset(inner))
            found[name], used = self._parts[name]
            waiting.extend(sorted(used))
        return found

    def _convert(self, schema: object, at: _At) -> object:
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise DocumentError(at.place, f"{shorten(schema)} is not a schema")
        if at.depth > _DEEPEST:
            raise DocumentError(at.place, "is nested too deeply", "Use references")
        if at.budget.left <= 0:
            problem = f"is in a schema of more than {_MOST_SCHEMAS:,} parts"
            raise DocumentError(at.place, problem, "Use references")
        at.budget.take()
        converted: Json = {}
        if "$ref" in schema:
            converted["$ref"] = f"#/$defs/{self._name_part(schema['$ref'], at.place, at.uses)}"
            if not self._document.is_newer:
                return converted  # what stands beside it does not count
        hidden = at.hidden | self._find_read_only(schema, at.place)
        for name, value in schema.items():
            if name not in _LEFT_OUT and not name.startswith("x-"):
                converted[name] = self._convert_keyword(name, value, at.enter(name, hidden=hidden))
        if converted.get("required") == []:
            del converted["required"]
        return converted if self._document.is_newer else _modernize(converted, schema)

    def _convert_keyword(self, name: str, value: object, at: _At) -> object:
        """Return the value of a keyword; `at.hidden` has the names of properties that are left out."""
        if name in _NAMED and isinstance(value, dict):
            return {
                key: self._convert(part, at.enter(key))
                for key, part in value.items()
                if name != "properties" or key not in at.hidden
            }
        if (name in _SOME or name == "items") and isinstance(value, list):
            hidden = at.hidden if name == "allOf" else _NOTHING
            return [self._convert(part, at.enter(n, hidden=hidden)) for n, part in enumerate(value)]
        if name in _ONE:
            return self._convert(value, at.enter())
        if name == "required" and isinstance(value, list):
            return [key for key in value if key not in at.hidden]
        return value

    def _name_part(self, reference: object, place: str, uses: set[str]) -> str:
        """Return the name of the part that a reference leads to."""
        if not isinstance(reference, str):
            raise DocumentError(f"{place}/$ref", f"{shorten(reference)} is not a text")
        _, target = self._document.look_up(reference, f"{place}/$ref")
        name = self._names.get(target)
        if name is None:
            wanted = re.sub(r"[^A-Za-z0-9_.-]", "_", target.rpartition("/")[2]) or "part"
            name, number = wanted, 1
            while name in self._places:
                number += 1
                name = f"{wanted}_{number}"
            self._names[target] = name
            self._places[name] = target
        uses.add(name)
        return name

    def _find_read_only(self, schema: Json, place: str, level: int = 0) -> frozenset[str]:
        """Return the names of the properties that only responses have."""
        if (place, level) in self._read_only:
            return self._read_only[place, level]
        found: set[str] = set()
        properties = schema.get("properties")
        for name, part in properties.items() if isinstance(properties, dict) else ():
            if isinstance(part, dict):
                target, _ = self._document.follow(part, extend_place(place, "properties", name))
                if part.get("readOnly") is True or target.get("readOnly") is True:
                    found.add(name)
        parents = schema.get("allOf")
        listed = parents if isinstance(parents, list) and level < _MOST_PARENTS else []
        for at, part in enumerate(listed):
            if isinstance(part, dict):
                target, where = self._document.follow(part, extend_place(place, "allOf", at))
                found |= self._find_read_only(target, where, level + 1)
        self._read_only[place, level] = frozenset(found)
        return self._read_only[place, level]


def _modernize(converted: Json, schema: Json) -> Json:
    """Return a part of 3.0 as JSON Schema writes it: null is a type, and an exclusive bound a number."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(converted.get(exclusive), bool):
            is_exclusive = converted.pop(exclusive)
            if is_exclusive and bound in converted:
                converted[exclusive] = converted.pop(bound)
    if schema.get("nullable") is not True:
        return converted
    kind = converted.get("type")
    if isinstance(kind, str) and kind != "null":
        converted["type"] = [kind, "null"]
        values: Any = converted.get("enum")
        if isinstance(values, list) and None not in values:
            converted["enum"] = [*values, None]
    elif any(name in converted for name in _COMBINED):
        outside = (
            {"description": converted.pop("description")} if "description" in converted else {}
        )
        return {"anyOf": [converted, {"type": "null"}], **outside}
    return converted
