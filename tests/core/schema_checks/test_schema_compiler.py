"""Schemas are compiled and values checked in bounded steps, with the same results as the library jsonschema."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urljoin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from holdfast.core.schema_checks.schema_compiler import compile_schema
from holdfast.core.schema_checks.schema_limits import CHECK_STEPS, COMPILE_STEPS, StepBudget
from holdfast.core.schema_checks.schema_nodes import MOST_PROBLEMS, CompiledSchema
from holdfast.core.schema_checks.schema_places import SchemaError, _resolve_address

Schema = dict[str, Any]


def find(pattern: str) -> Callable[[str], bool]:
    """Return a search; the patterns of these tests are harmless."""
    return lambda text: re.search(pattern, text) is not None


def compiled(schema: Schema, steps: int = COMPILE_STEPS) -> CompiledSchema:
    return compile_schema(schema, find, StepBudget(steps))


def texts_of(schema: Schema, value: object) -> list[str]:
    problems = compiled(schema).find_problems(value, StepBudget(CHECK_STEPS))
    return [f"{'.'.join(map(str, problem.path))}: {problem.text}" for problem in problems]


def steps_of(schema: Schema, value: object) -> tuple[int, int]:
    """Return the steps of compiling and of checking."""
    made, budget = compiled(schema), StepBudget(CHECK_STEPS)
    made.find_problems(value, budget)
    return made.steps, budget.used


NAMES = st.sampled_from(["a", "b", "c"])
NUMBERS = st.integers(-3, 12) | st.sampled_from([0.5, 1.0, 2.5, 10**30])
SCALARS = st.none() | st.booleans() | NUMBERS | st.text("ab1", max_size=4)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
TYPES = ["array", "boolean", "integer", "null", "number", "object", "string"]
PATTERNS = st.sampled_from(["a", "^b", "1$", "^[ab]+$"])
COUNTS = st.integers(0, 3)
REFERENCES = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#one"])
FACTS: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from(TYPES) | st.lists(st.sampled_from(TYPES), min_size=1, unique=True),
    "enum": st.lists(VALUES, min_size=1, max_size=4),
    "const": VALUES,
    "multipleOf": st.sampled_from([1, 2, 3, 0.5]),
    "minimum": NUMBERS,
    "maximum": NUMBERS,
    "exclusiveMinimum": NUMBERS,
    "exclusiveMaximum": NUMBERS,
    "pattern": PATTERNS,
    "uniqueItems": st.booleans(),
    "required": st.lists(NAMES, unique=True),
    "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, unique=True), max_size=2),
} | dict.fromkeys(
    ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"], COUNTS
)


def with_parts(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    several = st.lists(inner, min_size=1, max_size=3)
    named = st.dictionaries(NAMES, inner, max_size=3)
    parts = {
        **dict.fromkeys(["allOf", "anyOf", "oneOf", "prefixItems"], several),
        **dict.fromkeys(["properties", "dependentSchemas"], named),
        **dict.fromkeys(["not", "if", "then", "else", "items", "contains"], inner),
        **dict.fromkeys(["additionalProperties", "propertyNames"], inner),
        **dict.fromkeys(["unevaluatedItems", "unevaluatedProperties"], inner),
        "patternProperties": st.dictionaries(PATTERNS, inner, max_size=2),
        "minContains": COUNTS,
        "maxContains": COUNTS,
    }
    return some_of({**parts, "type": FACTS["type"]})


@st.composite
def some_of(draw: st.DrawFn, keywords: dict[str, st.SearchStrategy[Any]]) -> Schema:
    """A schema with up to three keywords."""
    names = draw(st.lists(st.sampled_from(sorted(keywords)), max_size=3, unique=True))
    return {name: draw(keywords[name]) for name in names}


PARTS = st.recursive(
    st.booleans() | some_of(FACTS) | st.fixed_dictionaries({"$ref": REFERENCES}),
    with_parts,
    max_leaves=6,
)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    parts = {name: draw(PARTS) for name in "ab"}
    named = {**draw(with_parts(PARTS)), "$anchor": "one"}
    return {**draw(with_parts(PARTS)), "$defs": {**parts, "c": named}}


@pytest.mark.slow  # takes half a second or more
@given(schemas(), st.lists(VALUES, min_size=1, max_size=5))
@settings(max_examples=100)
def test_values_fit_as_they_do_for_jsonschema(schema: Schema, values: list[object]) -> None:
    try:
        made = compiled(schema)
    except SchemaError as error:
        assert "refers to itself without an end" in error.problem  # noqa: PT017  # REASON: many schemas are
        return
    Draft202012Validator.check_schema(schema)
    library = Draft202012Validator(schema)
    for value in values:
        problems = made.find_problems(value, StepBudget(CHECK_STEPS))
        assert (not problems) == library.is_valid(value)
        assert len(problems) <= MOST_PROBLEMS
        assert all(len(problem.text) < 1000 for problem in problems)


@pytest.mark.slow  # takes half a second or more
@given(schemas(), VALUES, st.integers(0, 200))
@settings(max_examples=50)
def test_no_work_takes_more_steps_than_it_may(schema: Schema, value: object, limit: int) -> None:
    first = StepBudget(limit)
    try:
        made = compile_schema(schema, find, first)
    except SchemaError:
        assert first.used <= limit + len(json.dumps(schema))
        return
    check = StepBudget(limit)
    problems = made.find_problems(value, check)
    again = StepBudget(limit)
    assert made.find_problems(value, again) == problems
    assert again.used == check.used
    if check.left < 0:
        (problem,) = problems
        assert problem.text.startswith(f"cannot be checked against its schema in {limit} steps")


def tower(levels: int, keyword: str = "anyOf") -> Schema:
    """Return a schema whose references double at each level."""
    parts: Schema = {
        f"p{at}": {keyword: [{"$ref": f"#/$defs/p{at + 1}"}] * 2} for at in range(levels)
    }
    return {"$ref": "#/$defs/p0", "$defs": {**parts, f"p{levels}": {"type": "integer"}}}


@pytest.mark.parametrize("keyword", ["anyOf", "allOf", "oneOf"])
@pytest.mark.parametrize("value", [1, "a"])
def test_each_reference_is_visited_once(keyword: str, value: object) -> None:
    first, second = (steps_of(tower(levels, keyword), value) for levels in (20, 40))
    assert second[0] <= 2.1 * first[0]
    assert second[1] <= 2.1 * first[1] < 500


@pytest.mark.parametrize(
    "make",
    [
        lambda n: ({"properties": {f"p{at}": {"type": "integer"} for at in range(n)}}, {"p1": 1}),
        lambda n: ({"uniqueItems": True}, [{"a": at, "b": [at]} for at in range(n)]),
        lambda n: ({"uniqueItems": True}, [at * (2**61 - 1) for at in range(n)]),  # one hash
        lambda n: ({"enum": [{"a": at} for at in range(n)]}, {"a": -1}),
        lambda n: ({"required": [f"p{at}" for at in range(n)]}, {}),
        lambda n: (
            {"unevaluatedProperties": False, "allOf": [{"properties": {"p1": {}}}] * n},
            {"p1": 1},
        ),
        lambda n: (tower(90), [tower(3)] * n),
        lambda n: ({"additionalProperties": {"type": "integer"}}, {str(at): at for at in range(n)}),
    ],
)
def test_twice_the_size_takes_twice_the_steps(make: Callable[[int], tuple[Schema, object]]) -> None:
    # Plain data, as it is after a journal or a request: no part is there twice.
    first, second = (steps_of(*json.loads(json.dumps(make(size)))) for size in (1000, 2000))
    assert second[0] <= 2.1 * first[0]
    assert second[1] <= 2.1 * first[1]


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"anyOf": [{"const": at} for at in range(900)]}}, list(range(1000, 2000))),
        (
            {"patternProperties": {f"a{at}$": {} for at in range(900)}},
            {str(n): n for n in range(900)},
        ),
        ({"pattern": "^(a{30}){30}$"}, "a" * 100_000),
        ({"contains": {"enum": [[at] for at in range(900)]}}, [["b" * 9000]] * 9000),
    ],
)
def test_a_check_without_measure_ends_at_its_limit(schema: Schema, value: object) -> None:
    (text,) = texts_of(schema, json.loads(json.dumps(value)))
    assert text == ": cannot be checked against its schema in 250,000 steps; make it smaller"


def test_a_schema_ends_at_its_limit() -> None:
    with pytest.raises(SchemaError, match="cannot be compiled in 100 steps"):
        compiled({"properties": {str(at): {} for at in range(1000)}}, 100)
    chain = {f"p{at}": {"$ref": f"#/$defs/p{at + 1}"} for at in range(1999)}
    wanted: Schema = {"$ref": "#/$defs/p0", "$defs": {**chain, "p1999": {"type": "null"}}}
    assert texts_of(wanted, 1) == [": must be null"]
    deep = {f"p{at}": {"allOf": [{"$ref": f"#/$defs/p{at + 1}"}]} for at in range(200)}
    with pytest.raises(SchemaError, match="nested too deeply"):
        compiled({"$ref": "#/$defs/p0", "$defs": {**deep, "p200": {}}})


def test_a_deep_value_is_checked_or_named() -> None:
    tree: Schema = {"type": "object", "properties": {"n": {"$ref": "#"}}}
    assert texts_of(tree, nested(190)) == []
    assert texts_of(tree, nested(600)) == [": is nested too deeply"]
    assert texts_of({"const": nested(190)}, nested(190)) == []
    assert texts_of({"uniqueItems": True}, [nested(600)]) == [": is nested too deeply"]
    with pytest.raises(SchemaError, match="nested too deeply"):
        compiled({"const": nested(600)})


def nested(levels: int) -> object:
    value: object = {}
    for _ in range(levels):
        value = {"n": value}
    return value


@pytest.mark.parametrize("name", ["default", "enum", "const", "examples", "$id"])
def test_a_part_may_have_the_name_of_a_keyword(name: str) -> None:
    schema = {
        "properties": {name: {"$ref": f"#/$defs/{name}"}},
        "$defs": {
            name: {"properties": {name: {"$ref": "#/$defs/text"}}},
            "text": {"type": "string"},
        },
    }
    assert texts_of(schema, {name: {name: "yes"}}) == []
    assert len(texts_of(schema, {name: {name: 1}})) == 1


def test_problems_are_few_and_short() -> None:
    wanted: Schema = {"items": {"type": "integer"}, "maxItems": 1}
    texts = texts_of(wanted, ["a" * 10_000] * 10_000)
    assert len(texts) == MOST_PROBLEMS
    assert max(map(len, texts)) < 500
    assert texts_of({"multipleOf": 2}, 10**5000 + 1) == [": must be a multiple of 2"]


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"multipleOf": 0}, "/multipleOf: 0 is not a number above 0"),
        ({"minLength": -1}, "/minLength: -1 is not a whole number from 0"),
        ({"required": "a"}, "/required: 'a' is not a list of names"),
        ({"required": [[]]}, "/required: [[]] is not a list of names"),
        ({"anyOf": []}, "/anyOf: [] should be non-empty"),
        ({"items": [{}]}, "/items: [{}] is not of type 'object', 'boolean'"),
        (
            {"properties": {"a": {"enum": 1}}},
            "/properties/a/enum: 1 is not of type 'array'",
        ),
        ({"$defs": {"a": {"type": "x"}}}, "/$defs/a/type: 'x' is not valid"),
        ({"pattern": "a" * 60_000}, "is too large: repeat less in it"),
        ({"$ref": 1}, "/$ref: 1 is not of type 'string'"),
        ({"$ref": "#/a/b"}, "has a reference to '#/a/b', which is not in it"),
        ({"$dynamicRef": "#a", "$defs": {"a": {"$id": "x"}}}, "has $dynamicRef beside parts"),
        ({"allOf": [{"$ref": "#"}]}, "refers to itself without an end"),
        ({"$dynamicRef": "#a", "$dynamicAnchor": "a"}, "refers to itself without an end"),
    ],
)
def test_a_wrong_schema_is_named(schema: Schema, text: str) -> None:
    with pytest.raises(SchemaError) as raised:
        compiled(schema)
    assert text in raised.value.problem


ORDER = {
    "$id": "https://acme.example/schemas/order.json",
    "$defs": {
        "item": {"$id": "item", "type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "null"}}},
        "name": {"type": "string"},
        "deep": {"$id": "/deep/part.json?v=1", "$defs": {"up": {"$ref": "../schemas/item"}}},
        "fixed": {"$id": "urn:acme:fixed", "$anchor": "one", "const": 1},
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("reference", "good", "bad"),
    [
        ("#/$defs/name", "Ada", 1),
        ("order.json#/$defs/name", "Ada", 1),
        ("https://acme.example/schemas/order.json#/$defs/name", "Ada", 1),
        ("item", [None], [1]),
        ("./item#/$defs/n", None, 1),
        ("/schemas/item", [None], [1]),
        ("//acme.example/schemas/item", [None], [1]),
        ("https://acme.example/schemas/item#/$defs/n", None, 1),
        ("#/$defs/item", [None], [1]),
        ("../deep/part.json?v=1#/$defs/up", [None], [1]),
        ("urn:acme:fixed#one", 1, 2),
    ],
)
def test_a_reference_may_be_relative_to_an_id(reference: str, good: object, bad: object) -> None:
    schema: Schema = {**ORDER, "properties": {"a": {"$ref": reference}}}
    for value in (good, bad):
        is_right = Draft202012Validator(schema).is_valid({"a": value})
        assert is_right == (value is good)
        assert is_right == (texts_of(schema, {"a": value}) == [])


@pytest.mark.parametrize(
    "reference",
    ["other", "other.json#/$defs/name", "../order.json", "https://else.example/order.json", "part.json"],
)  # fmt: skip
def test_a_reference_that_leads_out_of_the_schema_is_named(reference: str) -> None:
    with pytest.raises(SchemaError) as raised:
        compiled({**ORDER, "properties": {"a": {"$ref": reference}}})
    assert raised.value.problem == f"has a reference to {reference!r}, which is not in it"
    assert raised.value.fix


@given(
    st.lists(st.sampled_from(["a", "b", ""]), max_size=6).map("/".join),
    st.lists(st.sampled_from(["a", "b", "..", ".", "?q"]), min_size=1, max_size=6).map("/".join),
)
def test_references_are_resolved_as_urls_are(path: str, reference: str) -> None:
    base = f"https://acme.example/{path}"
    if "//" not in f"/{path}/{reference}":
        assert _resolve_address(base, reference) == urljoin(base, reference)


DRAFT_4 = {"$schema": "http://json-schema.org/draft-04/schema#"}
DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({**DRAFT_4, "minimum": 1, "exclusiveMinimum": True}, 2, 1),
        ({"minimum": 1, "exclusiveMinimum": True}, 2, 1),
        ({**DRAFT_7, "items": [{"type": "null"}], "additionalItems": False}, [None], [None, 1]),
        ({**DRAFT_7, "dependencies": {"a": ["b"], "c": {"minProperties": 3}}}, {"a": 1, "b": 1}, {"c": 1}),
        ({**DRAFT_7, "allOf": [{"$ref": "#/definitions/a", "type": "null"}], "definitions": {"a": {}}}, 1, ...),
        ({"$ref": "Node", "$defs": {"n": {"$id": "Node", "items": {"$ref": "#"}, "type": "array"}}}, [[]], [1]),
        ({"$dynamicRef": "#a", "$defs": {"n": {"$dynamicAnchor": "a", "type": "null"}}}, None, 1),
        ({"multipleOf": 0.01}, 4.35, 4.355),
        ({"const": 1}, 1.0, True),
        ({"enum": [[1, {"a": 2.0}]]}, [1.0, {"a": 2}], [1, {"a": True}]),
    ],
)  # fmt: skip
def test_a_schema_means_what_its_draft_says(schema: Schema, good: object, bad: object) -> None:
    assert texts_of(schema, good) == []
    assert bad is ... or len(texts_of(schema, bad)) == 1


def test_a_dependent_schema_counts_only_where_its_property_is() -> None:
    schema: Schema = {
        "properties": {"card": {}},
        "dependentSchemas": {"card": {"properties": {"address": {}}}},
        "unevaluatedProperties": False,
    }
    assert texts_of(schema, {"card": 1, "address": 2}) == []
    assert len(texts_of(schema, {"address": 2})) == 1
