"""Tools of a JSON Schema and a function: what is validated, what the function gets, and which are refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from holdfast import Agent, Tool, ToolContext, ToolError, ToolPermission
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.core.questions import PermissionQuestion
from holdfast.journal import MemoryJournal
from holdfast.testing import FakeClock, ScriptedModel

Schema = Mapping[str, Any]

ORDER: Schema = {
    "type": "object",
    "properties": {
        "order-id": {"type": "integer", "minimum": 1},
        "class": {"enum": ["a", "b"], "default": "a"},
        "tags": {"type": "array", "items": {"type": "string"}, "default": ["new"]},
    },
    "required": ["order-id"],
    "additionalProperties": False,
}


async def run(tool: Tool, *arguments: str, **keywords: Any) -> list[str]:
    """Return what the model reads of calls of a tool."""
    calls = [ToolCall(str(at), tool.name, text) for at, text in enumerate(arguments)]
    agent = Agent(ScriptedModel(*calls, "Done."), tools=[tool], clock=FakeClock(), **keywords)
    messages = (await agent.run("Go.")).messages
    return [
        one.text for message in messages for one in message.parts if isinstance(one, ToolResult)
    ]


def plain(given: dict[str, Any]) -> object:
    return given


async def waiting(given: dict[str, Any]) -> object:
    await asyncio.sleep(0)
    return given


def promising(given: dict[str, Any]) -> object:
    return waiting(given)


async def streaming(given: dict[str, Any]) -> AsyncIterator[object]:
    for name, value in given.items():
        yield {name: value}


class Desk:
    def __call__(self, given: dict[str, Any]) -> object:
        return given

    def method(self, given: dict[str, Any], *more: object, **others: object) -> object:
        return given

    @staticmethod
    def static(given, at: int = 3):  # type: ignore[no-untyped-def]
        return given


@pytest.mark.parametrize(
    "function",
    [plain, waiting, promising, Desk(), Desk().method, Desk.static, lambda given: given],
)
async def test_any_function_gets_the_arguments_as_they_are_named_with_defaults(
    function: Callable[..., object],
) -> None:
    tool = Tool.from_schema("find", "Find an order.", ORDER, function, effect="read")
    texts = await run(tool, '{"order-id": 7}', '{"order-id": 8, "class": "b", "tags": []}')
    assert texts == [
        '{"order-id":7,"class":"a","tags":["new"]}',
        '{"order-id":8,"class":"b","tags":[]}',
    ]
    assert tool.spec.schema == ORDER
    assert (tool.name, tool.description, tool.effect) == ("find", "Find an order.", "read")


async def test_a_generator_s_items_are_the_result() -> None:
    tool = Tool.from_schema("find", "Find an order.", ORDER, streaming)
    assert await run(tool, '{"order-id": 7}') == ['[{"order-id":7},{"class":"a"},{"tags":["new"]}]']


async def test_a_wrong_call_does_not_run_and_the_model_reads_why() -> None:
    tool = Tool.from_schema("find", "", ORDER, lambda given: 1 / 0)
    texts = await run(tool, '{"order-id": "7", "x": 1}', "", "{", '{"order-id": 0}')
    assert texts[0] == (
        "Error: Function 'find' was not run: its arguments are invalid:\n"
        '- order-id: must be an integer, at least 1; got "7"\n'
        "- x: is not a known name; the names are: order-id, class, tags\n"
        "Correct them and call it again."
    )
    assert "It needs: order-id" in texts[1]
    assert "not valid JSON" in texts[2]
    assert "must be at least 1; got 0" in texts[3]


async def test_the_context_has_the_key_and_the_arguments_of_the_call() -> None:
    seen: list[tuple[str, object, object, int]] = []

    def pay(context: ToolContext, given: dict[str, Any]) -> str:
        seen.append((context.idempotency_key, context.arguments, dict(given), context.attempt))
        given.clear()  # the next attempt gets them again
        if len(seen) == 1:
            raise ConnectionError("lost")
        return "paid"

    tool = Tool.from_schema("pay", "Pay.", ORDER, pay, effect="idempotent")
    assert await run(tool, '{"order-id": 7}') == ["paid"]
    keys = {key for key, *_ in seen}
    assert len(keys) == 1
    filled = {"order-id": 7, "class": "a", "tags": ["new"]}
    assert [(one[1], one[2]) for one in seen] == [(filled, filled)] * 2
    assert [one[3] for one in seen] == [1, 2]


async def test_errors_limits_and_doubt_are_those_of_any_tool() -> None:
    def fail(given: dict[str, Any]) -> str:
        if given["order-id"] == 1:
            raise ToolError("There is no order 1.")
        if given["order-id"] == 2:
            raise ConnectionError("secret")
        return "x" * 100

    tool = Tool.from_schema("find", "Find.", ORDER, fail, effect="write", result_limit=10)
    texts = await run(tool, '{"order-id": 1}', '{"order-id": 2}', '{"order-id": 3}')
    assert texts[0] == "There is no order 1."
    assert texts[1] == (
        "Error: Function 'find' failed. It may have taken effect: check before calling it again."
    )
    assert texts[2].startswith("xxxxxxxxxx\n[cut: 90 of 100")


async def test_a_person_approves_what_runs() -> None:
    got: list[object] = []
    tool = Tool.from_schema("pay", "Pay.", ORDER, got.append, effect="write")
    model = ScriptedModel(ToolCall("1", "pay", '{"order-id": 7}'), "Done.")
    agent = Agent(
        model,
        tools=[tool],
        middleware=[ToolPermission(ask=["pay"])],
        journal=MemoryJournal(),
        on_wait="suspend",
    )
    await agent.run("Pay.", session="ada")
    (question,) = await agent.questions("ada")
    assert isinstance(question, PermissionQuestion)
    assert question.arguments == {"order-id": 7, "class": "a", "tags": ["new"]}
    await agent.answer("ada", question.approve(arguments={"order-id": 8, "class": "b"}))
    await agent.resume("ada")
    assert got == [{"order-id": 8, "class": "b", "tags": ["new"]}]


async def test_defaults_that_do_not_fit_together_are_left_out() -> None:
    schema: Schema = {
        "properties": {"a": {"default": 1}, "b": {"default": 2}},
        "maxProperties": 1,
    }
    tool = Tool.from_schema("find", "", schema, plain)
    assert await run(tool, '{"a": 3}', "{}") == ['{"a":3}', "{}"]


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": ["object", "null"]},
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "required": ["a"]}}},
    ],
)
async def test_arguments_are_an_object_whatever_else_the_schema_says(schema: Schema) -> None:
    tool = Tool.from_schema("find", "", schema, plain)
    assert tool.spec.schema["type"] == "object"
    assert await run(tool, '{"a": 1}') == ['{"a":1}']


@pytest.mark.parametrize(
    ("changed", "argument", "problem"),
    [
        ({"schema": {"type": "array"}}, "tool 'find', schema", "at /type: it is 'array'"),
        ({"schema": []}, "tool 'find', schema", "must be a mapping"),
        (
            {"schema": {"properties": {"a": {"minimum": 3, "maximum": 1}}}},
            "tool 'find', schema",
            "/properties/a/maximum",
        ),
        (
            {"schema": {"properties": {"a": {"type": "integer", "default": "x"}}}},
            "tool 'find', schema",
            "/properties/a/default: 'x' must be an integer",
        ),
        (
            {"schema": {"properties": {"a": {"pattern": "^(?!x)"}}}},
            "tool 'find', schema",
            "/properties/a/pattern",
        ),
        (
            {"schema": {"properties": {"a": {"$ref": "https://x.test/a.json"}}}},
            "tool 'find', schema",
            "never fetched",
        ),
        ({"name": "a b"}, "tool.name", "'a b'"),
        ({"name": "a" * 65}, "tool.name", "1 to 64"),
        ({"description": None}, "tool.description", "must be a text"),
        ({"effect": "reads"}, "tool.effect", "must be"),
        ({"call": 3}, "tool", "must be a function"),
        ({"call": lambda: 3}, "tool 'find', call", "one dictionary"),
        ({"call": lambda a, b: 3}, "tool 'find', call", "one dictionary"),
        ({"call": lambda **given: 3}, "tool 'find', call", "one dictionary"),
    ],
)
def test_what_cannot_be_a_tool_names_the_place(
    changed: dict[str, Any], argument: str, problem: str
) -> None:
    given: dict[str, Any] = {"name": "find", "description": "", "schema": ORDER, "call": plain}
    with pytest.raises(ConfigurationError) as caught:
        Tool.from_schema(**(given | changed))
    assert caught.value.argument == argument
    assert problem in caught.value.problem


def test_an_unknown_keyword_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="'speed'"):
        Tool.from_schema("find", "", ORDER, plain, speed=3)  # type: ignore[call-arg]
