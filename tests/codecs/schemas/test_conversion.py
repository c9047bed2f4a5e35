"""A converted schema: the provider takes it, values come back as they were, and nothing is dropped in silence."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tests.codecs.schemas.schema_strategies import (
    SchemaCase,
    change_value,
    schema_cases,
    validator_of,
)
from tests.codecs.schemas.sent_values import SentValues, find_difference

from holdfast.codecs.schemas.conversion import ConvertedSchema, RefusedSchema, convert_schema
from holdfast.codecs.schemas.dialects import (
    ANTHROPIC_STRICT,
    ANTHROPIC_TOOL,
    DIALECTS,
    GEMINI,
    LLAMA_CPP,
    OPENAI_TOOL,
    Dialect,
)
from holdfast.codecs.schemas.judge import find_faults
from holdfast.codecs.schemas.request_schemas import find_unchanged
from holdfast.codecs.schemas.rewriting import rewrite_value

Schema = dict[str, Any]

EXAMPLES = 300
PAIR = {"$ref": "#/$defs/Pair", "description": "A pair."}
TWICE: Schema = {
    "type": "object",
    "properties": {"a": PAIR, "b": PAIR},
    "required": ["a", "b"],
    "$defs": {"Pair": {"enum": [[1, "a"]]}},
}


def check_case(case: SchemaCase, dialect: Dialect) -> ConvertedSchema | RefusedSchema:
    """Check that a value goes through a dialect and comes back."""
    converted = convert_schema(case.schema, dialect)
    if isinstance(converted, RefusedSchema):
        is_recursive = converted.problem.startswith("contains itself")
        assert dialect.closes_objects or (is_recursive and dialect.recursion == "none"), converted
        return converted
    assert find_faults(converted.schema, dialect) == [], converted.schema
    sent = SentValues(converted.schema, converted.rewriting).write(case.value)
    back = rewrite_value(converted.rewriting, sent)
    assert find_difference(case.value, back) == ""
    assert validator_of(case.schema).is_valid(back), (case.value, sent, back)
    return converted


def check_enforcement(
    case: SchemaCase, converted: ConvertedSchema, change: Callable[[object], object]
) -> None:
    """Check that each wrong value is refused by the schema that is sent, or by a constraint that is known to be lost."""
    assert set(converted.unenforced) <= set(converted.moved)
    sent = SentValues(converted.schema, converted.rewriting).write(case.value)
    original = validator_of(case.schema)
    other = change(sent)
    back = rewrite_value(converted.rewriting, other)
    if Draft202012Validator(converted.schema).is_valid(other) and not original.is_valid(back):
        assert converted.unenforced, (other, back, converted)


@pytest.mark.slow  # takes half a second or more
@settings(max_examples=EXAMPLES)
@given(schema_cases(), st.sets(st.sampled_from(list(DIALECTS)), min_size=1, max_size=2), st.data())
def test_values_come_back(case: SchemaCase, names: set[str], data: st.DataObject) -> None:
    # Each schema goes through two dialects here, and through all of them in `conformance`.
    for dialect in (DIALECTS[name] for name in sorted(names)):
        result = check_case(case, dialect)
        event(f"{dialect.name}: {type(result).__name__}")
        if isinstance(result, ConvertedSchema):
            check_enforcement(case, result, lambda value: change_value(data.draw, value))


def test_a_constraint_in_words_leaves_a_type_for_servers_that_need_one() -> None:
    # llama.cpp answers "Unrecognized schema" to a part that has only a description.
    for part in ({"not": {"const": 3}}, {"format": "uri"}, {"minLength": 3}):
        schema = {"type": "object", "properties": {"a": part}, "required": ["a"]}
        converted = convert_schema(schema, LLAMA_CPP)
        assert isinstance(converted, ConvertedSchema)
        sent = converted.schema["properties"]["a"]
        assert set(sent["type"]) == {"string", "number", "boolean", "null", "object", "array"}
        assert find_faults(converted.schema, LLAMA_CPP) == []


def test_the_cycles_of_many_parts_are_opened_in_one_graph() -> None:
    names = [f"N{at}" for at in range(8)]
    either = [{"anyOf": [{"$ref": f"#/$defs/{one}"}, {"type": "null"}]} for one in names]
    node = {
        "type": "object",
        "properties": dict(zip(names, either, strict=True)),
        "required": names,
    }
    schema = {"$ref": "#/$defs/N0", "$defs": dict.fromkeys(names, node)}
    converted = convert_schema(schema, GEMINI)
    assert isinstance(converted, ConvertedSchema)
    assert find_faults(converted.schema, GEMINI) == []


@pytest.mark.parametrize(
    ("name", "original", "place", "sent"),
    [
        # A constant of many that is used twice is a definition, and nothing may stand beside a reference.
        ("openai_strict", TWICE, ("properties", "b"), {"anyOf": [{"$ref": "#/$defs/Root"}], "description": "A pair."}),
        # llama.cpp writes a wrong grammar for this name.
        ("llama_cpp", {"type": "object", "properties": {"a[b]": {"type": "null"}}}, ("properties",), {"a_b": {"type": "null"}}),
    ],
)  # fmt: skip
def test_a_part_that_no_provider_would_take_is_written_in_another_way(
    name: str, original: Schema, place: Sequence[str], sent: object
) -> None:
    converted = convert_schema(original, DIALECTS[name])
    assert isinstance(converted, ConvertedSchema)
    found: Any = converted.schema
    for step in place:
        found = found[step]
    assert found == sent
    assert find_faults(converted.schema, DIALECTS[name]) == []


def test_a_top_that_is_one_of_some_objects_keeps_its_type() -> None:
    schema = {"type": "object", "not": {"required": ["b"]}, "enum": [{"a": 1}]}
    converted = convert_schema(schema, ANTHROPIC_TOOL)
    assert isinstance(converted, ConvertedSchema)
    assert converted.schema["type"] == "object"
    assert find_faults(converted.schema, ANTHROPIC_TOOL) == []


def test_an_exclusive_bound_of_openapi_is_sent_as_a_number() -> None:
    # Anthropic: "JSON schema is invalid. It must match JSON Schema draft 2020-12".
    price = {"type": "number", "minimum": 3, "exclusiveMinimum": True}
    schema = {"type": "object", "properties": {"a": price}, "required": ["a"]}
    for dialect in (ANTHROPIC_TOOL, OPENAI_TOOL):
        assert find_unchanged(schema, dialect) is None
        converted = convert_schema(schema, dialect)
        assert isinstance(converted, ConvertedSchema)
        assert converted.schema["properties"]["a"] == {"type": "number", "exclusiveMinimum": 3}


def test_many_parts_of_one_object_take_steps_in_proportion() -> None:
    def count(parts: int) -> int:
        every = [{"type": "object", "properties": {f"p{at}": {}}} for at in range(parts)]
        calls = 0

        def note(_frame: object, event: str, _given: object) -> None:
            nonlocal calls
            calls += event == "call"

        sys.setprofile(note)
        try:
            convert_schema({"allOf": every}, ANTHROPIC_STRICT)
        finally:
            sys.setprofile(None)
        return calls

    assert count(80) < 3 * count(40)
