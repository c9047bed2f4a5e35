"""Typed answers over real HTTP: every wire, every way of asking, streamed or whole, with tools and without."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from typing import Any

import pytest
from tests.wire.rig import MODELS, MODES, PATIENT

from holdfast import (
    Agent,
    ErrorCategory,
    ModelSettings,
    OutputError,
    ProviderError,
    StructuredOutput,
    tool,
)
from holdfast.core.messages import FinishReason, Reply, Text, assistant, user
from holdfast.core.notices import AttemptStarted, OutputModeChanged, RetryScheduled
from holdfast.errors import TruncatedOutputError
from holdfast.event_log import DisplayFold, NoticeShown
from holdfast.models.resolve import ModelAt
from holdfast.testing import FakeClock
from holdfast.testing.emulator import (
    DropAfter,
    EmulatedRequest,
    Emulator,
    ErrorResponse,
    HttpStatus,
    call,
)
from holdfast.testing.emulator.script import Replies, ReplyLike
from holdfast.testing.emulator.wires.emulator_wire import WIRES

every_wire = pytest.mark.parametrize("wire", WIRES)
every_way = pytest.mark.parametrize("way", ["native", "tool", "prompt"])
both_modes = pytest.mark.parametrize("mode", MODES)


@dataclass
class Trip:
    city: str
    days: int


@dataclass
class Question:
    text: str


@tool(effect="read")
def weather(city: str) -> str:
    """Weather in a city."""
    return f"sunny in {city}"


def way_of(request: EmulatedRequest) -> str:
    """How the answer was asked for, read from the body as the provider sees it."""
    body = json.dumps(request.body)
    if any(spec.name.startswith("final_answer") for spec in request.tools):
        return "tool"
    if any(
        f'"{name}": ' in body for name in ("json_schema", "responseJsonSchema", "output_config")
    ):
        return "native"
    if '"type": "json_schema"' in body:
        return "native"
    return "prompt" if "fits this JSON Schema" in body else "nothing"


def said(request: EmulatedRequest, value: Any, alternative: str = "") -> ReplyLike:
    """The value in the form that was asked for."""
    if way_of(request) != "tool":
        return json.dumps(value)
    name = f"final_answer_{alternative}" if alternative else "final_answer"
    return call(name, value if isinstance(value, dict) else {"answer": value})


def agent_for(wire: str, emulator: Emulator, output: Any, **more: Any) -> Agent[Any]:
    return Agent(
        more.pop("model", MODELS[wire]),
        base_url=emulator.base_url_for(wire),
        api_key="k",
        timeouts=PATIENT,
        output=output,
        clock=FakeClock(),
        **more,
    )


async def answer(agent: Agent[Any], mode: str, **more: Any) -> tuple[Any, list[object]]:
    if mode == "whole":
        return await agent.run("Plan a trip.", **more), []
    async with agent.stream("Plan a trip.", **more) as run:
        shown = [copy.deepcopy(partial) async for partial in run.partials()]
    return run.result, shown


@every_wire
@every_way
@both_modes
async def test_an_answer_is_asked_for_mended_and_read(wire: str, way: Any, mode: str) -> None:
    def choose_reply(request: EmulatedRequest) -> ReplyLike:
        assert way_of(request) == way
        right = request.text.startswith("The answer does not")
        return said(request, {"city": "Porto", "days": 2 if right else "many"})

    async with Emulator(choose_reply) as emulator:
        agent = agent_for(wire, emulator, StructuredOutput(Trip, mode=way))
        result, shown = await answer(agent, mode, session="s")
        again, _ = await answer(agent, mode, session="s")
        assert [entry.problem for entry in emulator.requests] == [""] * 4
    assert result.output == Trip("Porto", 2)
    assert again.output == Trip("Porto", 2)
    assert result.parsed_by == "strict"
    # Whatever the way, the history holds the same.
    assert json.loads(result.messages[1].text) == {"city": "Porto", "days": "many"}
    if mode == "streamed":
        assert None in shown
        assert shown[-1] == {"city": "Porto", "days": 2}


@every_wire
@every_way
@both_modes
async def test_with_tools_of_the_user(wire: str, way: Any, mode: str) -> None:
    def choose_reply(request: EmulatedRequest) -> ReplyLike:
        assert way_of(request) == way
        if not request.tool_results:
            look = call("weather", {"city": "Porto"})
            # An answer that comes before the results is left out.
            return [look, said(request, {"city": "No", "days": 0})] if way == "tool" else look  # type: ignore[list-item]
        return said(request, {"city": request.tool_results[0].text, "days": 2})

    async with Emulator(choose_reply) as emulator:
        agent = agent_for(wire, emulator, StructuredOutput(Trip, mode=way), tools=[weather])
        result, _ = await answer(agent, mode)
        assert [entry.problem for entry in emulator.requests] == ["", ""]
    assert result.output == Trip("sunny in Porto", 2)
    assert len(result.messages) == 4


@every_wire
@every_way
async def test_several_types_and_a_type_that_is_not_an_object(wire: str, way: Any) -> None:
    async def asked(output: Any, value: Any, alternative: str = "") -> Any:
        async with Emulator(lambda request: said(request, value, alternative)) as emulator:
            agent = agent_for(wire, emulator, StructuredOutput(output, mode=way))
            result = await agent.run("go")
            assert emulator.requests[0].problem == ""
            return result.output

    assert await asked([Trip, Question], {"text": "When?"}, "Question") == Question("When?")
    listed: Any = {"answer": [1, 2]} if way == "native" else [1, 2]
    assert await asked(list[int], listed) == [1, 2]
    assert await asked(bool, {"answer": True}) is True


@every_wire
@every_way
@both_modes
async def test_a_cut_output_is_an_error_and_not_requested_again(
    wire: str, way: Any, mode: str
) -> None:
    def choose_reply(request: EmulatedRequest) -> ReplyLike:
        if way == "tool":
            part: Any = call("final_answer", {"city": "Porto", "days": 2})
        else:
            part = Text('{"city": "Porto", "da')
        return Reply((part,), finish=FinishReason.LENGTH)

    async with Emulator(choose_reply) as emulator:
        agent = agent_for(wire, emulator, StructuredOutput(Trip, mode=way))
        with pytest.raises(TruncatedOutputError) as caught:
            await answer(agent, mode)
        assert len(emulator.requests) == 1
    assert isinstance(caught.value.best, dict)
    assert caught.value.best["city"] == "Porto"


@every_wire
@every_way
async def test_a_stream_that_breaks_begins_its_preview_again(wire: str, way: Any) -> None:
    def choose_reply(request: EmulatedRequest) -> ReplyLike:
        return said(request, {"city": "Porto " * 30, "days": 2})

    chunks = 1 if (wire, way) == ("gemini", "tool") else 4  # that wire's calls come whole
    async with Emulator(choose_reply, faults=[DropAfter(chunks), None]) as emulator:
        agent = agent_for(wire, emulator, StructuredOutput(Trip, mode=way))
        result, shown = await answer(agent, "streamed")
        assert len(emulator.requests) == 2
    assert result.output.days == 2
    assert shown[-1] == {"city": "Porto " * 30, "days": 2}


OPENAI = {"type": "invalid_request_error", "param": None, "code": None}
REFUSALS: dict[str, Any] = {
    "openai_chat": {
        "error": {
            **OPENAI,
            "message": "Invalid schema for response_format 'Trip': no.",
            "param": "response_format",
        }
    },
    "openai_responses": {"error": {**OPENAI, "message": "Unknown parameter: 'text.format'."}},
    "anthropic": {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "output_config.format: Extra inputs are not permitted",
        },
    },
    "gemini": {
        "error": {
            "code": 400,
            "message": "Function calling with a response mime type: 'application/json' is unsupported",
            "status": "INVALID_ARGUMENT",
        }
    },
}


@every_wire
async def test_a_refusal_of_the_schema_names_another_way(wire: str) -> None:
    async with Emulator(["never"], faults=[HttpStatus(400, body=REFUSALS[wire])]) as emulator:
        agent = agent_for(wire, emulator, StructuredOutput(Trip, mode="native"))
        with pytest.raises(
            ProviderError, match=r'may not take this schema: .*mode="tool"'
        ) as caught:
            await agent.run("go")
        assert len(emulator.requests) == 1
    assert caught.value.info.status == 400
    assert caught.value.info.category is ErrorCategory.CLIENT_ERROR


@dataclass
class Journey:
    city: str
    nights: int


@every_wire
@both_modes
async def test_a_refused_mode_is_left_once_and_not_tried_again(wire: str, mode: str) -> None:
    seen: list[str] = []

    def choose_reply(request: EmulatedRequest) -> ReplyLike:
        seen.append(way_of(request))
        return said(request, {"city": "Porto", "nights": 2})

    faults = [HttpStatus(400, body=REFUSALS[wire]), None]
    async with Emulator(choose_reply, faults=faults) as emulator:
        agent = agent_for(wire, emulator, Journey)
        async with agent.stream("Plan a trip.") as run:
            items = [item async for item in run]
        assert run.result.output == Journey("Porto", 2)
        assert [request.problem for request in emulator.requests] == ["", ""]
        (changed,) = [item for item in items if isinstance(item, OutputModeChanged)]
        assert (changed.attempt, changed.before, changed.after) == (1, "native", "tool")
        assert changed.target == MODELS[wire]
        assert changed.error.status == 400
        assert not changed.error.private
        fold = DisplayFold("s")
        shown = [one for item in items for one in fold.feed_run(item)]
        (notice,) = [one for one in shown if isinstance(one, NoticeShown)]
        assert notice.name == "output_mode_changed"
        assert notice.fields["after"] == "tool"
        assert sum(isinstance(item, AttemptStarted) for item in items) == 1
        assert not any(isinstance(item, RetryScheduled) for item in items)
        result, _ = await answer(agent_for(wire, emulator, Journey), mode)
        assert result.output == Journey("Porto", 2)
        assert len(emulator.requests) == 3
    assert seen == ["tool", "tool"]


@pytest.mark.parametrize(
    "text",
    ["Draw me the schema of a table.", "schema", "What is 'response_format is not supported'?"],
)
@pytest.mark.parametrize("place", ["message", "instructions", "history", "tool"])
async def test_an_error_that_quotes_the_request_leaves_no_mode(text: str, place: str) -> None:
    @dataclass
    class Answer:
        city: str

    @tool(effect="read", description=text if place == "tool" else "Look.")
    def look() -> str:
        return "x"

    body = {"error": {**OPENAI, "message": f"The input was flagged: {text!r}"}}
    async with Emulator(["never"], faults=[HttpStatus(400, body=body)] * 2) as emulator:
        agent = Agent(
            "openai:gpt-5.2",
            base_url=emulator.base_url,
            api_key="k",
            output=Answer,
            tools=[look],
            instructions=text if place == "instructions" else "Be brief.",
        )
        history = [user(text), assistant("Yes.")] if place == "history" else []
        with pytest.raises(ProviderError) as caught:
            await agent.run(text if place == "message" else "go", history=history)
        assert len(emulator.requests) == 1
        # Nor does a person read that another mode might help.
        assert "StructuredOutput" not in str(caught.value)
        assert "learnt" not in agent.describe()


async def test_a_refusal_beside_a_quoted_text_leaves_the_mode() -> None:
    @dataclass
    class Answer:
        city: str

    message = "'Draw me the schema of a table.' cannot be answered with this response_format."
    fault = HttpStatus(400, body={"error": {**OPENAI, "message": message}})

    def choose_reply(request: EmulatedRequest) -> ReplyLike:
        return said(request, {"city": "Porto"})

    async with Emulator(choose_reply, faults=[fault, None]) as emulator:
        result = await agent_for("openai_chat", emulator, Answer).run(
            "Draw me the schema of a table."
        )
        assert (result.output, len(emulator.requests)) == (Answer("Porto"), 2)


async def test_an_endpoint_that_refuses_tools_too_is_asked_twice_and_no_more() -> None:
    @dataclass
    class Voyage:
        city: str

    both = HttpStatus(400, body={"error": {**OPENAI, "message": "no schema, no tools"}})
    async with Emulator(["never"], faults=[both] * 3) as emulator:
        with pytest.raises(ProviderError, match='mode="prompt"'):
            await agent_for("openai_chat", emulator, Voyage).run("go")
        assert len(emulator.requests) == 2


async def test_a_refusal_of_a_forced_tool_names_words() -> None:
    message = "Unsupported tool_choice: expected 'auto' or 'none'."
    refusal = HttpStatus(400, body={"error": {**OPENAI, "message": message}})
    async with Emulator(["never"], faults=[refusal]) as emulator:
        agent = agent_for("openai_chat", emulator, StructuredOutput(Trip, mode="tool"))
        with pytest.raises(ProviderError, match='mode="prompt"'):
            await agent.run("go")


@every_way
async def test_another_refusal_names_none(way: Any) -> None:
    async with Emulator(["never"], faults=[ErrorResponse("context_length")]) as emulator:
        agent = agent_for("openai_chat", emulator, StructuredOutput(Trip, mode=way))
        with pytest.raises(ProviderError) as caught:
            await agent.run("go")
    assert "StructuredOutput" not in str(caught.value)


async def test_two_models_of_one_turn_are_asked_in_two_ways() -> None:
    seen: list[str] = []

    def choose_reply(request: EmulatedRequest) -> ReplyLike:
        seen.append(way_of(request))
        return said(request, {"city": "Porto", "days": 2})

    async with (
        Emulator(choose_reply, faults=[ErrorResponse("overloaded")] * 9) as down,
        Emulator(choose_reply) as up,
    ):
        second = ModelAt(
            "anthropic:claude-3-5-haiku-latest",
            base_url=up.base_url_for("anthropic"),
            api_key="k",
            timeouts=PATIENT,
        )
        agent = agent_for("openai_chat", down, Trip, fallback=[second])
        assert (await agent.run("go")).output == Trip("Porto", 2)
        assert "json_schema" in json.dumps(down.requests[0].body)
    assert seen == ["tool"]


async def test_thinking_is_not_forced_to_a_tool() -> None:
    async with Emulator(lambda request: said(request, {"city": "Porto", "days": 2})) as emulator:
        agent = agent_for(
            "anthropic",
            emulator,
            StructuredOutput(Trip, mode="tool"),
            settings=ModelSettings(reasoning_effort="low"),
        )
        await agent.run("go")
        assert "tool_choice" not in emulator.requests[0].body


def reply_maker(text: str) -> Replies:
    return [text] * 9


@every_wire
async def test_what_never_fits_ends_bounded(wire: str) -> None:
    async with Emulator(reply_maker("no")) as emulator:
        with pytest.raises(OutputError) as caught:
            await agent_for(wire, emulator, Trip).run("go")
        assert len(emulator.requests) == 3
    assert caught.value.raw == "no"
