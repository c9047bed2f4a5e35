"""Tools and outputs whose schemas are sent in another form: nobody but the provider sees that form."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field
from tests.wire.rig import MODELS, MODES, PATIENT

from holdfast import (
    Agent,
    ConfigurationError,
    MemoryJournal,
    ModelAt,
    StructuredOutput,
    ToolPermission,
    tool,
)
from holdfast.core.client_tools import ClientToolQuestion
from holdfast.core.events import ModelReplied
from holdfast.core.questions import AnyQuestion, Approved, PermissionQuestion
from holdfast.testing import FakeClock
from holdfast.testing.emulator import DropAfter, EmulatedRequest, Emulator, ErrorResponse, call
from holdfast.testing.emulator.script import ReplyLike
from holdfast.testing.emulator.wires.emulator_wire import WIRES
from holdfast.tools import ClientTool

every_wire = pytest.mark.parametrize("wire", WIRES)
both_modes = pytest.mark.parametrize("mode", MODES)

MEANT = {"$top": 5, "filter[id]": "a", "inner": {"$skip": 2}}


class Inner(BaseModel):
    skip: int = Field(alias="$skip")
    note: str = ""


class Query(BaseModel):
    top: int = Field(alias="$top")
    by: str = Field(alias="filter[id]")
    inner: Inner
    limit: int = 7


class Chain(BaseModel):
    link: Chain | None = None


def sent_value(schema: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """The value as a model writes it that reads the schema: its names, and null for what is absent."""
    sent: dict[str, Any] = {}
    known = list(value)
    for at, (name, part) in enumerate(schema["properties"].items()):
        if at >= len(known):
            if name in schema.get("required", ()):
                sent[name] = None
            continue
        inner = value[known[at]]
        if isinstance(inner, dict):
            named = part.get("$ref", "").rpartition("/")[2]
            inner = sent_value({**schema.get("$defs", {}).get(named, part)}, inner)
        sent[name] = inner
    return sent


def agent_for(wire: str, emulator: Emulator, **more: Any) -> Agent[Any]:
    return Agent(
        MODELS[wire],
        base_url=emulator.base_url_for(wire),
        api_key="k",
        timeouts=PATIENT,
        clock=FakeClock(),
        **more,
    )


@every_wire
@both_modes
@pytest.mark.parametrize("strict", [None, True])
async def test_arguments_have_their_own_names_for_everybody(
    wire: str, mode: str, strict: bool | None
) -> None:
    got: list[Any] = []

    @tool(effect="read", strict=strict)
    def find(
        top: Annotated[int, Field(alias="$top")],
        by: Annotated[str, Field(alias="filter[id]")],
        inner: Inner,
        limit: int = 7,
    ) -> str:
        """Find it."""
        got.append((top, by, inner.skip, inner.note, limit))
        return "found"

    def choose_reply(request: EmulatedRequest) -> ReplyLike:
        if request.tool_results:
            assert "$top" in json.dumps(request.body)  # the history has the names of the tool
            return "Done."
        (spec,) = request.tools
        return call("find", sent_value(dict(spec.schema), MEANT))

    journal = MemoryJournal()
    async with Emulator(choose_reply) as emulator:
        agent = agent_for(wire, emulator, tools=[find], journal=journal)
        if mode == "whole":
            result = await agent.run("go", session="s")
        else:
            async with agent.stream("go", session="s") as run:
                items = [item async for item in run]
            result = run.result
            shown = "".join(getattr(item, "arguments", "") for item in items[:40])
            assert '"$top"' in shown
        assert [entry.problem for entry in emulator.requests] == ["", ""]
    assert result.output == "Done."
    assert got == [(5, "a", 2, "", 7)]
    (asked,) = [part for message in result.messages for part in message.calls]
    assert json.loads(asked.arguments) == MEANT
    events = [entry.event for entry in await journal.read("s")]
    saved = [event.reply for event in events if isinstance(event, ModelReplied)]
    assert json.loads(saved[0].calls[0].arguments) == MEANT


@every_wire
@pytest.mark.parametrize("way", ["native", "tool"])
async def test_an_output_has_its_own_names_also_while_it_is_written(wire: str, way: Any) -> None:
    def choose_reply(request: EmulatedRequest) -> ReplyLike:
        if way == "tool":
            return call("final_answer", sent_value(dict(request.tools[0].schema), MEANT))
        return json.dumps(sent_value(find_schema(request.body), MEANT))

    faults = [DropAfter(3), None] if (wire, way) != ("gemini", "tool") else []
    async with Emulator(choose_reply, faults=faults) as emulator:
        agent = agent_for(wire, emulator, output=StructuredOutput(Query, mode=way))
        async with agent.stream("go") as run:
            partials = [json.dumps(partial) async for partial in run.partials()]
    assert run.result.output == Query.model_validate(MEANT)
    assert json.loads(run.result.text) == MEANT
    assert json.loads(partials[-1]) == MEANT
    assert not any("limit" in partial for partial in partials)
    names = ("$top", "filter[id]", "inner")
    assert all(set(json.loads(one)) <= set(names) for one in partials if one not in ("null", "{}"))


def find_schema(body: Any) -> dict[str, Any]:
    """The schema of the output in the body of a request."""
    if isinstance(body, dict):
        for name, value in body.items():
            if name in ("schema", "responseJsonSchema") and isinstance(value, dict):
                return value
        found = [find_schema(value) for value in body.values()]
        return next(filter(None, found), {})
    return {}


@every_wire
async def test_a_caller_s_tool_is_asked_for_by_its_own_names(wire: str) -> None:
    parameters = {
        "type": "object",
        "properties": {"$top": {"type": "integer"}, "filter[id]": {"type": "string"}},
        "required": ["$top", "filter[id]"],
        "additionalProperties": False,
    }
    asked: list[Any] = []

    async def answer(question: ClientToolQuestion) -> object:
        asked.append(question.arguments)
        return question.give("found")

    def choose_reply(request: EmulatedRequest) -> ReplyLike:
        if request.tool_results:
            return "Done."
        return call(
            "find", sent_value(dict(request.tools[0].schema), {"$top": 5, "filter[id]": "a"})
        )

    async with Emulator(choose_reply) as emulator:
        agent = agent_for(
            wire,
            emulator,
            tools=[ClientTool("find", "Find it.", parameters)],
            on_question=answer,
        )
        await agent.run("go")
    assert asked == [{"$top": 5, "filter[id]": "a"}]


@every_wire
@pytest.mark.parametrize("strict", [None, True])
async def test_a_caller_s_tool_is_checked_by_its_own_schema_whatever_was_sent(
    wire: str, strict: bool | None
) -> None:
    part = {"type": "string", "pattern": "^[a-z]+$", "minLength": 2}
    parameters = {
        "type": "object",
        "properties": {"$top": {"type": "integer", "maximum": 9}, "filter[id]": part},
        "required": ["$top"],
        "additionalProperties": False,
    }
    asked: list[Any] = []

    async def answer(question: ClientToolQuestion) -> object:
        asked.append(question.arguments)
        return question.give("found")

    def choose_reply(request: EmulatedRequest) -> ReplyLike:
        schema = dict(request.tools[0].schema)
        if not request.tool_results:
            return call("find", sent_value(schema, {"$top": 10, "filter[id]": "A"}))
        if (refused := request.tool_results[0].text) != "found":
            assert "$top: must be at most 9; got 10" in refused
            assert "must match the pattern ^[a-z]+$" in refused
            return call("find", sent_value(schema, {"$top": 9}))
        return "Done."

    async with Emulator(choose_reply) as emulator:
        tool = ClientTool("find", "Find it.", parameters, strict)
        agent = agent_for(wire, emulator, tools=[tool], on_question=answer)
        assert (await agent.run("go")).output == "Done."
    assert asked == [{"$top": 9}]


@pytest.mark.parametrize("wire", ["openai_chat", "openai_responses", "anthropic"])
async def test_a_strict_tool_that_no_provider_can_enforce_is_refused_with_the_agent(
    wire: str,
) -> None:
    @tool(strict=True)
    def grade(names: dict[str, int]) -> str:
        """Grade them."""
        return str(names)

    async with Emulator(["never"]) as emulator:
        with pytest.raises(ConfigurationError) as caught:
            agent_for(wire, emulator, tools=[grade])
        assert caught.value.argument.startswith("tools.grade.schema/properties/names")
        assert emulator.requests == []


def make_find(got: list[Any]) -> Any:
    @tool(effect="write", strict=True)
    def find(
        top: Annotated[int, Field(alias="$top")],
        by: Annotated[str, Field(alias="filter[id]")],
        inner: Inner,
        limit: int = 7,
    ) -> str:
        """Find it."""
        got.append((top, by, inner.skip, inner.note, limit))
        return "found"

    return find


def call_find(request: EmulatedRequest) -> ReplyLike:
    if request.tool_results:
        return "Done."
    (spec,) = (tool for tool in request.tools if tool.name == "find")
    return call("find", sent_value(dict(spec.schema), MEANT))


@every_wire
async def test_a_person_is_asked_about_the_tools_own_names(wire: str) -> None:
    got: list[Any] = []
    asked: list[Any] = []

    async def approve(question: AnyQuestion) -> Approved:
        assert isinstance(question, PermissionQuestion)
        asked.append(question.arguments)
        return Approved(arguments={**question.arguments, "top": 6})

    async with Emulator(call_find) as emulator:
        agent = agent_for(
            wire,
            emulator,
            tools=[make_find(got)],
            middleware=[ToolPermission(ask=["find"])],
            on_question=approve,
        )
        result = await agent.run("go")
        assert [entry.problem for entry in emulator.requests] == ["", ""]
    assert result.output == "Done."
    # As the function has them: neither the names of the schema nor those that were sent.
    assert asked == [{"top": 5, "by": "a", "inner": {"skip": 2, "note": ""}, "limit": 7}]
    assert got == [(6, "a", 2, "", 7)]


@pytest.mark.parametrize(("first", "second"), tuple(permutations(WIRES, 2)))
async def test_a_fallback_has_the_names_of_its_own_wire(first: str, second: str) -> None:
    got: list[Any] = []

    def fails(request: EmulatedRequest) -> Any:
        return ErrorResponse("bad_key") if request.tool_results else None

    def answer(request: EmulatedRequest) -> ReplyLike:
        if sum(one.role == "tool" for one in request.messages) == 1:
            (spec,) = request.tools
            return call("find", sent_value(dict(spec.schema), MEANT))
        return "Done."

    async with Emulator(call_find, faults=fails) as broken, Emulator(answer) as sound:
        other = ModelAt(
            MODELS[second], base_url=sound.base_url_for(second), api_key="k", timeouts=PATIENT
        )
        agent = agent_for(first, broken, tools=[make_find(got)], fallback=[other])
        result = await agent.run("go")
        assert [entry.problem for entry in sound.requests if entry.problem] == []
    assert got == [(5, "a", 2, "", 7)] * 2
    assert [
        json.loads(part.arguments) for message in result.messages for part in message.calls
    ] == [MEANT] * 2


@every_wire
async def test_a_subagent_has_the_names_of_its_own_wire(wire: str) -> None:
    got: list[Any] = []

    def lead(request: EmulatedRequest) -> ReplyLike:
        return "Helped." if request.tool_results else call("helper", {"task": "go"})

    async with Emulator(lead) as outer, Emulator(call_find) as inner:
        helper = agent_for(wire, inner, name="helper", tools=[make_find(got)])
        agent = agent_for(WIRES[WIRES.index(wire) - 1], outer, tools=[helper.as_tool()])
        assert (await agent.run("go")).output == "Helped."
        assert [
            entry.problem for entry in (*outer.requests, *inner.requests) if entry.problem
        ] == []
    assert got == [(5, "a", 2, "", 7)]


def test_an_output_that_must_be_native_and_cannot_be_is_refused_with_the_agent() -> None:
    for model in ("anthropic:claude-sonnet-4-5", "xai:grok-4"):
        with pytest.raises(ConfigurationError) as caught:
            Agent(model, api_key="k", output=StructuredOutput(Chain, mode="native"))
        assert caught.value.argument.startswith("output.schema/")
        assert caught.value.problem.startswith("contains itself")
        Agent(model, api_key="k", output=StructuredOutput(Chain))
    Agent("openai:gpt-5", api_key="k", output=StructuredOutput(Chain, mode="native"))
