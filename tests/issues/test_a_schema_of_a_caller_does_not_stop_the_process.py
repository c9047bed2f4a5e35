"""A schema of 890 bytes with references that double stopped the process, `/health` included.

8,000 properties cost 4 to 18 s, and the check of 3,000 objects against `uniqueItems` 18 s.
"""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest
from tests.server.serving import serve

from holdfast import Agent, Limits
from holdfast.core.json_schema import JsonSchema
from holdfast.core.messages import ToolCall
from holdfast.core.schema_checks.schema_compiler import compile_schema
from holdfast.core.schema_checks.step_budget import CHECK_STEPS, COMPILE_STEPS, StepBudget
from holdfast.errors import OutputError
from holdfast.runtime.output.schema_output import SchemaCache, make_pattern
from holdfast.server import create_app
from holdfast.testing import ScriptedModel
from holdfast.tools import ClientTool
from holdfast.tools.client_calls import ClientSignature

Schema = dict[str, Any]


def tower(levels: int) -> Schema:
    parts: Schema = {
        f"a{at}": {"anyOf": [{"$ref": f"#/$defs/a{at + 1}"}, {"$ref": f"#/$defs/a{at + 1}"}]}
        for at in range(levels)
    }
    parts[f"a{levels}"] = {"type": "integer"}
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/a0"}}, "$defs": parts}


SEEN = [
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


@pytest.mark.parametrize(("schema", "value", "most"), SEEN)
@pytest.mark.timeout(30)
async def test_what_was_seen_takes_few_steps(schema: Schema, value: object, most: int) -> None:
    compiled = compile_schema(schema, make_pattern, StepBudget(COMPILE_STEPS))
    check = StepBudget(CHECK_STEPS)
    assert compiled.find_problems(json.loads(json.dumps(value)), check)
    assert compiled.steps + check.used < most
    agent = Agent(ScriptedModel(json.dumps(value), "{}"))
    assert (await agent.run("Hi", output=JsonSchema(schema))).output == {}


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


LARGE: Schema = {"type": "object", "title": "a" * 300_000}
DEEP: Schema = {"type": "object"}
for _ in range(40):
    DEEP = {"type": "object", "properties": {"a": DEEP}}
SLOW: Schema = {"type": "object", "properties": {"a": {"pattern": r"^(\w{99}){99}$"}}}
TURN: Schema = {"agent": "greeter", "message": "Hi", "wait": 10}
ASKED = [{"role": "user", "content": "Hi"}]
RUN: Schema = {
    "threadId": "ada",
    "runId": "1",
    "messages": [{"id": "1", "role": "user", "content": "Hi"}],
    "state": {},
    "context": [],
    "forwardedProps": {},
}


def bodies(schema: Schema, *, tools: bool) -> list[tuple[str, Schema, str]]:
    """Return the requests that bring a schema: the path, the body, and the field in the problem."""
    named = {"name": "a", "schema": schema}
    chat: Schema = {"model": "greeter", "messages": ASKED}
    response: Schema = {"model": "greeter", "input": "Hi"}
    outputs = [
        ("/api/v1/turns", {**TURN, "output_schema": schema}, "output_schema"),
        (
            "/v1/chat/completions",
            {**chat, "response_format": {"type": "json_schema", "json_schema": named}},
            "response_format.json_schema.schema",
        ),
        (
            "/v1/responses",
            {**response, "text": {"format": {"type": "json_schema", **named}}},
            "text.format.schema",
        ),
    ]
    function = {"name": "a", "parameters": schema}
    calls = [
        (
            "/v1/chat/completions",
            {**chat, "tools": [{"type": "function", "function": function}]},
            "tools[0].function.parameters",
        ),
        ("/v1/responses", {**response, "tools": [{"type": "function", **function}]}, "tools[0].parameters"),
        ("/agui/greeter", {**RUN, "tools": [{"description": "", **function}]}, "tools[0].parameters"),
    ]  # fmt: skip
    return [*outputs, *calls] if tools else outputs


async def test_each_protocol_names_the_field_and_the_limit() -> None:
    model = ScriptedModel(*["{}"] * 20)
    cases = [(LARGE, " bytes", True), (DEEP, "64 levels", True), (SLOW, "is too large", False)]
    async with (
        serve(create_app(Agent(model, name="greeter"))) as base,
        aiohttp.ClientSession() as http,
    ):
        for schema, limit, tools in cases:
            for path, body, field in bodies(schema, tools=tools):
                async with http.post(base + path, json=body) as answer:
                    status, text = answer.status, await answer.text()
                # OpenAI's clients know 400 for a request that is wrong.
                assert status == (400 if path.startswith("/v1") else 422), text
                assert field in text
                assert limit in text
                assert len(text) < 2000
    assert not model.requests


async def test_a_request_has_few_tools() -> None:
    tools = [{"name": f"t{at}", "description": "", "parameters": None} for at in range(129)]
    wrapped = [{"type": "function", "function": one} for one in tools]
    listed = [{"type": "function", **one} for one in tools]
    requests = [
        ("/v1/chat/completions", {"model": "greeter", "messages": ASKED, "tools": wrapped}),
        ("/v1/responses", {"model": "greeter", "input": "Hi", "tools": listed}),
        ("/agui/greeter", {**RUN, "tools": tools}),
    ]
    app = create_app(Agent(ScriptedModel(), name="greeter"))
    async with serve(app) as base, aiohttp.ClientSession() as http:
        for path, body in requests:
            async with http.post(base + path, json=body) as answer:
                assert answer.status in (400, 422)
                assert "at most 128 are allowed" in await answer.text()


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
    assert "and 190 more are missing" in refused.text
    assert len(refused.text) < 5000
    refused = ClientSignature(ClientTool("locate", parameters=schema)).check("")
    assert "and 150 more" in refused.text
    agent = Agent(ScriptedModel(ToolCall("1", "locate", "{}"), "Done."))
    tool = ClientTool("locate", parameters=schema)
    assert (await agent.run("Hi", tools=[tool])).output == "Done."
