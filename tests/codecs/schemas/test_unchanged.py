"""What the quick look calls unchanged, the judge takes, and the conversion leaves as it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, given
from pydantic import TypeAdapter
from tests.codecs.schemas.output_types import OUTPUT_TYPES
from tests.codecs.schemas.schema_strategies import SchemaCase, schema_cases
from tests.codecs.schemas.tool_schemas import OPERATIONS, load_tools

from holdfast.codecs.schemas.conversion import ConvertedSchema, convert_schema
from holdfast.codecs.schemas.dialects import DIALECTS, OPENAI_TOOL, Dialect
from holdfast.codecs.schemas.judge import find_faults
from holdfast.codecs.schemas.request_schemas import find_unchanged


def check_unchanged(schema: dict[str, Any], dialect: Dialect) -> bool:
    found = find_unchanged(schema, dialect)
    if found is None:
        return False
    plain = {key: value for key, value in schema.items() if key != "$schema"}
    assert {"properties": {}, **found.schema} == {"properties": {}, **plain}
    assert find_faults(found.schema, dialect) == []
    converted = convert_schema(schema, dialect)
    assert isinstance(converted, ConvertedSchema)
    assert converted.is_lossless, converted
    if dialect.limits.properties or dialect.limits.optional:
        # A conversion may write it shorter.
        for name in ("levels", "properties", "optional", "unions", "enum_values", "characters"):
            assert getattr(found.size, name) >= getattr(converted.size, name)
    return True


@pytest.mark.slow  # takes half a second or more
@given(schema_cases())
def test_any_schema(case: SchemaCase) -> None:
    for dialect in DIALECTS.values():
        if check_unchanged(case.schema, dialect):
            event(dialect.name)


@pytest.mark.slow  # takes half a second or more
def test_most_tools_are_recognized() -> None:
    tools = [one.schema for one in load_tools()]
    schemas = [
        *tools,
        *OPERATIONS.values(),
        *(TypeAdapter(kind).json_schema() for kind in OUTPUT_TYPES),
    ]
    for dialect in DIALECTS.values():
        for schema in schemas:
            check_unchanged(schema, dialect)
    assert sum(find_unchanged(schema, OPENAI_TOOL) is not None for schema in tools) >= 70


def test_what_is_no_schema_is_not_recognized() -> None:
    odd: list[Any] = [
        {"type": "object", "properties": []}, {"type": "object", "required": [{}]}, {"$defs": []},
        {"type": {}}, {"type": [[]]}, {"enum": {}}, {"enum": []}, {"anyOf": {}}, {"anyOf": []}, {"$ref": 1},
        {"type": "array", "items": [{}], "minItems": "x"}, {"type": "string", "format": []}, {"x": True},
        {"type": "object", "additionalProperties": 1}, {"type": "object", "properties": {"a": 1}},
    ]  # fmt: skip
    for dialect in DIALECTS.values():
        for schema in odd:
            assert find_unchanged(schema, dialect) is None
            inside = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
            assert find_unchanged(inside, dialect) is None
