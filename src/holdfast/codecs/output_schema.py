"""How the shape of an answer is asked for: by a strict schema, a plain one, or in words.

OpenAI's strict mode makes the model keep to the schema, and refuses most schemas: every object must
be closed and demand each of its properties, and some keywords are unknown to it. This module must
never make a schema mean something else; what an answer must fit is checked later, against the real
schema.
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
    """Whether the schema is of an object at the top, as the wires demand.

    >>> is_object_schema({"type": "object"}), is_object_schema({"anyOf": []}), is_object_schema({"$ref": "#/$defs/A"})
    (True, False, False)
    """
    return schema.get("type") == "object"


def schema_instruction(schema: Schema) -> str:
    """The schema as an instruction, for where no field of the wire can carry it."""
    return _JSON_ONLY + json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def to_strict_schema(schema: Schema) -> Schema | None:
    """The schema as strict mode takes it, or None when it does not.

    An object that demands all its properties is closed; nothing else is changed.

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
        made = _convert_value(name, value)
        if made is None and value is not None:
            return None
        form[name] = made
    if "properties" in schema or schema.get("type") == "object":
        return form if _close_object(form) else None
    return form


def _close_object(form: dict[str, object]) -> bool:
    """Close an object that demands all its properties; False when it cannot be closed."""
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
