"""Schemas of tools as servers and API descriptions write them: 86 recorded ones, and 14 operations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

Schema = dict[str, Any]


class RecordedTool(NamedTuple):
    """A tool of an MCP server: the package, the name, the description, and the schema of its arguments."""

    package: str
    name: str
    description: str
    schema: Schema


def load_tools() -> list[RecordedTool]:
    """Return the tools that the servers of `data/mcp_tools.json` listed."""
    recorded = json.loads((Path(__file__).parent / "data" / "mcp_tools.json").read_text("utf-8"))
    return [
        RecordedTool(package["name"], one["name"], one["description"], one["inputSchema"])
        for package in recorded["packages"]
        for one in package["tools"]
    ]


ID = {"type": "integer", "format": "int64", "minimum": 1, "description": "The id."}

OPERATIONS: dict[str, Schema] = {
    # Parameters of the path and of the query, with their defaults.
    "list_pets": {
        "type": "object",
        "properties": {
            "limit": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 100, "default": 20},
            "status": {"type": "array", "items": {"type": "string", "enum": ["available", "sold"]}, "uniqueItems": True},
            "sort": {"type": "string", "enum": ["name", "-name", ""], "default": "name", "example": "-name"},
        },
    },
    # A body with components that stand in the schema as they stood in the file.
    "add_pet": {
        "type": "object",
        "properties": {"body": {"$ref": "#/components/schemas/Pet"}},
        "required": ["body"],
        "components": {
            "schemas": {
                "Category": {"type": "object", "properties": {"id": ID, "name": {"type": "string"}}, "xml": {"name": "category"}},
                "Pet": {
                    "type": "object",
                    "required": ["name", "photoUrls"],
                    "properties": {
                        "id": {**ID, "readOnly": True, "example": 10},
                        "name": {"type": "string", "example": "doggie"},
                        "category": {"$ref": "#/components/schemas/Category"},
                        "photoUrls": {"type": "array", "xml": {"wrapped": True}, "items": {"type": "string", "format": "uri"}},
                    },
                },
            }
        },
    },
    # OpenAPI 3.0: null has a keyword of its own, and so have the exclusive bounds.
    "set_price": {
        "type": "object",
        "properties": {
            "price": {"type": "number", "format": "double", "minimum": 0, "exclusiveMinimum": True, "nullable": True},
            "currency": {"type": "string", "minLength": 3, "maxLength": 3, "pattern": "^[A-Z]{3}$"},
            "until": {"type": "string", "format": "date", "nullable": True, "deprecated": True},
        },
        "required": ["price"],
        "additionalProperties": False,
    },
    # One of several, by a property.
    "pay": {
        "type": "object",
        "properties": {
            "method": {
                "oneOf": [{"$ref": "#/definitions/Card"}, {"$ref": "#/definitions/Transfer"}],
                "discriminator": {"propertyName": "type", "mapping": {"card": "#/definitions/Card"}},
            }
        },
        "required": ["method"],
        "definitions": {
            "Card": {"type": "object", "properties": {"type": {"type": "string", "enum": ["card"]}, "number": {"type": "string"}}, "required": ["type", "number"]},
            "Transfer": {"type": "object", "properties": {"type": {"type": "string", "enum": ["transfer"]}, "iban": {"type": "string"}}, "required": ["type", "iban"]},
        },
    },
    # A part that extends another one.
    "add_dog": {
        "type": "object",
        "properties": {
            "dog": {
                "allOf": [
                    {"$ref": "#/$defs/Animal"},
                    {"type": "object", "properties": {"bark": {"type": "boolean"}}, "required": ["bark"]},
                ],
                "description": "An animal that barks.",
            }
        },
        "$defs": {"Animal": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
    },
    # Maps, and an object that may hold anything.
    "set_labels": {
        "type": "object",
        "properties": {
            "labels": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 10},
            "metadata": {"type": "object"},
            "annotations": {"type": "object", "additionalProperties": True, "description": "Anything."},
        },
    },
    # Lists without a type of their items.
    "delete_many": {
        "type": "object",
        "properties": {"ids": {"type": "array"}, "reasons": {"type": "array", "items": {}, "maxItems": 3}},
        "required": ["ids"],
    },
    # At least one of two arguments.
    "find_user": {
        "type": "object",
        "properties": {"id": ID, "email": {"type": "string", "format": "email"}},
        "anyOf": [{"required": ["id"]}, {"required": ["email"]}],
    },
    # Names of parameters with signs.
    "odata_query": {
        "type": "object",
        "properties": {
            "$top": {"type": "integer", "minimum": 0},
            "$filter": {"type": "string", "description": "Such as `name eq 'a'`."},
            "filter[owner]": {"type": "string"},
            "X-Request-Id": {"type": "string", "format": "uuid"},
            "page.size": {"type": "integer"},
        },
        "required": ["$filter"],
    },
    # Formats of OpenAPI.
    "upload": {
        "type": "object",
        "properties": {
            "file": {"type": "string", "format": "binary"},
            "checksum": {"type": "string", "format": "byte", "maxLength": 64},
            "password": {"type": "string", "format": "password", "writeOnly": True},
            "expires": {"type": "string", "format": "date-time"},
            "ratio": {"type": "number", "format": "float"},
        },
        "required": ["file"],
    },
    # A part that contains itself.
    "set_menu": {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/Entry"}},
        "required": ["root"],
        "$defs": {
            "Entry": {
                "type": "object",
                "properties": {"title": {"type": "string"}, "entries": {"type": "array", "items": {"$ref": "#/$defs/Entry"}}},
                "required": ["title"],
            }
        },
    },
    # OpenAPI 3.1: lists of types, constants, tuples, keys with a pattern.
    "draw": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "title": {"type": ["string", "null"], "examples": ["A line"]},
            "version": {"const": 2},
            "points": {"type": "array", "items": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "number"}], "items": False, "minItems": 2}},
            "layers": {"type": "object", "patternProperties": {"^layer-[0-9]+$": {"type": "string"}}, "additionalProperties": False},
        },
        "required": ["points"],
    },
    # Everything about a search in one object, with references beside descriptions.
    "search": {
        "type": "object",
        "properties": {
            "query": {"$ref": "#/$defs/Text", "description": "The words."},
            "from": {"$ref": "#/$defs/Text", "description": "The page before.", "default": ""},
            "range": {"type": "object", "properties": {"gte": {"type": "number"}, "lte": {"type": "number"}}, "minProperties": 1},
            "fields": {"type": "array", "items": {"$ref": "#/$defs/Text"}, "contains": {"const": "id"}},
        },
        "required": ["query"],
        "$defs": {"Text": {"type": "string", "minLength": 1, "not": {"enum": ["*"]}}},
    },
    # An operation without arguments.
    "ping": {"type": "object", "properties": {}},
}  # fmt: skip
"""Operations in the shapes of OpenAPI files, by name."""
