"""A schema that is none is refused at once: the error names the place and the fix; a schema that is one is taken."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import product
from typing import Annotated, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field
from tests.core.schema_checks.test_schema_compiler import find, schemas

from holdfast import Agent, tool
from holdfast.core.schema_checks.schema_compiler import compile_schema
from holdfast.core.schema_checks.schema_limits import COMPILE_STEPS, StepBudget
from holdfast.core.schema_checks.schema_places import SchemaError
from holdfast.core.schema_checks.schema_sense import check_schema_sense
from holdfast.errors import ConfigurationError
from holdfast.testing import ScriptedModel
from holdfast.tools import ClientTool, JsonSchema

Schema = dict[str, Any]


def object_of(**properties: object) -> Schema:
    return {"type": "object", "properties": properties}


def refer_to(reference: object, **beside: object) -> Schema:
    return {"type": "object", "properties": {"a": {"$ref": reference}}, **beside}


def read_error(schema: Schema) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as raised:
        check_schema_sense("schema", schema)
    assert raised.value.argument == "schema"
    assert raised.value.fix
    return raised.value


NO_SCHEMAS: list[tuple[Schema, str, str]] = [
    # References.
    (refer_to("#/components/schemas/Pet"), "/properties/a/$ref", "a reference to '#/components/schemas/Pet', which is not in it"),
    (refer_to("#/$defs", **{"$defs": {}}), "/properties/a/$ref", "not in it"),
    (refer_to("#/properties"), "/properties/a/$ref", "not in it"),
    (refer_to("#/type"), "/properties/a/$ref", "not in it"),
    (refer_to("#/default", default={}), "/properties/a/$ref", "not in it"),
    (refer_to("#/examples/0", examples=[{}]), "/properties/a/$ref", "not in it"),
    (refer_to("#/allOf", allOf=[{}]), "/properties/a/$ref", "not in it"),
    (refer_to("#/allOf/7", allOf=[{}]), "/properties/a/$ref", "not in it"),
    (refer_to("#Pet"), "/properties/a/$ref", "not in it"),
    (refer_to("Pet"), "/properties/a/$ref", "'Pet', which is outside of it, and is never fetched"),
    (refer_to("file:///etc/passwd"), "/properties/a/$ref", "outside of it, and is never fetched"),
    (refer_to("../pets.json#/Pet"), "/properties/a/$ref", "outside of it, and is never fetched"),
    (refer_to("http://127.0.0.1:9/a.json"), "/properties/a/$ref", "outside of it, and is never fetched"),
    (refer_to(5), "/properties/a/$ref", "5 is not a text"),
    ({"$dynamicRef": "#a"}, "/$dynamicRef", "not in it"),
    # Cycles without an end: of references, and of values that must hold another one.
    ({"$ref": "#"}, "the top", "refers to itself without an end"),
    (refer_to("#/properties/a"), "/properties/a", "refers to itself without an end"),
    (refer_to("#/$defs/x", **{"$defs": {"x": {"anyOf": [{"$ref": "#/$defs/y"}, {}]}, "y": {"not": {"$ref": "#/$defs/x"}}}}),
     "/$defs/x", "refers to itself without an end"),
    ({"if": {"dependentSchemas": {"a": {"$ref": "#"}}}}, "/if/dependentSchemas/a", "refers to itself without an end"),
    (refer_to("#", required=["a"]), "the top", "has no value that ends"),
    (refer_to("#/$defs/Node", **{"$defs": {"Node": refer_to("#/$defs/Node", required=["a"])}}), "/$defs/Node", "has no value that ends"),
    ({"type": "array", "minItems": 1, "items": {"$ref": "#"}}, "the top", "has no value that ends"),
    ({"type": "array", "minItems": 1, "prefixItems": [{"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}]}, "the top", "has no value that ends"),
    # Bounds that nothing lies between.
    (object_of(a={"minimum": 5, "maximum": 3}), "/properties/a/maximum", "it is 3, below minimum, which is 5"),
    (object_of(a={"maximum": 5, "minimum": 5.5}), "/properties/a/maximum", "it is 5, below minimum, which is 5.5"),
    (object_of(a={"exclusiveMinimum": 5, "maximum": 5}), "/properties/a/maximum", "no number lies between 5, which is exclusiveMinimum, and 5"),
    (object_of(a={"minimum": 5, "exclusiveMaximum": 5}), "/properties/a/exclusiveMaximum", "no number lies between"),
    (object_of(a={"minimum": 5, "maximum": 5, "exclusiveMinimum": True}), "/properties/a/maximum", "no number lies between"),
    (object_of(a={"type": "integer", "minimum": 0.2, "maximum": 0.8}), "/properties/a/maximum", "no whole number lies between"),
    (object_of(a={"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2}), "/properties/a/exclusiveMaximum", "no whole number"),
    ({"items": {"minLength": 3, "maxLength": 2}}, "/items/maxLength", "it is 2, below minLength, which is 3"),
    ({"items": {"minItems": 3, "maxItems": 2}}, "/items/maxItems", "below minItems"),
    ({"not": {"minProperties": 3, "maxProperties": 2}}, "/not/maxProperties", "below minProperties"),
    ({"contains": {}, "minContains": 3, "maxContains": 2}, "/maxContains", "below minContains"),
    ({"required": ["a", "b"], "maxProperties": 1}, "/required", "it has 2 names, above maxProperties, which is 1"),
    # Keywords with values that they cannot have.
    (object_of(a={"enum": []}), "/properties/a/enum", "[] has no value, so nothing fits"),
    (object_of(a={"enum": "red"}), "/properties/a/enum", "'red' is not a list of values"),
    (object_of(a={"type": "int"}), "/properties/a/type", "'int' is not a type"),
    (object_of(a={"type": "STRING"}), "/properties/a/type", "'STRING' is not a type"),
    (object_of(a={"type": "any"}), "/properties/a/type", "'any' is not a type; a type is one of array, boolean"),
    (object_of(a={"type": []}), "/properties/a/type", "[] names no type"),
    (object_of(a={"type": ["string", None]}), "/properties/a/type", "None is not a type"),
    (object_of(a={"type": {"type": "string"}}), "/properties/a/type", "is not a type"),
    (object_of(a={"type": "string", "required": True}), "/properties/a/required", "True is not a list of names"),
    ({"required": "a"}, "/required", "'a' is not a list of names"),
    ({"required": [1]}, "/required", "[1] is not a list of names"),
    ({"required": None}, "/required", "None is not a list of names"),
    ({"properties": ["a"]}, "/properties", "['a'] is not an object"),
    (object_of(a="string"), "/properties/a", "'string' is not a schema"),
    (object_of(a=[{"type": "string"}]), "/properties/a", "is not a schema"),
    ({"items": "string"}, "/items", "'string' is not a schema"),
    ({"items": [{}, 1]}, "/items/1", "1 is not a schema"),
    ({"anyOf": []}, "/anyOf", "[] is not a list of schemas"),
    ({"anyOf": {}}, "/anyOf", "{} is not a list of schemas"),
    ({"oneOf": [None]}, "/oneOf/0", "None is not a schema"),
    ({"$defs": {"a/b~c": {"type": 1}}}, "/$defs/a~1b~0c/type", "1 is not a type"),
    ({"dependencies": {"a": ["b"], "c": 3}}, "/dependencies/c", "3 is not a schema"),
    ({"dependentRequired": {"a": "b"}}, "/dependentRequired", "has no lists of names"),
    ({"additionalProperties": "no"}, "/additionalProperties", "'no' is not a schema"),
    ({"multipleOf": 0}, "/multipleOf", "0 is not a number above 0"),
    ({"minimum": "1"}, "/minimum", "'1' is not a number"),
    ({"maximum": True}, "/maximum", "True is not a number"),
    ({"minLength": -1}, "/minLength", "-1 is not a whole number from 0"),
    ({"maxItems": 1.5}, "/maxItems", "1.5 is not a whole number from 0"),
    ({"uniqueItems": "yes"}, "/uniqueItems", "'yes' is not true or false"),
    ({"pattern": 1}, "/pattern", "1 is not a text"),
    ({"format": None}, "/format", "None is not a text"),
    # A part that is read only because a reference leads to it.
    ({"$ref": "#/components/a", "components": {"a": {"items": {"type": "x"}}}}, "/$ref/items/type", "'x' is not a type"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "place", "problem"), NO_SCHEMAS)
def test_a_schema_that_is_none_is_refused_with_the_place_and_the_fix(
    schema: Schema, place: str, problem: str
) -> None:
    error = read_error(schema)
    assert error.problem.startswith(f"is not a JSON Schema at {place}: ")
    assert problem in error.problem


@pytest.mark.parametrize(
    ("name", "fix"),
    [("int", '"integer"'), ("Text", '"string"'), ("BOOLEAN", '"boolean"'), ("any", "Leave it out")],
)
def test_the_fix_names_the_type_that_is_meant(name: str, fix: str) -> None:
    assert fix in read_error({"type": name}).fix


SCHEMAS: list[Schema] = [
    {},
    {"type": ["string", "null"], "enum": ["a", None], "minLength": 0, "maxLength": 0},
    object_of(a={"minimum": 5, "maximum": 5}, b=True, c=False, required={"type": "string"}, enum={}),
    object_of(a={"minimum": 5, "maximum": 6, "exclusiveMinimum": True, "exclusiveMaximum": True}),  # OpenAPI 3.0
    object_of(a={"type": "integer", "exclusiveMinimum": 0.5, "exclusiveMaximum": 1.5}),
    object_of(a={"type": "string", "nullable": True, "discriminator": {"type": 5}, "example": {"$ref": 1}}),
    object_of(a={"default": {"$ref": "nowhere"}, "const": {"type": 1}, "enum": [{"enum": []}]}),
    {"items": [{"type": "string"}, True], "additionalItems": False},
    {"prefixItems": [], "items": False, "minItems": 0.0},
    {"allOf": [{"required": ["a"]}], "dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
    refer_to("#"),
    refer_to("#/properties/b", required=["a"], properties={"a": {"$ref": "#/properties/b"}, "b": {}}),
    refer_to("#/%24defs/a~1b/items/0", **{"$defs": {"a/b": {"items": [{"type": "string"}]}}}),
    refer_to("#/components/schemas/Pet", components={"schemas": {"Pet": {"type": "object"}}}),
    refer_to("#/definitions/Node", definitions={"Node": refer_to("#/definitions/Node")}),
    refer_to("#pet", **{"$defs": {"a": {"$anchor": "pet"}}}),
    refer_to("pet.json#/items", **{"$id": "https://a.example/all", "$defs": {"a": {"$id": "pet.json", "items": {}}}}),
    refer_to("#/items", **{"$id": "https://a.example/all", "items": {"$id": "pet.json", "items": {"$ref": "#"}}}),
    # A value may end, although it refers to itself.
    {"type": "array", "items": {"$ref": "#"}},
    {"type": ["object", "null"], "required": ["a"], "properties": {"a": {"$ref": "#"}}},
    {"type": "object", "required": ["a"], "properties": {"a": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}},
    {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}, "enum": [1]},
    {"required": ["a"], "properties": {"a": {"$ref": "#"}}},  # a text fits
    {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {}}, "$ref": "#/definitions/a",
     "type": "object", "required": ["b"], "properties": {"b": {"$ref": "#"}}},
    {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {}, "b": {"type": "array"}}},
]  # fmt: skip


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_schema_is_taken_whatever_a_provider_lacks(schema: Schema) -> None:
    check_schema_sense("schema", schema)
    ClientTool("a", parameters=object_of(a={"type": "array"}, b=True))


@pytest.mark.slow  # takes half a second or more
@given(schemas())
@settings(max_examples=150)
def test_the_sense_of_a_schema_is_that_of_the_compiler_and_of_jsonschema(schema: Schema) -> None:
    problem = ""
    try:
        check_schema_sense("schema", schema)
    except ConfigurationError as error:
        problem = error.problem
    if "refers to itself without an end" in problem:
        with pytest.raises(SchemaError, match="refers to itself without an end"):
            compile_schema(schema, find, StepBudget(COMPILE_STEPS))
    elif problem:  # the other faults that these schemas have are none of a part alone
        words = (", below ", " lies between ", ", above ", "has no value that ends")
        assert any(text in problem for text in words)
    else:
        compile_schema(schema, find, StepBudget(COMPILE_STEPS))
        Draft202012Validator.check_schema(schema)


BOUNDS = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]


@given(
    st.dictionaries(st.sampled_from(BOUNDS), st.integers(-4, 4).map(lambda n: n / 2)),
    st.sampled_from(["integer", "number"]),
)
@example({"minimum": 0.5, "exclusiveMaximum": 1.0}, "integer")
def test_bounds_are_refused_exactly_if_no_number_fits(bounds: Schema, kind: str) -> None:
    schema = {"type": kind, **bounds}
    fits = Draft202012Validator(schema).is_valid
    if any(fits(at / 4) for at in range(-12, 13)):
        check_schema_sense("schema", schema)
    else:
        read_error(schema)


@given(
    st.lists(
        st.tuples(st.sampled_from(["all", "any", "object", "list", "scalar"]), st.integers(0, 3), st.integers(0, 3)),
        min_size=4,
        max_size=4,
    )
)  # fmt: skip
def test_values_without_an_end_are_refused_exactly(kinds: list[tuple[str, int, int]]) -> None:
    def make_part(kind: str, first: int, second: int) -> Schema:
        one, other = ({"$ref": f"#/$defs/{at}"} for at in (first, second))
        return {
            # An object or a list stands in between, since a reference to the same value is another fault.
            "all": {"type": "object", "properties": {"a": one, "b": other}, "required": ["a", "b"]},
            "any": {"type": "object", "properties": {"a": {"anyOf": [one, other]}}, "required": ["a"]},
            "object": {"type": "object", "properties": {"a": one, "b": other}, "required": ["b"]},
            "list": {"type": "array", "items": one, "minItems": second},
            "scalar": {"type": "string"},
        }[kind]  # fmt: skip

    def ends(at: int, depth: int) -> bool:
        kind, first, second = kinds[at]
        needed: dict[str, Callable[[], bool]] = {
            "all": lambda: ends(first, depth - 1) and ends(second, depth - 1),
            "any": lambda: ends(first, depth - 1) or ends(second, depth - 1),
            "object": lambda: ends(second, depth - 1),
            "list": lambda: second == 0 or ends(first, depth - 1),
            "scalar": lambda: True,
        }
        return depth > 0 and needed[kind]()

    schema = {"$defs": {str(at): make_part(*kind) for at, kind in enumerate(kinds)}}
    if all(ends(at, 5) for at in range(4)):
        check_schema_sense("schema", schema)
    else:
        assert "has no value that ends" in read_error(schema).problem


def nest(levels: int, wrap: Callable[[Any], Any], inner: Any) -> Any:
    for _ in range(levels):
        inner = wrap(inner)
    return inner


def make_cycle() -> Schema:
    cycle: Schema = {"type": "object"}
    cycle["properties"] = {"a": cycle}
    return cycle


HOSTILE: dict[str, Schema] = {
    "5 MB in one text": object_of(a={"description": "a" * 5_000_000}),
    "5 MB of names": {**{f"p{at}": 1 for at in range(450_000)}, "type": "object"},
    "5 MB of properties": object_of(**{f"p{at}": {"type": "string", "title": "a" * 20} for at in range(100_000)}),
    "5 MB of choices": object_of(a={"enum": [str(at) for at in range(600_000)]}),
    "5 MB of a pattern": object_of(a={"pattern": "(a|b)*" * 900_000}),
    "10,000 levels of objects": nest(10_000, lambda inner: object_of(a=inner), {}),
    "10,000 levels of choices": {"type": "object", **nest(10_000, lambda inner: {"anyOf": [inner]}, {})},
    "10,000 levels of data": {"type": "object", "default": nest(10_000, lambda inner: [inner], 1)},
    "an object that holds itself": make_cycle(),
    "2 to the 60 parts": {"type": "object", **nest(60, lambda inner: {"allOf": [inner, inner]}, {})},
    "19,000 parts": {"type": "object", "anyOf": [{}] * 19_000 + [1]},
    "9,000 types": object_of(**{f"p{at}": {"type": "string"} for at in range(9_000)}, z={"enum": []}),
    "120,000 steps of a pointer": refer_to("#" + "/a" * 120_000),
    "240,000 steps without names": refer_to("#" + "/" * 240_000),
    "a chain of 2,000 references": {"type": "object", "$defs": {str(at): {"$ref": f"#/$defs/{(at + 1) % 1999}"} for at in range(1999)}},
    "a chain of 2,000 needs": {"type": "object", "$defs": {str(at): refer_to(f"#/$defs/{(at + 1) % 1999}", required=["a"]) for at in range(1999)}},
    "each refers to all": {"type": "object", "$defs": {str(at): {"anyOf": [{"$ref": f"#/$defs/{to}"} for to in range(44)]} for at in range(44)}},
    "long addresses": {"type": "object", "$id": "a/" * 10_000, "$defs": {str(at): {"$id": "x", "$ref": "y"} for at in range(1990)}},
    "many addresses": {"type": "object", "$id": "https://a/", "$defs": {str(at): {"$id": f"x{at}", "$ref": f"x{at + 1}"} for at in range(1990)}},
    "overlapping targets": {"type": "object", "x": nest(60, lambda inner: {"not": inner}, {"enum": []}),
                            "allOf": [{"$ref": "#/x" + "/not" * (at % 60)} for at in range(1900)]},
}  # fmt: skip


def measure(call: Callable[[], object]) -> tuple[float, ConfigurationError]:
    """Return how long a refusal takes beside `add_a_million`, both in time of the processor, and the error."""
    seconds, units = [], []
    for _ in range(3):
        begun = time.thread_time()
        add_a_million()
        added = time.thread_time()
        with pytest.raises(ConfigurationError) as raised:
            call()
        seconds.append(time.thread_time() - added)
        units.append(added - begun)
    return min(seconds) / min(units), raised.value


def add_a_million() -> None:
    """Take a while that grows with the load of the machine, as all that is measured beside it does."""
    total = 0
    for number in range(1_000_000):
        total += number


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_schema_is_refused_within_a_tenth_of_a_second(name: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: JsonSchema(HOSTILE[name]),
        lambda: ClientTool("a", parameters=HOSTILE[name]),
    ]
    for call in calls:
        units, error = measure(call)
        assert units < 3  # a tenth of a second, where a million takes 35 ms
        assert len(str(error)) < 1000
        assert error.fix


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        (HOSTILE["5 MB in one text"], "65,536 bytes; they end at /properties/a/description"),
        (HOSTILE["5 MB of choices"], "2,000 JSON values; they end at /properties/a/enum"),
        (HOSTILE["10,000 levels of objects"], "64 levels of nesting; they end at /properties/a/properties/a/prop"),
        (object_of(a={"maximum": 2**70}), "a number that is too large, at /properties/a/maximum"),
        (object_of(**{"a" * 100: {"default": float("nan")}}), f"at /properties/{'a' * 40}.../default"),
        (object_of(**{"a\n\x1b[2J": {"type": 1}}), r"at /properties/a\n\x1b[2J/type"),
    ],
)  # fmt: skip
def test_an_error_of_size_names_the_place(schema: Schema, place: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        ClientTool("a", parameters=schema)
    assert place in raised.value.problem


class Order(BaseModel):
    count: int = Field(ge=5, le=3)


class Coin(BaseModel):
    side: str = Field(json_schema_extra={"enum": []})


class Person(BaseModel):
    mother: Person


class Fine(BaseModel):
    name: str


Odd = Annotated[int, Field(json_schema_extra={"type": "int"})]


@pytest.mark.parametrize(
    ("kind", "place"),
    [(Order, "/properties/count/maximum: "), (Coin, "/properties/side/enum: "), (Person, "/$defs/Person: ")],
)  # fmt: skip
def test_a_type_whose_schema_is_none_is_refused_as_an_output(kind: type, place: str) -> None:
    outputs: list[Any] = [kind, list[kind], [Fine, kind]]  # type: ignore[valid-type]  # REASON: a variable
    for output in outputs:
        with pytest.raises(ConfigurationError) as raised:
            Agent(ScriptedModel("{}"), output=output)
        assert raised.value.argument == "output"
        assert "is not a JSON Schema at /" in raised.value.problem
        assert place in raised.value.problem


def test_a_function_whose_schema_is_none_is_refused_as_a_tool() -> None:
    def find(a: Odd, b: Order) -> str:
        return ""

    def count(many: Annotated[int, Field(gt=3, lt=4)]) -> str:
        return ""

    with pytest.raises(
        ConfigurationError, match=r"tool 'find': is not a JSON Schema at /"
    ) as raised:
        tool(find)
    assert raised.value.fix
    with pytest.raises(ConfigurationError, match=r"/properties/many/exclusiveMaximum: no whole"):
        tool(count)


def test_the_places_of_all_bounds_are_compared() -> None:
    for lower, upper in product(BOUNDS[::2], BOUNDS[1::2]):
        assert f"/{upper}: it is 1, below {lower}, which is 2" in str(
            read_error({lower: 2, upper: 1})
        )
