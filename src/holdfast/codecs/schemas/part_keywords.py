"""The keywords of JSON Schema by what they say, and the types of JSON values.

The drafts are 4, 6, 7, 2019-09 and 2020-12. This module must never read a whole schema.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.core.schema_checks.value_keywords import TYPES

Part: TypeAlias = dict[str, Any]
RawPart: TypeAlias = Part | bool
Parts: TypeAlias = tuple[RawPart, ...]
"""Parts that a value must fit together."""

FACTS: Final = {
    "minLength": "string", "maxLength": "string", "pattern": "string", "format": "string",
    "contentEncoding": "string", "contentMediaType": "string",
    "minimum": "number", "maximum": "number", "exclusiveMinimum": "number", "exclusiveMaximum": "number",
    "multipleOf": "number", "minItems": "array", "maxItems": "array", "uniqueItems": "array",
    "minContains": "array", "maxContains": "array", "minProperties": "object", "maxProperties": "object",
    "dependentRequired": "object",
}  # fmt: skip
"""Keywords about a value alone, and the type of the values that they constrain."""

CONDITIONS: Final = {
    "not": "", "if": "", "then": "", "else": "", "allOf": "", "contains": "array", "unevaluatedItems": "array",
    "propertyNames": "object", "dependentSchemas": "object", "unevaluatedProperties": "object", "contentSchema": "string",
}  # fmt: skip
"""Other keywords with parts in them, and the type of the values that they constrain; "" for all types."""

ANNOTATIONS: Final = ("title", "description", "default", "examples")
SILENT: Final = frozenset(
    [
        *("$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary"),
        *("$comment", "$defs", "definitions", "readOnly", "writeOnly", "deprecated"),
        *("discriminator", "xml", "externalDocs", "example"),
    ]
)
"""Keywords that constrain nothing and that no model needs."""

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")

DATA: Final = frozenset(["const", "default", "enum", "examples", "example", "dependentRequired"])
"""Keywords whose values hold no parts."""

MAPS: Final = frozenset(
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"]
)
"""Keywords whose values hold parts by names."""


def find_reference(part: Part) -> str:
    """Return the keyword of the reference in a part; "" if there is none.

    >>> find_reference({"$ref": "#"}), find_reference({"type": "null"})
    ('$ref', '')
    """
    return next((name for name in _REFERENCES if name in part), "")


def is_annotation(part: Part) -> bool:
    """Whether a part constrains nothing.

    >>> is_annotation({"title": "A", "readOnly": True}), is_annotation({"type": "null"})
    (True, False)
    """
    return all(name in ANNOTATIONS or name in SILENT for name in part)


def name_type(value: object) -> str:
    """Return the type of a JSON value.

    >>> [name_type(value) for value in (1, 1.5, True, None, "a", [], {})]
    ['integer', 'number', 'boolean', 'null', 'string', 'array', 'object']
    """
    return next(name for name, fits in TYPES.items() if fits(value))


def allows_type(types: Iterable[str] | None, name: str) -> bool:
    """Whether a list of types, or None for all, has a type.

    >>> allows_type(("number",), "integer"), allows_type(("integer",), "number"), allows_type(None, "null")
    (True, False, True)
    """
    return types is None or name in types or (name == "integer" and "number" in types)


def write_key(value: object) -> bytes:
    """Return a text that JSON values share if they are equal: 1 and 1.0 do, 1 and true do not.

    >>> write_key([1, {"a": None}]) == write_key([1.0, {"a": None}]), write_key(1) == write_key(True)
    (True, False)
    """
    return msgspec.json.encode(_round_numbers(value), order="sorted")


def _round_numbers(value: object) -> object:
    if isinstance(value, list):
        return [_round_numbers(inner) for inner in value]
    if isinstance(value, dict):
        return {name: _round_numbers(inner) for name, inner in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value
