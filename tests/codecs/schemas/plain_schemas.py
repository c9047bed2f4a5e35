"""Schemas of recorded requests without the parts that constrain nothing, and in the dialect of their wire."""

from __future__ import annotations

from typing import Any

from holdfast.codecs.schemas.conversion import ConvertedSchema, convert_schema
from holdfast.codecs.schemas.dialects import Dialect

_FORMATS_OF_NUMBERS = {"double", "float", "int32", "int64", "uint8"}


def without_marks(schema: Any) -> Any:
    """Return a schema without `$schema`, empty `required` and `properties`, and the formats of numbers."""
    if isinstance(schema, list):
        return [without_marks(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {name: without_marks(one) for name, one in schema.items() if name != "$schema"}
    if plain.get("format") in _FORMATS_OF_NUMBERS:
        del plain["format"]
    if isinstance(plain.get("required"), list):
        plain["required"] = sorted(plain["required"])
    return {
        name: one
        for name, one in plain.items()
        if not (name in ("required", "properties") and len(one) == 0)
    }


def convert(schema: dict[str, Any], dialect: Dialect) -> dict[str, Any]:
    """Return a schema as it is sent in a dialect."""
    converted = convert_schema(schema, dialect)
    assert isinstance(converted, ConvertedSchema)
    return converted.schema
