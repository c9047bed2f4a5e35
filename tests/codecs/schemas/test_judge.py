"""The judge names the first rule of a dialect that a schema breaks, and passes what the dialect takes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from anthropic.lib._parse._transform import transform_schema
from hypothesis import given
from hypothesis import strategies as st
from openai.lib._pydantic import to_strict_json_schema
from pydantic import BaseModel

from holdfast.codecs.schemas.dialects import (
    ANTHROPIC_STRICT,
    ANTHROPIC_TOOL,
    CEREBRAS,
    DIALECTS,
    GEMINI,
    GROQ_STRICT,
    LLAMA_CPP,
    LLGUIDANCE,
    OPENAI_STRICT,
    OPENAI_TOOL,
    XGRAMMAR,
    Dialect,
)
from holdfast.codecs.schemas.judge import _WORDS, find_faults, find_request_faults

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}


def closed(**properties: object) -> Schema:
    """An object that every dialect takes, if it takes its properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def opened(required: Any = (), **properties: object) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


def within(*levels: int) -> Schema:
    schema: Schema = TEXT
    for _ in levels:
        schema = closed(a=schema)
    return schema


def node(part: Schema) -> Schema:
    return {**closed(top={"$ref": "#/$defs/Node"}), "$defs": {"Node": part}}


def lists(pattern: str) -> Schema:
    return closed(a={"type": "string", "pattern": pattern})


ME = {"$ref": "#/$defs/Node"}
NULL = {"type": "null"}
MAYBE = {"anyOf": [ME, NULL]}
COLOR = {"Color": {"type": "string", "enum": ["red"]}}
LONG = [f"{n:060}" for n in range(251)]

# The dialect, the schema, and the place and the rule of each fault.
ROWS: list[tuple[Dialect, object, list[tuple[str, str]]]] = [
    (OPENAI_STRICT, closed(a=TEXT, b={"type": ["string", "null"]}), []),
    (OPENAI_STRICT, closed(), []),
    (OPENAI_STRICT, {"type": "object", "additionalProperties": False}, [("", "properties")]),
    (OPENAI_STRICT, [], [("", "form")]),
    (OPENAI_STRICT, {"type": "array", "items": TEXT}, [("", "needs_object")]),
    (OPENAI_STRICT, {**closed(), "anyOf": [closed()]}, [("", "refused_at_top"), ("", "joins_choices")]),
    (OPENAI_STRICT, opened(("a",), a=TEXT), [("", "closes_objects")]),
    (OPENAI_STRICT, {**closed(a=TEXT), "additionalProperties": TEXT}, [("", "closes_objects")]),
    (OPENAI_STRICT, {**closed(a=TEXT), "required": []}, [("", "requires_all")]),
    (OPENAI_STRICT, {**closed(), "required": ["a"]}, [("", "requires_all")]),
    (OPENAI_STRICT, {**closed(a={"$ref": "#/$defs/Color", "description": "x"}), "$defs": COLOR}, [("/properties/a", "beside_reference")]),
    (OPENAI_STRICT, closed(a={"type": "string", "format": "uri"}), [("/properties/a", "formats")]),
    (OPENAI_STRICT, closed(a={"type": "array"}), [("/properties/a", "needs_items")]),
    (OPENAI_STRICT, closed(a={"type": "array", "items": {}}), [("/properties/a/items", "needs_types")]),
    (OPENAI_STRICT, closed(a={"type": "array", "items": True}), [("/properties/a/items", "needs_types")]),
    (OPENAI_STRICT, closed(a={"type": "string", "default": "x"}), [("/properties/a", "keywords")]),
    (OPENAI_STRICT, closed(a={"oneOf": [TEXT]}), [("/properties/a", "keywords"), ("/properties/a", "needs_types")]),
    (OPENAI_STRICT, closed(a={"enum": [{}]}), [("/properties/a", "literal_types")]),
    (OPENAI_STRICT, lists("^(?!x)"), [("/properties/a", "patterns")]),
    (OPENAI_STRICT, lists(r"^\(?=$"), []),
    (OPENAI_STRICT, lists(r"(a)\1"), [("/properties/a", "patterns")]),
    (OPENAI_STRICT, lists(r"\\1\d"), []),
    (OPENAI_STRICT, lists(r"\bword"), [("/properties/a", "patterns")]),
    (OPENAI_STRICT, node(closed(next=MAYBE)), []),
    (OPENAI_STRICT, closed(a={"anyOf": [{"$ref": "#"}, NULL]}), []),
    (OPENAI_STRICT, closed(a=TEXT, b={"$ref": "#/properties/a"}), [("/properties/b", "reference")]),
    (OPENAI_STRICT, closed(a={"$ref": "#/$defs/None"}), [("/properties/a", "reference")]),
    (OPENAI_STRICT, closed(a={"$ref": "https://example.org/a.json"}), [("/properties/a", "reference")]),
    (OPENAI_STRICT, within(*range(10)), []),
    (OPENAI_STRICT, within(*range(11)), [("", "limits")]),
    (OPENAI_STRICT, closed(**{f"p{n}": TEXT for n in range(5001)}), [("", "limits")]),
    (OPENAI_STRICT, closed(a={"type": "integer", "enum": list(range(1001))}), [("", "limits")]),
    (OPENAI_STRICT, closed(**{"k" * 120_001: TEXT}), [("", "limits")]),
    (OPENAI_STRICT, closed(a={"type": "string", "enum": LONG}), [("/properties/a", "limits")]),
    (OPENAI_STRICT, closed(a={"type": "string", "enum": LONG[:250]}), []),
    (OPENAI_TOOL, {"type": "object", "properties": {"a": {"default": 1}}}, []),
    (OPENAI_TOOL, {"type": "object", "properties": {}, "anyOf": [{"required": ["a"]}]}, [("", "refused_at_top")]),
    (OPENAI_TOOL, opened(a={"type": "array"}), [("/properties/a", "needs_items")]),
    (OPENAI_TOOL, opened(a={"$ref": "#/components/schemas/Pet"}), [("/properties/a", "reference")]),
    (OPENAI_TOOL, {"type": "object"}, [("", "properties")]),
    (OPENAI_TOOL, opened(a={"type": "int"}), [("/properties/a", "form")]),
    (OPENAI_TOOL, opened(a={"enum": []}), [("/properties/a", "form")]),
    (OPENAI_TOOL, {"type": "object", "properties": []}, [("", "form")]),
    (OPENAI_TOOL, {"type": "object", "properties": {"a": 7}}, [("/properties/a", "form")]),
    (ANTHROPIC_TOOL, {"type": "object", "oneOf": [TEXT]}, [("", "refused_at_top")]),
    (ANTHROPIC_TOOL, opened(**{"$top": TEXT}), [("", "property_names")]),
    (ANTHROPIC_TOOL, opened(a=opened(**{"filter[id]": TEXT})), [("/properties/a", "property_names")]),
    (ANTHROPIC_TOOL, {"type": "object", "properties": {"a": {"type": "array"}}}, []),
    (ANTHROPIC_STRICT, opened(a=TEXT), [("", "closes_objects")]),
    (ANTHROPIC_STRICT, {**closed(a=TEXT), "required": []}, []),
    (ANTHROPIC_STRICT, closed(a={"type": "integer", "minimum": 1}), [("/properties/a", "keywords")]),
    (ANTHROPIC_STRICT, closed(a={"type": "array", "items": TEXT, "minItems": 2}), [("/properties/a", "largest_min_items")]),
    (ANTHROPIC_STRICT, closed(a={"type": "string", "format": "uri"}), []),
    (ANTHROPIC_STRICT, closed(a={"type": ["string", "null"]}), [("/properties/a", "takes_type_lists")]),
    (ANTHROPIC_STRICT, closed(a={"type": "string", "enum": ["a"]}), [("/properties/a", "types_literals")]),
    (ANTHROPIC_STRICT, node(closed(next=MAYBE)), [("/$defs/Node", "recursion")]),
    (ANTHROPIC_STRICT, closed(a={"anyOf": [{"$ref": "#"}, NULL]}), [("", "recursion")]),
    (ANTHROPIC_STRICT, {**closed(a=ME, b=ME), "$defs": {"Node": closed(c=TEXT)}}, []),
    (XGRAMMAR, opened(a={"type": "integer", "minimum": 0.5}), [("/properties/a", "whole_bounds")]),
    (XGRAMMAR, opened(a={"type": "integer", "minimum": 1.0}, b={"type": "number", "minimum": 0.5}), []),
    (GEMINI, opened(a={"type": "array", "prefixItems": [TEXT]}), []),
    (GEMINI, closed(a={"$ref": "#/$defs/Color", "title": "x"}) | {"$defs": COLOR}, [("/properties/a", "beside_reference")]),
    (GEMINI, node(opened(next=ME)), []),
    (GEMINI, node(opened(("next",), next=MAYBE)), []),
    (GEMINI, node(closed(parts={"type": "array", "items": ME})), []),
    (GEMINI, node(closed(parts={"type": "array", "items": ME, "minItems": 1})), [("/$defs/Node", "recursion")]),
    (GEMINI, node(closed(next=ME)), [("/$defs/Node", "recursion")]),
    (GEMINI, opened(a={"$ref": "#"}), [("/properties/a", "refers_to_root")]),
    (LLGUIDANCE, closed(a={"type": "array", "items": TEXT, "uniqueItems": True}), [("/properties/a", "keywords")]),
    (LLGUIDANCE, closed(a={"type": "string", "format": "binary"}), [("/properties/a", "formats")]),
    (LLGUIDANCE, {"type": "array", "prefixItems": [TEXT, {"$ref": "#", "description": "x"}]}, []),
    (LLAMA_CPP, lists("^a+$"), []),
    (LLAMA_CPP, lists("a+"), [("/properties/a", "patterns")]),
    (LLAMA_CPP, lists(r"^a\$"), [("/properties/a", "patterns")]),
    (LLAMA_CPP, lists(r"^\d$"), [("/properties/a", "patterns")]),
    (LLAMA_CPP, closed(a={"description": "anything"}), [("/properties/a", "takes_empty")]),
    (LLAMA_CPP, closed(a={"type": "array", "prefixItems": [TEXT]}), [("/properties/a", "fixed_tuples")]),
    (LLAMA_CPP, closed(a={"type": "array", "prefixItems": [TEXT], "minItems": 1, "maxItems": 1}), []),
    (CEREBRAS, closed(a={"anyOf": [TEXT] * 6}), [("/properties/a", "most_branches")]),
    (CEREBRAS, closed(a={"type": "integer", "maximum": 9}), [("/properties/a", "keywords")]),
    (GROQ_STRICT, opened(a=TEXT), [("", "closes_objects"), ("", "requires_all")]),
]  # fmt: skip


def test_a_fault_is_found_with_its_place_and_its_rule() -> None:
    for dialect, schema, expected in ROWS:
        faults = [(fault.place, fault.rule) for fault in find_faults(schema, dialect)]
        assert faults == expected, (dialect.name, str(schema)[:300])


@pytest.mark.parametrize(
    ("dialect", "schema", "said"),
    [
        (OPENAI_STRICT, {**closed(a=TEXT), "required": []}, "'required' is required to be supplied and to be an array including every key in properties. Missing 'a'."),
        (OPENAI_STRICT, {"type": "array", "items": TEXT}, "schema must be a JSON Schema of 'type: \"object\"', got 'type: \"array\"'."),
        (OPENAI_STRICT, closed(a={"$ref": "#", "title": "x", "description": "x"}), "$ref cannot have keywords {'description', 'title'}."),
        (OPENAI_STRICT, within(*range(11)), "11 levels of nesting exceeds limit of 10."),
        (ANTHROPIC_STRICT, closed(a={"type": "integer", "minimum": 1}), "For 'integer' type, property 'minimum' is not supported"),
        (ANTHROPIC_TOOL, opened(**{"$top": TEXT}), "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"),
        (GEMINI, opened(draft={"$ref": "#/$defs/Color", "title": "x"}) | {"$defs": COLOR}, "schema at properties.draft can only contain properties starting with '$' when $ref is present"),
        (CEREBRAS, closed(a={"anyOf": [TEXT] * 6}), "'anyOf' has 6 branches, more than 5"),
    ],
)  # fmt: skip
def test_a_fault_has_the_words_of_the_provider(dialect: Dialect, schema: Schema, said: str) -> None:
    assert [fault.problem for fault in find_faults(schema, dialect)] == [said]


def test_every_rule_of_a_dialect_has_words() -> None:
    # What a provider reads in its own way or does not enforce is taken.
    taken = {"name", "vendor", "closes_by_default", "joins_text_rules", "enforced_up_to"}
    fields = set(Dialect.__struct_fields__) - taken
    assert _WORDS[""].keys() == fields | {"form", "reference", "properties"}
    assert all(words.keys() <= _WORDS[""].keys() for words in _WORDS.values())


def test_the_limits_of_a_request_are_counted_over_its_schemas() -> None:
    union = {"anyOf": [TEXT, NULL]}
    rows = [
        ([closed(a=TEXT)] * 20, []),
        ([closed(a=TEXT)] * 21, ["Too many strict tools (21)"]),
        ([opened(a=TEXT, b=TEXT)] * 12, []),
        ([opened(**{f"p{n}": TEXT for n in range(25)})], ["too many optional parameters (25)"]),
        ([closed(**{f"p{n}": union for n in range(8)})] * 2, []),
        ([closed(a=union, b={"type": ["string", "null"]})] * 9, ["union types (18 parameters"]),
    ]
    for schemas, said in rows:
        faults = find_request_faults(schemas, ANTHROPIC_STRICT)
        assert len(faults) == len(said)
        assert all(words in fault.problem for words, fault in zip(said, faults, strict=True))
    assert find_request_faults([opened(a=union)] * 99, OPENAI_STRICT) == []


class Trip(BaseModel):
    """A trip."""

    city: str
    days: int
    stops: list[Stop]


class Stop(BaseModel):
    name: str
    note: str | None


def test_schemas_of_the_vendors_own_converters_pass() -> None:
    for kind in (Trip, Stop):
        assert find_faults(to_strict_json_schema(kind), OPENAI_STRICT) == []
        assert find_faults(transform_schema(kind), ANTHROPIC_STRICT) == []


def hostile() -> Iterator[object]:
    deep: Schema = {}
    for _ in range(10_000):
        deep = {"type": "object", "properties": {"a~/b": deep}}
    yield deep
    itself: Schema = {"type": "object", "properties": {}}
    itself["properties"]["a"] = itself
    yield itself
    yield closed(**{f"p{n}": {"$ref": f"#/$defs/d{n}"} for n in range(5000)}) | {
        "$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(5000)}
    }
    yield {"type": "object", "properties": {str(n): {"type": ["int"]} for n in range(60_000)}}
    yield {"enum": ["x" * 1000] * 10_000, "pattern": "(?:" * 50_000, "required": ["a"] * 100_000}
    yield {"anyOf": [{"$ref": "#/anyOf/0" + "/a" * 100_000}]}
    yield {1: 2, None: [], "type": [[]], "$ref": 7, "items": [TEXT], "format": {}}


@pytest.mark.slow  # takes half a second or more
def test_a_hostile_schema_is_judged_in_time() -> None:
    for schema in hostile():
        for dialect in (OPENAI_STRICT, GEMINI, LLAMA_CPP):
            began = time.process_time()
            faults = find_faults(schema, dialect)
            find_request_faults([schema], dialect)
            assert len(faults) <= 100
            assert time.process_time() - began < 10, dialect.name


@pytest.mark.slow  # takes half a second or more
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "properties", "items", "anyOf", "$ref", "$defs", "a", "enum"])
                | st.sampled_from(["required", "pattern", "prefixItems", "minItems", "format", "const"]),
                inner | st.sampled_from(["object", "array", "#", "#/$defs/a", "#/properties/a"]),
                max_size=5,
            )
        ),
        max_leaves=15,
    ),
    st.sampled_from(sorted(DIALECTS)),
)  # fmt: skip
def test_any_value_is_judged(schema: object, name: str) -> None:
    for fault in find_faults(schema, DIALECTS[name]):
        assert fault.problem
        assert fault.place == "" or fault.place.startswith("/")
    find_request_faults([schema], DIALECTS[name])
