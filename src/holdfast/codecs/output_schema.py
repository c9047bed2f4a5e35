"""Describes the schema of a typed output for a request: strict, plain, or as an instruction.

OpenAI's strict mode guarantees that the reply matches the schema, but it accepts few schemas: every
object is closed and requires all its properties, and some keywords are not supported. This module
never changes the meaning of a schema; the reply is later checked against the original schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeAlias

Schema: TypeAlias = Mapping[str, object]

_JSON_ONLY = "Answer with nothing but JSON that fits this JSON Schema:\n"

_LISTS_OF_SCHEMAS = frozenset({"anyOf"})
_MAPS_OF_SCHEMAS = frozenset({"properties", "$defs", "definitions"})
_NOT_STRICT = frozenset(
    {
        "allOf",
        "contains",
        "default",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "if",
        "maxProperties",
        "minProperties",
        "not",
        "oneOf",
        "patternProperties",
        "prefixItems",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
    }
)


def is_object_schema(schema: Schema) -> bool:
    """Whether the top level of the schema is an object, as the wires require.

    >>> is_object_schema({"type": "object"}), is_object_schema({"anyOf": []}), is_object_schema({"$ref": "#/$defs/A"})
    (True, False, False)
    """
    return schema.get("type") == "object"


def schema_instruction(schema: Schema) -> str:
    """Return the schema as an instruction, for wires without a field for it."""
    return _JSON_ONLY + json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def to_strict_schema(schema: Schema) -> Schema | None:
    """Return the schema in the form of strict mode, or None if strict mode does not accept it.

    An object that requires all its properties is closed; nothing else is changed.

    >>> to_strict_schema({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})[
    ...     "additionalProperties"
    ... ]
    False
    >>> to_strict_schema({"type": "object", "properties": {"a": {"type": "string"}}}) is None
    True
    """
    if not _NOT_STRICT.isdisjoint(schema):
        return None
    form: dict[str, object] = {}
    for name, value in schema.items():
        converted = _convert_value(name, value)
        if converted is None and value is not None:
            return None
        form[name] = converted
    if "properties" in schema or schema.get("type") == "object":
        return form if _close_object(form) else None
    return form


def _close_object(form: dict[str, object]) -> bool:
    """Close an object that requires all its properties; return False if it cannot be closed."""
    properties, required = form.get("properties"), form.get("required")
    if not isinstance(properties, Mapping) or form.get("additionalProperties", False) is not False:
        return False
    form["additionalProperties"] = False
    return set(properties) == set(required if isinstance(required, list | tuple) else ())


def _convert_value(name: str, value: object) -> object:
    if name in _MAPS_OF_SCHEMAS and isinstance(value, Mapping):
        forms = {key: _convert_schema(inner) for key, inner in value.items()}
        return None if None in forms.values() else forms
    if name in _LISTS_OF_SCHEMAS and isinstance(value, list | tuple):
        listed = [_convert_schema(inner) for inner in value]
        return None if None in listed else listed
    return _convert_schema(value) if name == "items" else value


def _convert_schema(value: object) -> object:
    return to_strict_schema(value) if isinstance(value, Mapping) else None
