"""A JSON Schema in the dialect that Anthropic's structured output takes.

The server refuses what its grammar cannot hold: bounds, patterns, open objects. Such a constraint
becomes words in the description, so that the model still reads it; the answer is checked against
the real schema later. This module must never make a schema stricter than it was, except that
objects are closed, which the server demands.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

_KEPT = frozenset({"$ref", "type", "enum", "const", "title", "description", "default", "required"})
_FORMATS = frozenset(
    {
        "date-time",
        "time",
        "date",
        "duration",
        "email",
        "hostname",
        "uri",
        "ipv4",
        "ipv6",
        "uuid",
    }
)
_ANY_OF = {"anyOf": "anyOf", "oneOf": "anyOf", "allOf": "allOf"}
_NAMED = frozenset({"properties", "$defs", "definitions"})


def to_anthropic_schema(schema: Mapping[str, object]) -> dict[str, object]:
    """The same schema, closed, with what the server does not know moved into descriptions.

    >>> to_anthropic_schema({"type": "integer", "minimum": 1})
    {'type': 'integer', 'description': '{"minimum":1}'}
    """
    strict: dict[str, object] = {}
    words: dict[str, object] = {}
    for key, value in schema.items():
        if key in _NAMED and isinstance(value, Mapping):
            strict[key] = {name: _convert_inner(inner) for name, inner in value.items()}
        elif key in _ANY_OF and isinstance(value, list | tuple):
            strict[_ANY_OF[key]] = [_convert_inner(inner) for inner in value]
        elif key == "items" and isinstance(value, Mapping):
            strict[key] = to_anthropic_schema(value)
        elif key in _KEPT or _supports_keyword(key, value):
            strict[key] = value
        elif key not in ("additionalProperties", "$schema", "$id"):
            words[key] = value
    if schema.get("type") == "object" or "properties" in schema:
        strict["additionalProperties"] = False
    if words and "$ref" not in schema:
        told = msgspec.json.encode(words).decode()
        description = strict.get("description")
        strict["description"] = f"{description}\n\n{told}" if description else told
    return strict


def _convert_inner(value: object) -> object:
    return to_anthropic_schema(value) if isinstance(value, Mapping) else value


def _supports_keyword(key: str, value: object) -> bool:
    if key == "format":
        return value in _FORMATS
    return key == "minItems" and value in (0, 1)
