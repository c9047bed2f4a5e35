"""A schema of a caller has a size, which is checked before anything reads it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from holdfast import Agent, Limits
from holdfast.core.messages import ToolCall
from holdfast.core.schema_checks.schema_compiler import compile_schema, weigh_pattern
from holdfast.core.schema_checks.schema_limits import CHECK_STEPS, COMPILE_STEPS, StepBudget
from holdfast.core.schema_checks.schema_nodes import shorten
from holdfast.errors import ConfigurationError, OutputError
from holdfast.testing import ScriptedModel
from holdfast.tools import ClientTool, JsonSchema
from holdfast.tools.compiled_schemas import SchemaCache, make_pattern
from holdfast.tools.schema_signature import ClientSignature

NESTED: dict[str, Any] = {"type": "object"}
for _ in range(40):
    NESTED = {"type": "object", "properties": {"a": NESTED}}
CYCLE: dict[str, Any] = {"type": "object"}
CYCLE["properties"] = {"a": CYCLE}
DOUBLED: dict[str, Any] = {"type": "object"}
for _ in range(40):
    DOUBLED = {"type": "object", "allOf": [DOUBLED, DOUBLED]}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "object", "title": "a" * 300_000}, "at most {bytes} bytes"),
        ({"type": "object", "enum": [*range(60_000)]}, "at most {nodes} JSON values"),
        (
            {"type": "object", "prefixItems": [{"$ref": "#/$defs/a"}] * 2001},
            "at most {references} references; they end at /prefixItems/",
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"anyOf": [{"minLength": at} for at in range(1001)]}},
            },
            "at most 1,000 parts in one anyOf, oneOf or allOf; they end at /properties/a/anyOf",
        ),
        (NESTED, "at most 64 levels of nesting"),
        (CYCLE, "at most 64 levels of nesting"),
        (DOUBLED, "is too large"),
        ({"type": "object", "minLength": 10**400}, "holds a number that is too large"),
        ({"type": "object", "multipleOf": float("inf")}, "holds a number that is too large"),
        ({"type": "object", "title": "\ud800"}, "cannot be written as JSON"),
        ({"type": "object", "default": object()}, "cannot be written as JSON"),
    ],
)
def test_a_schema_that_is_too_large_is_refused(schema: dict[str, Any], problem: str) -> None:
    sizes = {"bytes": "262,144", "nodes": "20,000", "references": "2,000"}
    with pytest.raises(ConfigurationError) as raised:
        JsonSchema(schema)
    assert raised.value.argument == "JsonSchema.schema"
    assert problem.format(**sizes) in raised.value.problem
    sizes = {"bytes": "65,536", "nodes": "2,000", "references": "500"}
    with pytest.raises(ConfigurationError) as raised:
        ClientTool("a", parameters=schema)
    assert raised.value.argument == "ClientTool.parameters"
    assert raised.value.problem.startswith(("is too large", problem.format(**sizes)))


def test_a_schema_of_a_usual_size_is_accepted() -> None:
    flat = {f"p{at}": {"type": "integer"} for at in range(8000)}
    assert len(JsonSchema({"type": "object", "properties": flat}).schema["properties"]) == 8000  # type: ignore[arg-type]  # REASON: an object
    JsonSchema({"type": "object", "properties": {"anyOf": {"enum": [*range(5000)]}}})
    wanted = JsonSchema({"type": "object", "required": ("a",)})
    assert wanted.schema["required"] == ["a"]  # plain JSON, and not changed with what was passed


@pytest.mark.parametrize(
    ("pattern", "positions"),
    [("a{3}{3}{3}", 27), ("(((a{9}){9}){9})", 820), ("[]a]{5}x", 6), ("a{,3}", 5), ("((", 0)],
)
def test_a_pattern_weighs_what_its_repetitions_make_of_it(pattern: str, positions: int) -> None:
    assert weigh_pattern(pattern).positions == positions
    assert weigh_pattern("(" * 5000 + "a" + "){9}" * 5000).size >= 10**12


@pytest.mark.parametrize(
    "pattern", [r"\p{L}{20}", r"\pL{20}", r"[\p{L}]{20}", r"\P{Greek}{20}", r"(?x)\w {20}"]
)
def test_a_count_repeats_the_whole_class_before_it(pattern: str) -> None:
    assert weigh_pattern(pattern).size >= 20 * 700
    assert weigh_pattern(r"\x{41}{20}").size == 20


# A caller of a service names the schema of an output, and the text that the model repeats. A
# pattern such as `^(a+)+$` must not take exponential time.


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)+$", "^(.*a){30}$"])
@pytest.mark.timeout(30)
async def test_a_pattern_is_checked_in_bounded_time(pattern: str) -> None:
    schema = JsonSchema({"type": "string", "pattern": pattern})
    agent = Agent(ScriptedModel(json.dumps("a" * 60 + "!"), json.dumps("a" * 60)))
    result = await asyncio.wait_for(agent.run("Repeat", output=schema), 60)
    assert result.output == "a" * 60


@pytest.mark.parametrize("pattern", ["^(?=a)b", r"(a)\1", r"^\w{600}$", "^((a{99}){99}){99}$"])
@pytest.mark.parametrize("keyword", ["pattern", "patternProperties"])
async def test_a_pattern_that_cannot_be_bounded_is_refused(pattern: str, keyword: str) -> None:
    value = pattern if keyword == "pattern" else {pattern: {}}
    agent = Agent(ScriptedModel("{}"))
    with pytest.raises(ConfigurationError, match="pattern"):
        await agent.run("Hi", output=JsonSchema({"type": "object", keyword: value}))


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)+$", "^" + "a?" * 30 + "a" * 30 + "$"])
@pytest.mark.timeout(30)
async def test_a_pattern_of_names_is_checked_in_bounded_time(pattern: str) -> None:
    schema = {"type": "object", "patternProperties": {pattern: {"type": "integer"}}}
    agent = Agent(ScriptedModel(json.dumps({"a" * 40 + "!": ""}), "{}"))
    result = await agent.run("Hi", output=JsonSchema(schema))
    assert result.output == {"a" * 40 + "!": ""}


async def test_a_simple_pattern_of_names_is_checked() -> None:
    schema = {
        "type": "object",
        "patternProperties": {"^[a-z]+$": {"type": "integer"}},
        "additionalProperties": False,
    }
    agent = Agent(ScriptedModel('{"A": 1}', '{"a": 1}'))
    assert (await agent.run("Hi", output=JsonSchema(schema))).output == {"a": 1}


DRAFT = "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.timeout(30)
async def test_a_schema_that_names_its_draft_is_checked_in_bounded_time() -> None:
    schema = {"$schema": DRAFT, "pattern": "^(a+)+$", "properties": {"a": {"$ref": "#"}}}
    schema["type"] = ["object", "string"]
    agent = Agent(ScriptedModel(json.dumps({"a": "a" * 60 + "!"}), '{"a": "a"}'))
    assert (await agent.run("Hi", output=JsonSchema(schema))).output == {"a": "a"}
    part = {"type": "object", "properties": {"a": {"$schema": DRAFT, "pattern": "^(a+)+$"}}}
    with pytest.raises(ConfigurationError, match="schema"):
        await agent.run("Hi", output=JsonSchema(part))


# A schema and a value cost a number of steps that grows with their size.

Schema = dict[str, Any]


def tower(levels: int) -> Schema:
    parts: Schema = {
        f"a{at}": {"anyOf": [{"$ref": f"#/$defs/a{at + 1}"}, {"$ref": f"#/$defs/a{at + 1}"}]}
        for at in range(levels)
    }
    parts[f"a{levels}"] = {"type": "integer"}
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/a0"}}, "$defs": parts}


LARGE_SCHEMAS = [
    (tower(12), {"a": "x"}, 1000),
    (tower(16), {"a": "x"}, 1000),
    (tower(90), {"a": "x"}, 5000),
    (
        {"type": "object", "properties": {f"p{at}": {"type": "integer"} for at in range(8000)}},
        {f"p{at}": str(at) for at in range(8000)},
        80_000,
    ),
    (
        {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}},
        {"a": [{"n": at, "m": [at]} for at in range(3000)] + [{"m": [7.0], "n": 7}]},
        40_000,
    ),
]


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize(("schema", "value", "most"), LARGE_SCHEMAS)
@pytest.mark.timeout(30)
async def test_large_schemas_and_values_take_few_steps(
    schema: Schema, value: object, most: int
) -> None:
    compiled = compile_schema(schema, make_pattern, StepBudget(COMPILE_STEPS))
    check = StepBudget(CHECK_STEPS)
    assert compiled.find_problems(json.loads(json.dumps(value)), check)
    assert compiled.steps + check.used < most
    agent = Agent(ScriptedModel(json.dumps(value), "{}"))
    assert (await agent.run("Hi", output=JsonSchema(schema))).output == {}


@pytest.mark.slow  # takes half a second or more
async def test_a_check_without_measure_ends_with_an_error() -> None:
    many = {"items": {"anyOf": [{"const": at} for at in range(900)]}, "type": "array"}
    agent = Agent(ScriptedModel(json.dumps([*range(1000, 2000)])), limits=Limits(output_repairs=0))
    with pytest.raises(OutputError) as raised:
        await agent.run("Hi", output=JsonSchema(many))
    assert "cannot be checked against its schema in 250,000 steps" in str(raised.value.problems[0])


def test_a_schema_is_compiled_once_and_few_are_kept() -> None:
    cache = SchemaCache(most_bytes=10_000)
    first: Schema = {"type": "object", "title": "a"}
    for _ in range(3):
        assert cache.compile(dict(first)) is cache.compile(first)
    assert cache.compiled == 1
    for at in range(20):
        cache.compile({"type": "object", "title": str(at)})
    cache.compile(first)
    assert cache.compiled == 22


async def test_the_words_for_a_wrong_call_are_bounded() -> None:
    parts: Schema = {f"a{at}": {"anyOf": [{"$ref": f"#/$defs/a{at + 1}"}] * 5} for at in range(20)}
    parts["a20"] = {"type": "array", "items": {"$ref": "#/$defs/a0"}}
    names = [f"name{at}" + "x" * 50 for at in range(200)]
    schema = {
        "type": "object",
        "properties": {name: {"$ref": "#/$defs/a0"} for name in names},
        "required": names,
        "$defs": parts,
    }
    refused = ClientSignature(ClientTool("locate", parameters=schema)).check("{}")
    assert "and 40 more" in refused.text  # a check names at most 50 problems
    assert len(refused.text) < 5000
    refused = ClientSignature(ClientTool("locate", parameters=schema)).check("")
    assert "and 150 more" in refused.text
    agent = Agent(ScriptedModel(ToolCall("1", "locate", "{}"), "Done."))
    tool = ClientTool("locate", parameters=schema)
    assert (await agent.run("Hi", tools=[tool])).output == "Done."


def test_an_endless_schema_of_a_program_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="refers to itself without an end"):
        Agent(ScriptedModel("1"), output=JsonSchema({"allOf": [{"$ref": "#"}]}))


def test_a_problem_shows_a_large_object_without_sorting_all_of_it() -> None:
    compared = 0

    class Name(str):
        """Counts the comparisons, since a sort compares each name."""

        __slots__ = ()

        def __lt__(self, other: str) -> bool:
            nonlocal compared
            compared += 1
            return str.__lt__(self, other)

    value = {Name(f"name {number}"): number for number in range(2_000)}
    assert shorten(value).endswith(", ...}")
    assert shorten([value]).endswith(", ...}]")
    assert compared < 20
    assert shorten({"b": 1, "a": 2}) == "{'a': 2, 'b': 1}"


def test_a_schema_may_be_nested_as_deeply_as_the_limit_says() -> None:
    lists: list[Any] = []
    for _ in range(62):
        lists = [lists]
    deepest = {"type": "object", "default": lists}  # the object is the first of 64 levels
    assert JsonSchema(deepest).schema["default"] == lists
    with pytest.raises(ConfigurationError, match="64 levels"):
        JsonSchema({"type": "object", "default": [lists]})
