"""A caller of a service names the schema of an output, and the text that the model repeats.

A pattern such as `^(a+)+$` took exponential time in the event loop, for everybody.
"""

from __future__ import annotations

import asyncio
import json

import pytest

from holdfast import Agent
from holdfast.core.json_schema import JsonSchema
from holdfast.errors import ConfigurationError
from holdfast.testing import ScriptedModel


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)+$", "^(.*a){30}$"])
@pytest.mark.timeout(30)
async def test_a_pattern_is_checked_in_bounded_time(pattern: str) -> None:
    schema = JsonSchema({"type": "string", "pattern": pattern})
    agent = Agent(ScriptedModel(json.dumps("a" * 60 + "!"), json.dumps("a" * 60)))
    result = await asyncio.wait_for(agent.run("Repeat", output=schema), 20)
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
