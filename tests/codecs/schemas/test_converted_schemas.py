"""What becomes of schemas in each dialect: examples of every rule, and inputs that providers refused."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field, HttpUrl, StringConstraints, create_model
from tests.codecs.schemas.sent_values import SentValues, find_difference

from holdfast.codecs.schemas.conversion import (
    ConvertedSchema,
    RefusedSchema,
    SchemaSize,
    check_request_sizes,
    convert_schema,
    wrap_schema,
)
from holdfast.codecs.schemas.dialects import (
    ANTHROPIC_STRICT,
    ANTHROPIC_TOOL,
    CEREBRAS,
    DIALECTS,
    GEMINI,
    LLAMA_CPP,
    LLGUIDANCE,
    OPENAI_STRICT,
    OPENAI_TOOL,
    XAI,
    XGRAMMAR,
    Dialect,
)
from holdfast.codecs.schemas.judge import find_faults
from holdfast.codecs.schemas.rewriting import JsonRewriter, rewrite_value

Json = dict[str, Any]

TEXT: Json = {"type": "string"}
WHOLE: Json = {"type": "integer"}
NOTHING: Json = {"type": "null"}


def closed(**properties: Any) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def opened(**properties: Any) -> Json:
    return {"type": "object", "properties": properties}


def convert(schema: Json, dialect: Dialect) -> ConvertedSchema:
    """Convert a schema that the dialect takes, and check that its judge does."""
    made = convert_schema(schema, dialect)
    assert isinstance(made, ConvertedSchema), made
    assert find_faults(made.schema, dialect) == []
    return made


def refuse(schema: Json, dialect: Dialect) -> RefusedSchema:
    made = convert_schema(schema, dialect)
    assert isinstance(made, RefusedSchema), made
    return made


def convert_part(part: Any, dialect: Dialect, **definitions: Any) -> Json:
    """Return a property as it is sent."""
    schema = closed(x=part)
    sent = convert({**schema, "$defs": definitions} if definitions else schema, dialect).schema
    found: Json = sent["properties"]["x"]
    return found


def send_and_return(schema: Json, dialect: Dialect, value: Any) -> tuple[Any, Any]:
    """Return a value as it is sent, and as it comes back, at once and as a stream."""
    made = convert(schema, dialect)
    sent = SentValues(made.schema, made.rewriting).write(value)
    back = rewrite_value(made.rewriting, sent)
    if made.rewriting is not None:
        rewriter = JsonRewriter(made.rewriting)
        text = "".join(map(rewriter.feed, json.dumps(sent))) + rewriter.close()
        assert json.loads(text) == back
    assert Draft202012Validator(schema).is_valid(back)
    assert find_difference(value, back) == ""
    return sent, back


CONSTRAINTS: dict[str, Json] = {
    "minLength": {"type": "string", "minLength": 2},
    "maxLength": {"type": "string", "maxLength": 2},
    "pattern": {"type": "string", "pattern": "^(?!x)[a-z]+$"},
    "format": {"type": "string", "format": "path"},
    "minimum": {"type": "number", "minimum": 0},
    "exclusiveMaximum": {"type": "number", "exclusiveMaximum": 0},
    "multipleOf": {"type": "number", "multipleOf": 0.1},
    "minItems": {"type": "array", "items": TEXT, "minItems": 2},
    "maxItems": {"type": "array", "items": TEXT, "maxItems": 0},
    "uniqueItems": {"type": "array", "items": TEXT, "uniqueItems": True},
    "contains": {"type": "array", "items": TEXT, "contains": {"const": "a"}},
    "minProperties": {**closed(a=TEXT), "minProperties": 1},
    "dependentRequired": {**closed(a=TEXT, b=TEXT), "dependentRequired": {"a": ["b"]}},
    "not": {"type": "string", "not": {"const": "a"}},
    "if": {"type": "string", "if": {"const": "a"}, "then": False},
    "contentEncoding": {"type": "string", "contentEncoding": "base64"},
    "unknown": {"type": "string", "unknown": [1]},
}


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS.keys())
def test_a_constraint_is_sent_or_said(dialect: Dialect) -> None:
    for keyword, part in CONSTRAINTS.items():
        made = convert(closed(x=part), dialect)
        sent = made.schema["properties"]["x"]
        place = f"/properties/x/{keyword}"
        note = f'"{keyword}":{json.dumps(part[keyword], separators=(",", ":"))}'
        is_said = note in sent.get("description", "")
        assert is_said is (place in made.unenforced) is (place in made.moved), (keyword, sent)
        assert is_said or sent[keyword] == part[keyword], (keyword, sent)


def test_annotations_that_no_model_needs_go() -> None:
    part = {**TEXT, "$comment": "a", "readOnly": True, "deprecated": True, "x-order": 1, "$id": "http://a.example/b"}  # fmt: skip
    for dialect in DIALECTS.values():
        made = convert({"$schema": "https://json-schema.org/draft/2020-12/schema", **closed(x=part)}, dialect)  # fmt: skip
        sent = made.schema["properties"]["x"]
        kept = {name: value for name, value in sent.items() if name != "x-order"}
        assert kept == TEXT, dialect.name
        assert "$schema" not in made.schema


def test_defaults_and_examples_are_said_where_they_are_refused() -> None:
    part = {**TEXT, "description": "A name.", "default": "a", "examples": ["b"]}
    said = 'A name.\n\n{"default":"a","examples":["b"]}'
    assert convert_part(part, OPENAI_STRICT) == {**TEXT, "description": said}
    assert convert_part(part, OPENAI_TOOL) == part
    made = convert(closed(x=part), ANTHROPIC_STRICT)
    assert made.moved == ("/properties/x/default", "/properties/x/examples")
    assert made.unenforced == ()
    assert not made.is_lossless


def test_a_default_of_null_is_not_said() -> None:
    part = {"anyOf": [TEXT, NOTHING], "default": None}
    assert convert_part(part, OPENAI_STRICT) == {"anyOf": [TEXT, NOTHING]}


def test_a_schema_that_fits_is_sent_as_it_is() -> None:
    schema = {
        **closed(
            color={"enum": ["red", "blue"]},
            node={"$ref": "#/$defs/Node"},
            many={"type": "array", "items": {"anyOf": [WHOLE, NOTHING]}, "minItems": 1},
            when={"type": "string", "format": "date", "description": "A day."},
        ),
        "title": "Trip",
        "$defs": {"Node": closed(name=TEXT)},
    }
    for dialect in DIALECTS.values():
        made = convert(schema, dialect)
        if "format" in (dialect.keywords or {"format"}):
            assert (made.schema, made.is_lossless) == (schema, True), dialect.name


def test_the_input_is_not_changed_and_the_result_is_the_same() -> None:
    schema = {**opened(a={"$ref": "#/$defs/A", "description": "d"}), "$defs": {"A": opened(b=TEXT)}}
    before = json.dumps(schema)
    for dialect in DIALECTS.values():
        assert convert(schema, dialect).schema == convert(schema, dialect).schema
    assert json.dumps(schema) == before


NODE: Json = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}


@pytest.mark.parametrize(
    "schema",
    [
        {**opened(x={"$ref": "#/$defs/Node"}), "$defs": {"Node": NODE}},
        {**opened(x={"$ref": "#/definitions/N"}), "definitions": {"N": opened(next={"$ref": "#/definitions/N"})}},
        opened(x=opened(next={"$ref": "#/properties/x"})),
        {**opened(x={"$ref": "#/$defs/a~1b%25"}), "$defs": {"a/b%": opened(next={"$ref": "#/$defs/a~1b%25"})}},
        {**opened(x={"$ref": "#n"}), "$defs": {"Any": {"$anchor": "n", **opened(next={"$ref": "#n"})}}},
        {"$id": "https://a.example/root", **opened(x={"$ref": "node"}),
         "$defs": {"A": {"$id": "node", **opened(next={"$ref": "#"})}}},
        {**opened(x={"$ref": "#/$defs/One"}), "$defs": {"One": {"$ref": "#/$defs/Two"}, "Two": opened(next={"$ref": "#/$defs/One"})}},
        {**opened(x={"allOf": [{"$ref": "#/$defs/Node"}]}), "$defs": {"Node": NODE}},
        {**opened(x={"$ref": "#/$defs/Outer/$defs/Node"}),
         "$defs": {"Outer": {"$defs": {"Node": opened(next={"$ref": "#/$defs/Outer/$defs/Node"})}}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", **opened(x={"$ref": "#/definitions/N", "minLength": 9}),
         "definitions": {"N": opened(next={"$ref": "#/definitions/N"})}},
    ],
)  # fmt: skip
def test_references_are_read_in_every_form(schema: Json) -> None:
    value = {"x": {"next": {"next": {}}}}
    for dialect in DIALECTS.values():
        for whole, given in ((schema, value), (wrap_schema(schema, "answer"), {"answer": value})):
            assert Draft202012Validator(whole).is_valid(given) or "$schema" in schema
            if dialect.recursion == "none":
                assert refuse(whole, dialect).problem.startswith("contains itself")
            else:
                made = convert(whole, dialect)
                sent = SentValues(made.schema, made.rewriting).write(given)
                assert rewrite_value(made.rewriting, sent) == given


def test_a_reference_to_the_whole_schema() -> None:
    schema = closed(name=TEXT, parts={"type": "array", "items": {"$ref": "#"}})
    assert convert(schema, OPENAI_STRICT).schema == schema
    sent = convert(schema, LLAMA_CPP).schema
    assert sent["properties"]["parts"]["items"] == {"$ref": "#/$defs/Root"}
    assert sent["$defs"]["Root"]["properties"]["parts"]["items"] == {"$ref": "#/$defs/Root"}
    for dialect in (OPENAI_STRICT, LLAMA_CPP, OPENAI_TOOL):
        send_and_return(schema, dialect, {"name": "a", "parts": [{"name": "b", "parts": []}]})


def test_a_reference_with_siblings_is_put_in_place() -> None:
    part = {"$ref": "#/$defs/Color", "description": "outside"}
    color = {"type": "string", "enum": ["red"], "description": "inside"}
    sent = convert_part(part, OPENAI_STRICT, Color=color)
    assert sent == {"type": "string", "enum": ["red"], "description": "outside\n\ninside"}
    assert convert_part(part, LLGUIDANCE, Color=color) == part
    bounded = {"$ref": "#/$defs/Color", "minLength": 2}
    assert convert_part(bounded, LLGUIDANCE, Color=TEXT) == bounded
    assert convert_part(bounded, OPENAI_STRICT, Color=TEXT) == {**TEXT, "minLength": 2}


def test_a_part_that_is_put_in_place_often_becomes_a_definition() -> None:
    big = closed(**{f"p{at}": TEXT for at in range(20)})
    part = {"$ref": "#/$defs/Same"}
    parts = {"Big": big, "Same": {"$ref": "#/$defs/Big", "description": "Same words."}}
    made = convert({**closed(a=part, b=part, c=part), "$defs": parts}, OPENAI_STRICT)
    assert made.schema["properties"]["a"] == {"$ref": "#/$defs/Big_2"}
    assert made.schema["properties"]["b"] == {"$ref": "#/$defs/Big_2"}
    assert list(made.schema["$defs"]) == ["Big_2"]


@pytest.mark.parametrize(
    "reference",
    ["#/$defs/Missing", "https://a.example/b.json", "file:///etc/passwd", "other.json#/a", "#missing"],
)  # fmt: skip
def test_a_reference_that_leads_nowhere_is_refused_with_its_place(reference: str) -> None:
    for dialect in DIALECTS.values():
        made = refuse(closed(x={"$ref": reference}), dialect)
        assert "/properties/x" in made.place + made.problem
        assert made.fix


def test_a_cycle_is_refused_with_its_place_where_a_dialect_has_none() -> None:
    schema = {**closed(top={"$ref": "#/$defs/A"}), "$defs": {"A": opened(b={"$ref": "#/$defs/B"}), "B": opened(a={"$ref": "#/$defs/A"})}}  # fmt: skip
    made = refuse(schema, ANTHROPIC_STRICT)
    assert made.place in ("/$defs/A/properties/b", "/$defs/B/properties/a")


def test_a_cycle_of_conditions_that_are_said_is_none() -> None:
    part = {"type": "array", "items": TEXT, "contains": {"$ref": "#/$defs/A"}}
    schema = {**closed(x={"$ref": "#/$defs/A"}), "$defs": {"A": part}}
    assert convert(schema, ANTHROPIC_STRICT).unenforced == ("/$defs/A/contains",)


def test_gemini_does_not_require_a_property_that_contains_its_object() -> None:
    node = closed(name=TEXT, left={"anyOf": [{"$ref": "#/$defs/Node"}, NOTHING]})
    made = convert({**closed(x={"$ref": "#/$defs/Node"}), "$defs": {"Node": node}}, GEMINI)
    sent = made.schema["$defs"]["Node"]
    assert sent["required"] == ["name"]
    assert sent["description"] == '{"required":["left"]}'
    assert made.unenforced == ("/$defs/Node/required",)
    children = closed(many={"type": "array", "items": {"$ref": "#/$defs/Node"}})
    made = convert({**closed(x={"$ref": "#/$defs/Node"}), "$defs": {"Node": children}}, GEMINI)
    assert "required" not in made.schema["$defs"]["Node"]


def test_every_cycle_is_found() -> None:
    # A to B is optional; A to C to B to A is not.
    schema = {
        **closed(x={"$ref": "#/$defs/A"}),
        "$defs": {
            "A": {**opened(b={"$ref": "#/$defs/B"}, c={"$ref": "#/$defs/C"}), "required": ["c"]},
            "B": closed(a={"anyOf": [{"$ref": "#/$defs/A"}, NOTHING]}),
            "C": closed(b={"$ref": "#/$defs/B"}),
        },
    }
    convert(schema, GEMINI)


def test_a_list_of_lists_is_open_for_gemini() -> None:
    many = {"type": "array", "items": {"$ref": "#/$defs/Many"}}
    made = convert({**closed(x={"$ref": "#/$defs/Many"}), "$defs": {"Many": many}}, GEMINI)
    assert made.schema["$defs"]["Many"]["items"] == {"description": "The same form as the value around it."}  # fmt: skip
    assert made.unenforced == ("/$defs/Many/items",)


def test_an_optional_property_is_null_where_all_are_required() -> None:
    schema = {**opened(a=TEXT, b={"$ref": "#/$defs/B"}, c=WHOLE), "required": ["c"], "$defs": {"B": closed(d=TEXT)}}  # fmt: skip
    made = convert(schema, OPENAI_STRICT)
    assert made.schema["properties"] == {
        "a": {"type": ["string", "null"]},
        "b": {"anyOf": [{"$ref": "#/$defs/B"}, NOTHING]},
        "c": WHOLE,
    }
    assert made.schema["required"] == ["a", "b", "c"]
    assert send_and_return(schema, OPENAI_STRICT, {"c": 1}) == (
        {"a": None, "b": None, "c": 1},
        {"c": 1},
    )
    assert convert(schema, CEREBRAS).schema["properties"]["a"] == {"anyOf": [TEXT, NOTHING]}


@pytest.mark.parametrize(
    "part",
    [
        {"type": ["string", "null"]},
        {"anyOf": [TEXT, NOTHING]},
        {"oneOf": [TEXT, {"$ref": "#/$defs/Nothing"}]},
        {"enum": ["a", None]},
        {"const": None},
        {"allOf": [{"type": ["string", "null"]}, {"type": ["integer", "null"]}]},
        {"not": {"type": "string"}, "type": ["integer", "null"]},
        {"type": ["integer", "null"], "if": {"type": "null"}, "then": True, "else": {"minimum": 1}},
        {"$ref": "#/$defs/Nothing"},
    ],
)
def test_a_null_that_the_original_allows_stays(part: Json) -> None:
    schema = {**opened(x=part), "$defs": {"Nothing": NOTHING}}
    _, back = send_and_return(schema, OPENAI_STRICT, {"x": None})
    assert back == {"x": None}


@pytest.mark.parametrize(
    "part",
    [
        {"oneOf": [{"type": ["string", "null"]}, {"type": ["integer", "null"]}]},
        {"type": ["integer", "null"], "not": {"type": "null"}},
        {"type": ["integer", "null"], "if": {"type": "null"}, "then": False},
        {"allOf": [{"type": ["string", "null"]}, TEXT]},
        {"oneOf": [{"enum": ["a", None]}, {"properties": {"a": TEXT}, "required": ["a"]}]},
    ],
)
def test_a_null_that_the_original_refuses_is_taken_out(part: Json) -> None:
    sent, back = send_and_return(opened(x=part), OPENAI_STRICT, {})
    assert (sent, back) == ({"x": None}, {})


MAYBE: Json = {"type": ["string", "null"]}


def test_a_null_beside_a_default_is_a_value() -> None:
    # `b: int | None = 5`: None is what the type allows, and the model reads the default.
    part = {"anyOf": [WHOLE, NOTHING], "default": 5}
    assert send_and_return(opened(b=part), OPENAI_STRICT, {"b": None})[1] == {"b": None}
    assert convert_part(part, OPENAI_STRICT)["description"] == '{"default":5}'


@pytest.mark.parametrize(
    ("rule", "keyword"),
    [
        ({"not": {"required": ["a"]}}, "not"),
        ({"maxProperties": 1}, "maxProperties"),
        ({"dependentRequired": {"a": ["b"]}}, "dependentRequired"),
        ({"dependentSchemas": {"a": {"properties": {"b": NOTHING}}}}, "dependentSchemas"),
        ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, "if"),
        ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, "oneOf"),
        ({"propertyNames": {"pattern": "b"}}, "propertyNames"),
        ({"allOf": [{**opened(b=TEXT), "unevaluatedProperties": False, "not": {"required": ["c"]}, "if": {"properties": {"a": TEXT}}}]}, "unevaluatedProperties"),
    ],
)  # fmt: skip
def test_a_null_that_could_mean_an_absent_property_is_refused(rule: Json, keyword: str) -> None:
    # Null would come back for an absent property, and the rule refuses the property.
    made = refuse(closed(x={**opened(a=MAYBE, b=MAYBE), **rule}), OPENAI_STRICT)
    assert made.place == "/properties/x/properties/a"
    assert f'"{keyword}" tells these apart' in made.problem
    others = {"not": {"required": ["c"]}, "dependentRequired": {"b": ["a"]}, "maxProperties": 2}
    part = {**opened(a=MAYBE, b=TEXT), "required": ["a"], **rule, **others}
    convert(closed(x=part), OPENAI_STRICT)
    convert(closed(x={**opened(a=TEXT, b=TEXT), **rule}), OPENAI_STRICT)


NEEDS_B: Json = {**opened(b=MAYBE, c=TEXT), "required": ["b"]}


@pytest.mark.parametrize(
    ("part", "place"),
    [
        ({"oneOf": [opened(a=TEXT, b=MAYBE), NEEDS_B]}, "/oneOf/0/properties/b"),
        ({"oneOf": [opened(a=TEXT, b=MAYBE), {**opened(c=TEXT), "required": ["b"]}]}, "/oneOf/0/properties/b"),
        ({"oneOf": [closed(x=opened(b=MAYBE)), closed(x=NEEDS_B)]}, "/oneOf/0/properties/x/properties/b"),
        ({**opened(b=MAYBE), "oneOf": [opened(a=TEXT), {**opened(c=TEXT), "required": ["b"]}]}, "/properties/b"),
        ({"oneOf": [opened(a=TEXT, b=MAYBE), {**opened(a=TEXT, b=MAYBE, c=TEXT), "minProperties": 1}]}, "/oneOf/0/properties/b"),
        ({"oneOf": [opened(a=TEXT, b=MAYBE), {**opened(b=MAYBE, c=TEXT), "not": opened(b=TEXT)}]}, "/oneOf/0/properties/b"),
        ({"oneOf": [opened(a=TEXT, b=MAYBE), {"enum": [{"b": None}]}]}, "/oneOf/0/properties/b"),
        ({"oneOf": [opened(a=TEXT, b=MAYBE), {**opened(b=MAYBE, c=TEXT), "dependentRequired": {"c": ["b"]}}]}, "/oneOf/0/properties/b"),
    ],
)  # fmt: skip
def test_a_null_with_which_a_second_alternative_would_fit_is_refused(
    part: Json, place: str
) -> None:
    # {} fits the first one alone. It would come back as {"b": None}, which fits both.
    for dialect in (OPENAI_STRICT, CEREBRAS):
        made = refuse(closed(x=part), dialect)
        assert (made.place, made.fix) == (
            f"/properties/x{place}",
            "Require it, or do not let it be null",
        )
        assert '"oneOf" tells these apart' in made.problem
    # Where an absent property may stay absent, nothing changes.
    convert(closed(x=part), OPENAI_TOOL)
    convert(closed(x={**part, "anyOf": part["oneOf"], "oneOf": [{}]}), GEMINI)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        # One alternative, those that differ in a property or in their types, and those that refuse the null.
        ({"oneOf": [opened(a=TEXT, b=MAYBE)]}, {"a": "x"}),
        ({"oneOf": [{**closed(kind={"const": "a"}, b=MAYBE), "required": ["kind"]}, closed(kind={"const": "b"}, b=MAYBE)]}, {"kind": "a"}),
        ({"oneOf": [opened(b=MAYBE), {"type": "array", "items": NEEDS_B}]}, {}),
        ({"oneOf": [{**opened(a=TEXT, b=MAYBE), "required": ["a"]}, closed(b=TEXT)]}, {"a": "x"}),
        ({"oneOf": [{**opened(a=TEXT, b=MAYBE), "required": ["a"]}, {**opened(b=TEXT), "required": ["b"]}]}, {"a": "x"}),
        ({"anyOf": [opened(a=TEXT, b=MAYBE), NEEDS_B]}, {"a": "x"}),
        ({"oneOf": [opened(a=TEXT, b=TEXT), NEEDS_B]}, {"a": "x"}),
    ],
)  # fmt: skip
def test_a_null_that_lets_no_second_alternative_fit_is_sent(part: Json, value: Json) -> None:
    schema = closed(x=part)
    sent, _ = send_and_return(schema, OPENAI_STRICT, {"x": value})
    assert list(sent["x"].values()).count(None) == 1


@pytest.mark.parametrize(
    "part",
    [
        {**opened(**{"a~b/c%": NOTHING, "c": TEXT}), "allOf": [{**opened(**{"$ref": TEXT}), "unevaluatedProperties": False}]},
        {"allOf": [opened(a=NOTHING), {"$ref": "#/$defs/B", "unevaluatedProperties": False}]},
        {"allOf": [opened(a=NOTHING, b=NOTHING, c=NOTHING), {"anyOf": [opened(b=NOTHING), opened(d=TEXT)], "unevaluatedProperties": False}]},
    ],
)  # fmt: skip
def test_a_property_that_a_joined_part_does_not_evaluate_is_not_sent(part: Json) -> None:
    schema = {**closed(x=part), "$defs": {"B": opened(b=TEXT)}}
    for value in ({"x": {}}, {"x": {"b": None}}, {"x": {"$ref": "a"}}):
        if Draft202012Validator(schema).is_valid(value):
            sent, _ = send_and_return(schema, OPENAI_STRICT, value)
            assert "a" not in sent["x"]
            assert "a~b/c%" not in sent["x"]


def test_unevaluated_properties_with_a_schema_are_free_keys() -> None:
    for rest in ({}, TEXT, True):
        made = refuse(closed(x={**opened(a=TEXT), "unevaluatedProperties": rest}), ANTHROPIC_STRICT)
        assert made.place == "/properties/x/unevaluatedProperties"
        assert made.problem.startswith("has free keys")


def test_a_null_means_one_thing_at_one_place() -> None:
    one = {
        **opened(kind={"const": "a"}, note=TEXT),
        "required": ["kind"],
        "additionalProperties": False,
    }
    other = closed(kind={"const": "b"}, note={"type": ["string", "null"]})
    schema = closed(x={"anyOf": [one, other]})
    made = convert(schema, OPENAI_STRICT)
    names = [list(branch["properties"]) for branch in made.schema["properties"]["x"]["anyOf"]]
    assert names == [["kind", "note_2"], ["kind", "note"]]
    for value in (
        {"x": {"kind": "a"}},
        {"x": {"kind": "a", "note": "n"}},
        {"x": {"kind": "b", "note": None}},
    ):
        assert send_and_return(schema, OPENAI_STRICT, value)[1] == value


def test_keys_that_are_refused_get_other_names() -> None:
    schema = opened(**{"$top": WHOLE, "top": TEXT, "filter[id]": TEXT, "größe": TEXT, "": TEXT, "x" * 70: TEXT, "$": TEXT, "a\n": TEXT})  # fmt: skip
    for dialect in (ANTHROPIC_TOOL, ANTHROPIC_STRICT):
        made = convert(schema, dialect)
        assert list(made.schema["properties"]) == ["top_2", "top", "filter_id", "gr_e", "key", "x" * 56, "key_2", "a"]  # fmt: skip
        value = {"$top": 1, "top": "t", "filter[id]": "f", "größe": "g", "": "e", "x" * 70: "l", "$": "d", "a\n": "n"}  # fmt: skip
        assert send_and_return(schema, dialect, value)[1] == value


def test_a_rule_for_names_is_said_where_names_are_others() -> None:
    part = {**opened(**{"$a": TEXT}), "propertyNames": {"pattern": "^[$]"}}
    sent = convert(part, ANTHROPIC_TOOL).schema
    assert "propertyNames" not in sent
    assert '"propertyNames"' in sent["description"]
    assert "propertyNames" in convert(part, OPENAI_TOOL).schema


def test_the_order_of_properties_is_sent_to_gemini() -> None:
    part = {**opened(a=TEXT, b=TEXT), "propertyOrdering": ["b", "a", 3]}
    more = {"properties": {"c": TEXT, "a": False}, "propertyOrdering": ["c", "b"]}
    for schema, ordering in ((part, ["b", "a"]), ({"allOf": [part, more]}, ["b", "c"])):
        made = convert(schema, GEMINI)
        assert made.schema["propertyOrdering"] == ordering
        assert (made.moved, "description" in made.schema) == ((), False)
    made = convert(part, OPENAI_STRICT)
    assert made.schema["description"] == '{"propertyOrdering":["b","a"]}'
    assert made.unenforced == ()


def test_a_key_has_one_name_in_the_whole_schema() -> None:
    schema = {
        "type": "object",
        "properties": {"$a": TEXT, "inner": {"$ref": "#/$defs/Inner"}},
        "required": ["$a"],
        "dependentRequired": {"$a": ["$b"]},
        "not": {"required": ["$c"]},
        "$defs": {"Inner": {"type": "object", "properties": {"$a": WHOLE, "$b": TEXT}, "additionalProperties": {"$ref": "#/$defs/Inner"}}},
    }  # fmt: skip
    sent = convert(schema, ANTHROPIC_TOOL).schema
    assert sent["required"] == ["a_2"]
    assert sent["dependentRequired"] == {"a_2": ["b_2"]}
    value = {"$a": "t", "$b": 1, "inner": {"$a": 1, "free": {"$b": "t", "deep": {"$a": 2}}}}
    assert send_and_return(schema, ANTHROPIC_TOOL, value)[1] == value


def test_a_free_key_is_not_taken_for_a_property_with_another_name() -> None:
    for free in ({"additionalProperties": TEXT}, {"patternProperties": {"^t": TEXT}}):
        schema = {**opened(**{"$type": WHOLE}), **free}
        value = {"$type": 1, "type": "t"}
        assert send_and_return(schema, ANTHROPIC_TOOL, value)[0] == {"type_2": 1, "type": "t"}


def test_parts_of_all_of_are_joined() -> None:
    base = {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}
    more = {"properties": {"b": {"type": "number", "minimum": 1}}, "required": ["b"]}
    last = {"properties": {"b": {"type": "integer", "minimum": 0, "maximum": 9}}}
    sent = convert_part({"allOf": [{"$ref": "#/$defs/Base"}, more, last]}, OPENAI_STRICT, Base=base)
    assert sent == closed(a=TEXT, b={"type": "integer", "minimum": 1, "maximum": 9})


def test_parts_that_exclude_each_other_fit_no_value() -> None:
    never = {"allOf": [TEXT, WHOLE]}
    for dialect in DIALECTS.values():
        if dialect.keywords is not None:
            assert refuse(closed(x=never), dialect).problem == "fits no value"
            # An optional property of which no value fits cannot be there, and such a branch cannot be chosen.
            made = convert({**opened(a=TEXT, x=never), "required": ["a"]}, dialect)
            assert list(made.schema["properties"]) == ["a"]
            assert convert_part({"anyOf": [never, TEXT]}, dialect) == TEXT


def test_closed_parts_close_each_other() -> None:
    part = {
        "allOf": [
            closed(a=TEXT),
            {"type": "object", "properties": {"a": {"minLength": 1}, "b": TEXT}},
        ]
    }
    assert convert_part(part, OPENAI_STRICT) == closed(a={**TEXT, "minLength": 1})


def test_a_choice_beside_other_constraints_holds_them_in_each_branch() -> None:
    part = {
        "type": "object",
        "properties": {"id": WHOLE},
        "required": ["id"],
        "description": "One of two.",
        "oneOf": [
            {"properties": {"kind": {"const": "a"}}, "required": ["kind"]},
            {"properties": {"kind": {"const": "b"}, "more": TEXT}, "required": ["kind", "more"]},
        ],
    }
    sent = convert_part(part, OPENAI_STRICT)
    assert sent["description"] == "One of two."
    names = [list(one["properties"]) for one in sent["anyOf"]]
    assert names == [["id", "kind"], ["id", "kind", "more"]]


def test_one_of_becomes_any_of_and_says_what_is_lost() -> None:
    apart = closed(x={"oneOf": [TEXT, WHOLE, closed(kind={"const": "a"})]})
    assert convert(apart, OPENAI_STRICT).is_lossless
    made = convert(
        closed(x={"oneOf": [{**TEXT, "minLength": 1}, {**TEXT, "maxLength": 9}]}), GEMINI
    )
    assert "/properties/x/oneOf" in made.unenforced
    assert made.schema["properties"]["x"]["description"] == "Exactly one of the alternatives fits."
    tagged = {"oneOf": [closed(kind={"const": "a"}), closed(kind={"enum": ["b", "c"]})]}
    assert "description" not in convert_part(tagged, OPENAI_STRICT)


def test_a_wider_branch_does_not_exclude_more() -> None:
    # Without its pattern, the first branch fits whatever the second one fits, and `oneOf` would refuse it.
    part = {"oneOf": [{**TEXT, "pattern": "^(?!b)"}, {**TEXT, "minLength": 3}]}
    assert "anyOf" in convert_part(part, OPENAI_TOOL)
    assert "oneOf" in convert_part(part, ANTHROPIC_TOOL)
    denied = convert_part({**TEXT, "not": {"pattern": "^(?!b)"}}, OPENAI_TOOL)
    assert "not" not in denied
    assert '"not"' in denied["description"]


def test_values_and_types_in_the_forms_that_a_dialect_has() -> None:
    assert convert_part({"const": "a"}, GEMINI) == {"enum": ["a"]}
    assert convert_part({"type": "string", "enum": ["a"]}, ANTHROPIC_STRICT) == {"enum": ["a"]}
    assert convert_part({"enum": ["a", None]}, GEMINI) == {"anyOf": [{"enum": ["a"]}, NOTHING]}
    assert convert_part({"enum": [{"a": 1}, "b"]}, OPENAI_STRICT) == {
        "anyOf": [{"enum": ["b"]}, closed(a={"const": 1})]
    }
    assert convert_part({"const": {}}, OPENAI_STRICT) == closed()
    send_and_return(closed(x={"enum": [1, True, "a"]}), GEMINI, {"x": True})
    listed = {"const": [1, "a"], "default": "b"}
    convert(closed(x=listed, y=listed), GEMINI)
    send_and_return(closed(x={"const": {"$a": 1}}), ANTHROPIC_STRICT, {"x": {"$a": 1}})
    two = {"type": ["string", "integer"], "minLength": 2, "minimum": 3}
    assert convert_part(two, LLGUIDANCE) == two
    assert convert_part(two, ANTHROPIC_STRICT) == {
        "anyOf": [{**TEXT, "description": '{"minLength":2}'}, {**WHOLE, "description": '{"minimum":3}'}]
    }  # fmt: skip
    assert convert_part({"type": "string", "enum": ["a", 1, True]}, OPENAI_STRICT) == {"type": "string", "enum": ["a"]}  # fmt: skip


def test_a_tuple_loses_nothing_but_its_positions() -> None:
    pair = {"type": "array", "prefixItems": [TEXT, WHOLE], "minItems": 2, "maxItems": 2}
    assert convert_part(pair, LLGUIDANCE) == pair
    assert convert_part(pair, LLAMA_CPP) == pair
    made = convert(closed(x=pair), OPENAI_STRICT)
    assert made.schema["properties"]["x"]["items"] == {"anyOf": [TEXT, WHOLE]}
    assert made.unenforced == ("/properties/x/prefixItems",)
    same = {**pair, "prefixItems": [TEXT, TEXT]}
    assert convert(closed(x=same), OPENAI_STRICT).unenforced == ()
    open_ended = {"type": "array", "prefixItems": [TEXT]}
    assert convert_part(open_ended, LLAMA_CPP)["items"]["anyOf"][0] == TEXT
    assert refuse(closed(x=open_ended), OPENAI_STRICT).place == "/properties/x"
    old = {"type": "array", "items": [TEXT, WHOLE], "additionalItems": False}
    seven = {"$schema": "http://json-schema.org/draft-07/schema#", **closed(x=old)}
    assert convert(seven, LLGUIDANCE).schema["properties"]["x"] == {"type": "array", "prefixItems": [TEXT, WHOLE], "maxItems": 2}  # fmt: skip


def test_boolean_schemas() -> None:
    schema = {"type": "object", "properties": {"a": True, "b": False, "c": TEXT}, "required": ["c"]}
    assert convert(schema, LLGUIDANCE).schema["properties"] == {"a": {}, "c": TEXT}
    assert convert(schema, LLAMA_CPP).schema["properties"]["a"] == {
        "type": ["string", "number", "boolean", "null", "object", "array"]
    }
    assert refuse(schema, OPENAI_STRICT).place == "/properties/a"
    assert convert(closed(x={"anyOf": [False, TEXT]}), OPENAI_STRICT).schema == closed(x=TEXT)


def test_conditions_that_name_properties_become_a_choice() -> None:
    part = {
        "type": "object",
        "properties": {"kind": {"enum": ["a", "b"]}},
        "required": ["kind"],
        "if": {"properties": {"kind": {"const": "a"}}},
        "then": {"properties": {"more": TEXT}, "required": ["more"]},
    }
    for value in ({"x": {"kind": "a", "more": "m"}}, {"x": {"kind": "b"}}):
        send_and_return(closed(x=part), OPENAI_STRICT, value)
    assert "/properties/x/if" in convert(closed(x=part), OPENAI_STRICT).unenforced
    assert refuse(part, OPENAI_STRICT).problem.startswith("is a choice at the top")


def test_conditions_of_joined_parts_stay_apart() -> None:
    one = {
        "type": "object",
        "properties": {"a": TEXT},
        "if": {"required": ["a"]},
        "then": {"required": ["b"]},
    }
    other = {
        "properties": {"b": TEXT},
        "if": {"required": ["c"]},
        "else": {"required": ["b"]},
        "then": True,
    }
    stray = {"then": False, "minContains": 5}
    sent = convert({"allOf": [one, other, stray]}, OPENAI_TOOL).schema
    assert (sent["if"], sent["then"]) == ({"required": ["a"]}, {"required": ["b"]})
    assert "else" not in sent
    assert '"else":{"required":["b"]}' in sent["description"]
    lists = {"allOf": [{"type": "array", "items": TEXT, "contains": {"const": "a"}}, {"contains": {"const": "b"}, "maxContains": 1}]}  # fmt: skip
    joined = convert({"allOf": [opened(x=lists), opened(x={"minItems": 1})]}, ANTHROPIC_TOOL).schema
    assert "maxContains" not in joined["properties"]["x"]


def test_branches_count_before_an_object_is_closed_around_them() -> None:
    part = {"anyOf": [opened(a=TEXT), opened(b=TEXT)], "unevaluatedProperties": False}
    for dialect in DIALECTS.values():
        for value in ({"x": {"a": "t"}}, {"x": {"b": "t"}}):
            send_and_return(closed(x=part), dialect, value)
    refers = {"$ref": "#/$defs/A", "unevaluatedProperties": False}
    schema = {**closed(x=refers), "$defs": {"A": opened(a=TEXT)}}
    for dialect in DIALECTS.values():
        send_and_return(schema, dialect, {"x": {"a": "t"}})


@pytest.mark.parametrize(
    ("part", "place"),
    [
        ({"type": "object"}, "/properties/x"),
        ({"type": "object", "properties": {}}, "/properties/x"),
        ({"type": "object", "additionalProperties": WHOLE}, "/properties/x/additionalProperties"),
        ({"type": "object", "patternProperties": {"^a": WHOLE}, "additionalProperties": False}, "/properties/x/patternProperties"),
        ({**closed(a=TEXT), "additionalProperties": True}, "/properties/x/additionalProperties"),
        ({"type": ["object", "string"]}, "/properties/x"),
        ({"allOf": [{"type": "object"}, {"description": "d"}]}, "/properties/x"),
        ({"anyOf": [TEXT, {"type": "object"}]}, "/properties/x/anyOf/1"),
        ({"type": "array", "items": {"type": "object"}}, "/properties/x/items"),
        ({"type": "array"}, "/properties/x"),
        ({}, "/properties/x"),
    ],
)  # fmt: skip
def test_free_keys_and_free_values_are_refused_where_they_cannot_be_said(
    part: Json, place: str
) -> None:
    for dialect in DIALECTS.values():
        if dialect.closes_objects:
            made = refuse(closed(x=part), dialect)
            assert made.place == place or made.place.startswith(place), (dialect.name, made)
            assert made.fix
        else:
            convert(closed(x=part), dialect)


@pytest.mark.parametrize("dialect", [XAI, XGRAMMAR], ids=["xai", "xgrammar"])
def test_an_object_that_would_be_closed_without_a_word_may_have_free_keys(dialect: Dialect) -> None:
    for part in (
        {"type": "object"},
        {"type": "object", "minProperties": 1},
        {"type": ["object", "null"]},
    ):
        assert convert_part(part, dialect)["additionalProperties"] is True
    assert "additionalProperties" not in convert_part({"minLength": 1}, dialect)
    numbers = {"type": "object", "additionalProperties": WHOLE}
    assert convert_part(numbers, dialect) == numbers
    patterns = {"type": "object", "patternProperties": {"^a": WHOLE}}
    assert convert_part(patterns, dialect)["additionalProperties"] is True
    made = convert(opened(a=opened(b=TEXT)), dialect)
    assert set(made.narrowed) == {"", "/properties/a"}
    assert made.schema == opened(a=opened(b=TEXT))
    whole = convert({"type": "object", "anyOf": [{"enum": [{"a": 1}]}, {"minProperties": 2}]}, XAI)
    assert whole.schema["additionalProperties"] is True
    nothing = {"type": "object", "properties": {}}
    assert convert_part(nothing, dialect)["additionalProperties"] is True
    assert "additionalProperties" not in convert(nothing, dialect).schema


@pytest.mark.parametrize("dialect", [XAI, XGRAMMAR], ids=["xai", "xgrammar"])
def test_a_pattern_is_sent_if_it_means_the_same_for_the_whole_text(dialect: Dialect) -> None:
    for pattern in (r"^\d{3}$", "^(a|b)$", "^[$^]+$"):
        assert convert_part({**TEXT, "pattern": pattern}, dialect)["pattern"] == pattern
    for pattern in ("b+", "^a", "^a|b$", "^a$|^b$", r"^a\$", "^(?!x)$"):
        assert "pattern" not in convert_part({**TEXT, "pattern": pattern}, dialect)


def test_rules_that_a_provider_accepts_and_does_not_enforce_are_said() -> None:
    long = {**TEXT, "minLength": 2048, "maxLength": 2049}
    assert convert_part(long, XAI) == {
        **TEXT,
        "minLength": 2048,
        "description": '{"maxLength":2049}',
    }
    both = {**TEXT, "pattern": "^a+$", "minLength": 1, "format": "date"}
    assert convert_part(both, XGRAMMAR) == {
        **TEXT,
        "pattern": "^a+$",
        "description": '{"minLength":1,"format":"date"}',
    }


def test_a_text_that_json_writes_with_escapes_is_not_limited_by_xgrammar() -> None:
    # Its grammar of a length, and of a pattern, has no quotation mark, backslash or line break.
    short = {**TEXT, "minLength": 1, "maxLength": 2}
    assert convert_part(short, XGRAMMAR) == {
        **TEXT,
        "description": '{"minLength":1,"maxLength":2}',
    }
    for pattern in (
        *(r"^\d{3}-[a-z]+?$", "^(?:a|b)*$", "^[$^]+$", r"^[\w.-]+@[\w.-]+$", "^größe$"),
        "^[A-Za-z0-9_ -]{1,8}$",
    ):
        assert convert_part({**TEXT, "pattern": pattern}, XGRAMMAR)["pattern"] == pattern
    for pattern in ("^.*$", "^[^a]$", '^"a"$', r"^\s$", r"^\W$", "^[ -}]+$", r"^a\\b$", r"^\n$"):
        part = {**TEXT, "pattern": pattern}
        assert "pattern" not in convert_part(part, XGRAMMAR)
        assert "pattern" in convert_part(part, XAI)


def test_a_fractional_bound_of_an_integer_is_sent_as_a_whole_number() -> None:
    fractions = {"minimum": 0.5, "exclusiveMinimum": -0.5, "maximum": 7.5, "exclusiveMaximum": 6.5}
    whole = {"minimum": 1, "exclusiveMinimum": -1, "maximum": 7, "exclusiveMaximum": 7}
    for types in ("integer", ["integer", "null"]):
        made = convert(closed(x={"type": types, **fractions}), XGRAMMAR)
        assert made.schema["properties"]["x"] == {"type": types, **whole}
        assert not made.unenforced
    for types in ("number", ["integer", "number"]):
        assert convert_part({"type": types, **fractions}, XGRAMMAR) == {
            "type": "number",
            **fractions,
        }
    assert convert_part({**WHOLE, "minimum": 1.0, "maximum": 5}, XGRAMMAR)["minimum"] == 1
    assert convert_part({**WHOLE, **fractions}, LLGUIDANCE) == {**WHOLE, **fractions}
    large = {**WHOLE, "minimum": -(2**63) + 1, "maximum": 2**63}
    assert convert_part(large, XGRAMMAR) == {
        **WHOLE,
        "minimum": -(2**63) + 1,
        "description": '{"maximum":9223372036854775808}',
    }
    numbers = Draft202012Validator({**WHOLE, **fractions})
    sent = Draft202012Validator({**WHOLE, **whole})
    for value in range(-3, 10):
        assert numbers.is_valid(value) == sent.is_valid(value)


def test_a_property_of_xai_is_not_true_or_false() -> None:
    schema = {"type": "object", "properties": {"a": True, "b": False}}
    assert convert(schema, XAI).schema["properties"] == {"a": {}}
    assert [fault.place for fault in find_faults(schema, XAI)] == ["/properties/a", "/properties/b"]


def test_a_keyword_counts_from_its_draft_on() -> None:
    part = {**opened(a=TEXT), "unevaluatedProperties": False, "minProperties": 1}
    old = {"$schema": "http://json-schema.org/draft-07/schema#", **opened(x=part)}
    sent = convert(old, OPENAI_TOOL).schema["properties"]["x"]
    assert sent == {**opened(a=TEXT), "minProperties": 1}
    needed = {**opened(a=TEXT, b=TEXT), "dependencies": {"a": ["b"]}}
    seven = {"$schema": "http://json-schema.org/draft-07/schema#", **needed}
    assert convert(seven, ANTHROPIC_TOOL).schema["dependentRequired"] == {"a": ["b"]}
    assert convert(needed, ANTHROPIC_TOOL).schema["description"] == '{"dependencies":{"a":["b"]}}'


def test_an_object_that_is_empty_and_closed_is_sent() -> None:
    for dialect in DIALECTS.values():
        sent = convert(closed(x=closed()), dialect).schema["properties"]["x"]
        assert sent.get("properties", {}) == {}
        assert sent["additionalProperties"] is False


def test_keys_with_a_list_of_names_are_properties() -> None:
    part = {"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": WHOLE}
    value = {"x": {"a": 1}}
    assert send_and_return(closed(x=part), OPENAI_STRICT, value)[0] == {"x": {"a": 1, "b": None}}
    assert send_and_return(closed(x=part), ANTHROPIC_STRICT, value)[0] == value


def test_a_part_without_a_type_gets_that_of_its_keywords() -> None:
    made = convert(closed(x={"properties": {"a": TEXT}}, y={"items": TEXT}), ANTHROPIC_STRICT)
    assert made.narrowed == ("/properties/x", "/properties/y")
    assert made.schema["properties"]["y"] == {"type": "array", "items": TEXT}
    assert not made.is_lossless


def test_a_choice_at_the_top_of_a_tool_is_said() -> None:
    either = {**opened(a=TEXT, b=TEXT), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    for dialect in (OPENAI_TOOL, ANTHROPIC_TOOL, OPENAI_STRICT, ANTHROPIC_STRICT):
        made = convert(either, dialect)
        assert made.unenforced == ("/anyOf",)
        assert '{"anyOf":[{"required":["a"]},{"required":["b"]}]}' in made.schema["description"]
    branches = [closed(kind={"const": "a"}, one=TEXT), closed(kind={"const": "b"}, two=WHOLE)]
    for keyword in ("anyOf", "oneOf"):
        for dialect in (OPENAI_TOOL, ANTHROPIC_TOOL):
            sent = convert({keyword: branches}, dialect).schema
            assert list(sent["properties"]) == ["kind", "one", "two"]
            assert (sent["required"], sent["additionalProperties"]) == (["kind"], False)
        made = refuse({keyword: branches}, OPENAI_STRICT)
        assert made.fix == "Make it the property of an object"
        send_and_return(wrap_schema({keyword: branches}, "answer"), OPENAI_STRICT, {"answer": {"kind": "b", "two": 2}})  # fmt: skip


LISTED: tuple[Json, ...] = (
    {"type": "object", "enum": [{"a": 1}, {"a": 2}]},
    {"type": "object", "properties": {"b": TEXT}, "enum": [{"a": 1}]},
    {"enum": ["a", {"a": 1}]},
    {"allOf": [{"type": "object"}, {"enum": [{"a": 1}]}]},
    {"const": {"a": 1}},
    {"oneOf": [{"type": "object", "enum": [{"a": 1}, {"a": 2}]}]},
)


@pytest.mark.parametrize("schema", LISTED)
def test_values_at_the_top_are_refused_where_objects_are_closed(schema: Json) -> None:
    for dialect in DIALECTS.values():
        if dialect.closes_objects:
            made = refuse(schema, dialect)
            assert made.place.endswith(("/enum", "/const")), made
            assert made.problem.startswith("lists the values of the top")
            send_and_return(wrap_schema(schema, "x"), dialect, {"x": {"a": 1}})
        else:
            send_and_return(schema, dialect, {"a": 1})


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"enum": ["a", 1]}, "/enum"),
        ({"type": "object", "enum": ["a", [1]]}, "/enum"),
        ({"allOf": [{"const": "a"}, {"title": "A"}]}, "/allOf/0/const"),
        ({"anyOf": [{"enum": ["a"]}, TEXT]}, ""),
    ],
)
def test_values_at_the_top_without_an_object_are_refused(schema: Json, place: str) -> None:
    for dialect in DIALECTS.values():
        if dialect.needs_object:
            made = refuse(schema, dialect)
            assert made.place == place
            assert made.fix == "Make it the property of an object"


def test_constraints_beside_listed_values_are_said_where_they_cannot_stand() -> None:
    part = {"enum": ["a", {"a": 1}], "minLength": 1}
    assert convert_part(part, OPENAI_STRICT) == {
        "anyOf": [{"enum": ["a"]}, closed(a={"const": 1})],
        "description": '{"minLength":1}',
    }
    assert convert_part(part, LLGUIDANCE) == part
    numbers = {"enum": [1, 2], "minimum": 2}
    assert convert_part(numbers, OPENAI_STRICT) == numbers
    assert convert_part(numbers, ANTHROPIC_STRICT) == {
        "enum": [1, 2],
        "description": '{"minimum":2}',
    }
    # The size of the value is that of a tuple, and none of the part around it.
    pair = convert_part({"const": [1, 2], "maxItems": 5}, OPENAI_STRICT)
    assert (pair["minItems"], pair["maxItems"]) == (2, 2)
    lists = convert(closed(x={"enum": [[1], ["a"]], "items": WHOLE}), GEMINI)
    assert lists.unenforced == ("/properties/x/items",)


def test_a_tool_without_arguments() -> None:
    for schema in ({}, {"type": "object"}, {"type": ["object", "null"]}):
        assert convert(schema, OPENAI_TOOL).schema == {"type": "object", "properties": {}}


def test_only_an_object_can_be_at_the_top() -> None:
    for dialect in DIALECTS.values():
        if dialect.needs_object:
            assert refuse(TEXT, dialect).fix == "Make it the property of an object"
            convert(wrap_schema(TEXT, "answer"), dialect)


def test_sizes_are_counted() -> None:
    schema = {
        **opened(
            a={"anyOf": [TEXT, NOTHING]}, bb={"type": "array", "items": {"$ref": "#/$defs/C"}}
        ),
        "$defs": {"C": closed(d={"enum": ["xyz", 1]})},
    }
    assert convert(schema, LLGUIDANCE).size == SchemaSize(
        levels=3, properties=3, optional=2, unions=1, enum_values=2, characters=8, long_enums=((2, 3),)
    )  # fmt: skip


def test_limits_of_one_schema() -> None:
    deep = TEXT
    for _ in range(11):
        deep = closed(x=deep)
    assert refuse(deep, OPENAI_STRICT).problem.startswith("has 11 levels")
    wide = closed(x={"enum": [f"v{at}" for at in range(1001)]})
    assert refuse(wide, OPENAI_STRICT).problem.startswith("has 1,001 values")
    long = closed(x={"enum": ["v" * 61 + str(at) for at in range(251)]})
    assert "enum of 251 values" in refuse(long, OPENAI_STRICT).problem
    assert "characters" in refuse(closed(**{"n" * 1000 + str(at): TEXT for at in range(120)}), OPENAI_STRICT).problem  # fmt: skip
    recursive = closed(name=TEXT, parts={"type": "array", "items": {"$ref": "#"}})
    assert convert(recursive, OPENAI_STRICT).size.levels == 2


def test_limits_of_anthropic_are_counted_together() -> None:
    nullable = {"anyOf": [TEXT, NOTHING]}
    half = convert(closed(**{f"f{at}": nullable for at in range(9)}), ANTHROPIC_STRICT)
    assert check_request_sizes(ANTHROPIC_STRICT, [half.size]) == ""
    assert check_request_sizes(ANTHROPIC_STRICT, [half.size] * 2).startswith("18 parts")
    many = convert(opened(a=TEXT, b=TEXT), ANTHROPIC_STRICT)
    assert check_request_sizes(ANTHROPIC_STRICT, [many.size] * 13).startswith("26 optional")
    small = convert(closed(a=TEXT), ANTHROPIC_STRICT)
    assert check_request_sizes(ANTHROPIC_STRICT, [small.size] * 21).startswith("21 ")
    assert check_request_sizes(OPENAI_STRICT, [small.size] * 21) == ""


class Color(Enum):
    RED = "red"


class Car(BaseModel):
    color: Color = Field(description="outside")


class Page(BaseModel):
    url: HttpUrl
    body: bytes
    where: Path


class Code(BaseModel):
    code: Annotated[str, Field(json_schema_extra={"pattern": "^(?!x)"})]


class Bag(BaseModel):
    things: list  # type: ignore[type-arg]


class Scores(BaseModel):
    scores: dict[Annotated[str, StringConstraints(pattern="^[A-Z]{3}$")], int]


class ByColor(BaseModel):
    counts: dict[Literal["red", "blue"], int]


def test_models_that_openai_refused() -> None:
    assert convert(Car.model_json_schema(), OPENAI_STRICT).schema["properties"]["color"] == {
        "enum": ["red"], "type": "string", "title": "Color", "description": "outside",
    }  # fmt: skip
    page = convert(Page.model_json_schema(), OPENAI_STRICT)
    assert len(page.unenforced) == 3
    assert "format" not in page.schema["properties"]["url"]
    assert convert(Code.model_json_schema(), OPENAI_STRICT).unenforced == (
        "/properties/code/pattern",
    )
    assert refuse(Bag.model_json_schema(), OPENAI_STRICT).place == "/properties/things/items"


def test_models_that_anthropic_refused_or_that_lost_data() -> None:
    fields: Any = {f"f{at}": (str | None, None) for at in range(20)}
    assert refuse(create_model("Many", **fields).model_json_schema(), ANTHROPIC_STRICT).problem.startswith("has 20 parts")  # fmt: skip
    needed: Any = {f"f{at}": (str | None, ...) for at in range(30)}
    assert refuse(create_model("More", **needed).model_json_schema(), ANTHROPIC_STRICT).problem.startswith("has 30 parts")  # fmt: skip
    assert refuse(Scores.model_json_schema(), ANTHROPIC_STRICT).place == "/properties/scores/patternProperties"  # fmt: skip
    assert refuse({"type": "object"}, ANTHROPIC_STRICT).problem.startswith("has free keys")
    convert(ByColor.model_json_schema(), ANTHROPIC_STRICT)


def test_a_recursive_schema_keeps_its_references_when_it_is_wrapped() -> None:
    schema = {"$ref": "#/definitions/Node", "definitions": {"Node": opened(next={"$ref": "#/definitions/Node"})}}  # fmt: skip
    wrapped = wrap_schema(schema, "answer")
    assert Draft202012Validator(wrapped).is_valid({"answer": {"next": {"next": {}}}})
    assert not Draft202012Validator(wrapped).is_valid({"answer": {"next": {"next": 1}}})
    send_and_return(wrapped, OPENAI_STRICT, {"answer": {"next": {"next": {}}}})


def test_operations_that_wires_refused() -> None:
    missing = opened(x={"$ref": "#/components/schemas/Pet"})
    listed = opened(ids={"type": "array"})
    for dialect in DIALECTS.values():
        assert "/properties/x" in refuse(missing, dialect).place
        if not dialect.closes_objects:
            convert(listed, dialect)
    assert convert(listed, OPENAI_TOOL).schema["properties"]["ids"] == {
        "type": "array",
        "items": {},
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nothing"},
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"a": 1}},
        {"type": "object", "required": "a"},
        closed(x={"anyOf": []}),
        closed(x={"enum": []}),
        closed(x={"type": "integer", "minimum": 5, "maximum": 3}),
        closed(x={"$ref": 1}),
        {**closed(x={"$ref": "#/$defs/A"}), "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}},
        {"type": "object", "default": object()},
    ],
)  # fmt: skip
def test_a_schema_that_is_none_is_refused(schema: Json) -> None:
    for dialect in DIALECTS.values():
        assert refuse(schema, dialect).problem


def chain_parts(count: int) -> Json:
    """Return parts that contain the next one twice, each time with other words."""
    parts = {
        f"P{at}": closed(
            **{key: {"$ref": f"#/$defs/P{at + 1}", "description": key} for key in "ab"}
        )
        for at in range(count)
    }
    return {**closed(x={"$ref": "#/$defs/P0"}), "$defs": {**parts, f"P{count}": TEXT}}


def join_cycles(one: int, other: int) -> Json:
    """Return two cycles of parts that are joined at each step."""
    parts = {
        f"{name}{at}": opened(
            **{"p": {"$ref": f"#/$defs/{name}{(at + 1) % size}"}, f"{name}{at}": TEXT}
        )
        for name, size in (("A", one), ("B", other))
        for at in range(size)
    }
    return {**closed(x={"allOf": [{"$ref": "#/$defs/A0"}, {"$ref": "#/$defs/B0"}]}), "$defs": parts}


@pytest.mark.slow  # takes half a second or more
def test_parts_that_are_put_in_place_do_not_grow_without_bound() -> None:
    for dialect in DIALECTS.values():
        made = convert_schema(chain_parts(200), dialect)
        if isinstance(made, ConvertedSchema):
            assert len(json.dumps(made.schema)) < 5 * len(json.dumps(chain_parts(200)))
        made = convert_schema(join_cycles(97, 101), dialect)
        if isinstance(made, RefusedSchema):
            assert made.problem in ("is too large", "contains itself, which Cerebras does not take")
        options = [
            {"anyOf": [closed(**{f"a{at}": TEXT}), closed(**{f"b{at}": TEXT})]} for at in range(20)
        ]
        assert convert_schema(closed(x={"allOf": options}), dialect)


def test_a_large_schema_is_converted() -> None:
    parts = {f"p{at}": opened(**{f"q{to}": {**TEXT, "minLength": 2, "default": "a"} for to in range(30)}) for at in range(100)}  # fmt: skip
    made = convert(opened(**parts), OPENAI_STRICT)
    assert made.size.properties == 3100
