"""Converts a JSON Schema to the dialect of Anthropic's structured output.

The server rejects keywords that its grammar does not support: bounds, patterns, open objects. Such
a constraint moves into the description, so that the model still reads it; the reply is checked
against the original schema later. A converted schema is never stricter, except that its objects are
closed, which the server requires.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

_SUPPORTED = frozenset(
    {"$ref", "type", "enum", "const", "title", "description", "default", "required"}
)
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
    """Return the schema with closed objects and with unsupported keywords moved into descriptions.

    >>> to_anthropic_schema({"type": "integer", "minimum": 1})
    {'type': 'integer', 'description': '{"minimum":1}'}
    """
    strict: dict[str, object] = {}
    unsupported: dict[str, object] = {}
    for key, value in schema.items():
        if key in _NAMED and isinstance(value, Mapping):
            strict[key] = {name: _convert_inner(inner) for name, inner in value.items()}
        elif key in _ANY_OF and isinstance(value, list | tuple):
            strict[_ANY_OF[key]] = [_convert_inner(inner) for inner in value]
        elif key == "items" and isinstance(value, Mapping):
            strict[key] = to_anthropic_schema(value)
        elif key in _SUPPORTED or _supports_keyword(key, value):
            strict[key] = value
        elif key not in ("additionalProperties", "$schema", "$id"):
            unsupported[key] = value
    if schema.get("type") == "object" or "properties" in schema:
        strict["additionalProperties"] = False
    if unsupported and "$ref" not in schema:
        note = msgspec.json.encode(unsupported).decode()
        description = strict.get("description")
        strict["description"] = f"{description}\n\n{note}" if description else note
    return strict


def _convert_inner(value: object) -> object:
    return to_anthropic_schema(value) if isinstance(value, Mapping) else value


def _supports_keyword(key: str, value: object) -> bool:
    if key == "format":
        return value in _FORMATS
    return key == "minItems" and value in (0, 1)
