"""A turn on every wire, streamed or not: tools at once, thoughts that go back as they came, sessions."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from tests.wire.rig import ANSWER, MODES, Seen, agent_for, forecaster, turn

from holdfast import tool
from holdfast.core.messages import Message, Opaque, Reasoning, ToolResult
from holdfast.testing.emulator import EmulatedRequest, Emulator, ReusedToolIds, call, thinking
from holdfast.testing.emulator.script import ReplyLike
from holdfast.testing.emulator.wires.emulator_wire import WIRES
from holdfast.testing.emulator.wires.history_parts import sign_text

pytestmark = [pytest.mark.parametrize("wire", WIRES), pytest.mark.parametrize("mode", MODES)]

# A provider of the Chat Completions wire that wants its thoughts back.
THINKER = {"openai_chat": "deepseek:deepseek-reasoner"}
GIVEN = "c2VhbGVkIHN0YXRlIC8rPQ=="


def state(message: Message) -> list[object]:
    """What the provider gets back of its own state with a reply that called tools."""
    thoughts = [part for part in message.parts if isinstance(part, Reasoning)]
    signed = [call.extra.get("thoughtSignature") for call in message.calls if call.extra]
    return [*(part.signature or part.text for part in thoughts), *filter(None, signed)]


async def test_two_tools_run_at_once_and_their_results_come_back_in_order(
    wire: str, mode: str
) -> None:
    together = asyncio.Barrier(2)
    ended: list[str] = []

    @tool(effect="read")
    async def weather(city: str) -> str:
        """Current weather in a city."""
        async with asyncio.timeout(60):
            await together.wait()
        if city == "Porto":
            while not ended:
                await asyncio.sleep(0)
        ended.append(city)
        return f"sunny in {city}"

    async with Emulator(forecaster) as emulator:
        result = await turn(agent_for(wire, emulator, tools=[weather]), mode)
        request = emulator.requests[1]
    assert ended == ["Faro", "Porto"]
    assert result.output == ANSWER
    assert request.status == 200
    assert [message.role for message in result.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    results = [part.text for part in result.messages[2].parts if isinstance(part, ToolResult)]
    assert results == ["sunny in Porto", "sunny in Faro"]


@pytest.mark.parametrize("signature", [None, GIVEN])
async def test_thoughts_go_back_as_they_came(wire: str, mode: str, signature: str | None) -> None:
    got: list[object] = []

    def choose_reply(request: EmulatedRequest) -> ReplyLike:
        if not request.tool_results:
            return [
                Reasoning("I must look.", signature),
                "Look: ",
                call("weather", {"city": "Faro"}),
            ]
        got.extend(state(request.messages[-2]))
        return "Done."

    async with Emulator(choose_reply) as emulator:
        agent = agent_for(wire, emulator, model=THINKER.get(wire, ""))
        result = await turn(agent, mode)
        problems = [entry.problem for entry in emulator.requests]
    assert result.output == "Done."
    assert problems == ["", ""]
    made = {
        "openai_chat": ["I must look."],
        "openai_responses": [signature or sign_text("rs_emulated_1_0:I must look.")],
        "anthropic": [signature or sign_text("I must look.")],
        "gemini": [signature or sign_text('weather({"city":"Faro"})')],
    }
    assert got == made[wire]


async def test_state_of_many_turns_goes_back_as_it_came(wire: str, mode: str) -> None:
    seen: list[list[list[object]]] = []

    def choose_reply(request: EmulatedRequest) -> ReplyLike:
        replies = [message for message in request.messages if message.role == "assistant"]
        seen.append([state(message) for message in replies])
        return forecaster(request)

    async with Emulator(choose_reply) as emulator:
        agent = agent_for(wire, emulator, model=THINKER.get(wire, ""))
        for _ in range(3):
            assert (await turn(agent, mode, session="alice")).output == ANSWER
        assert [entry.problem for entry in emulator.requests] == [""] * 6
    for before, after in pairwise(seen):
        assert after[: len(before)] == before
    assert len(seen[-1]) == 5


async def test_an_unknown_block_is_sent_back_unchanged(wire: str, mode: str) -> None:
    if wire == "openai_chat":
        pytest.skip("this wire has no blocks")
    block: dict[str, dict[str, Any]] = {
        "anthropic": {"type": "server_tool_use", "id": "srv_1", "name": "x", "input": {"q": [1]}},
        "openai_responses": {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        "gemini": {"executableCode": {"language": "PYTHON", "code": "1+1"}},
    }
    got: list[Opaque] = []

    def choose_reply(request: EmulatedRequest) -> ReplyLike:
        if not request.tool_results:
            return [Opaque(wire, block[wire]), call("weather", {"city": "Faro"})]
        got.extend(part for part in request.messages[-2].parts if isinstance(part, Opaque))
        return "Done."

    async with Emulator(choose_reply) as emulator:
        assert (await turn(agent_for(wire, emulator), mode)).output == "Done."
    assert got == [Opaque(wire, block[wire])]


async def test_ids_that_repeat_in_every_reply_are_distinguished(wire: str, mode: str) -> None:
    seen = Seen()
    async with Emulator(forecaster, faults=lambda request: ReusedToolIds()) as emulator:
        agent = agent_for(wire, emulator, seen)
        for _ in range(3):
            assert (await turn(agent, mode, session="alice")).output == ANSWER
        assert [entry.problem for entry in emulator.requests] == [""] * 6
    assert sorted(seen.ran) == ["Faro"] * 3 + ["Porto"] * 3


async def test_a_call_that_a_reply_has_twice_runs_once_and_the_history_is_accepted(
    wire: str, mode: str
) -> None:
    def choose_reply(request: EmulatedRequest) -> ReplyLike:
        if request.tool_results:
            return " and ".join(result.text for result in request.tool_results)
        return [call("weather", {"city": "Porto"}, id="call_7")] * 2

    seen = Seen()
    async with Emulator(choose_reply) as emulator:
        agent = agent_for(wire, emulator, seen)
        for _ in range(2):
            result = await turn(agent, mode, session="alice")
            assert result.output == "sunny in Porto and sunny in Porto"
        assert [entry.problem for entry in emulator.requests] == [""] * 4
    assert seen.ran == ["Porto"] * 2


async def test_a_failed_tool_is_reported_and_can_be_called_again(wire: str, mode: str) -> None:
    calls: list[str] = []

    @tool(effect="read")
    def weather(city: str) -> str:
        """Current weather in a city."""
        calls.append(city)
        if len(calls) < 3:
            raise ValueError("no such city")
        return f"sunny in {city}"

    async with Emulator(forecaster) as emulator:
        result = await turn(agent_for(wire, emulator, tools=[weather]), mode)
    assert result.output == ANSWER


@dataclass
class Trip:
    city: str
    days: int


async def test_an_answer_of_a_type_is_mended_by_the_model(wire: str, mode: str) -> None:
    said = ['{"city": "Porto", "days": "many"}', '{"city": "Porto", "days": 3}']
    async with Emulator(said) as emulator:
        result = await turn(agent_for(wire, emulator, tools=[], output=Trip), mode)
    assert result.output == Trip("Porto", 3)


async def test_instructions_and_tools_reach_the_model(wire: str, mode: str) -> None:
    seen: list[EmulatedRequest] = []

    def choose_reply(request: EmulatedRequest) -> ReplyLike:
        seen.append(request)
        return [thinking("Hm."), "Yes."]

    async with Emulator(choose_reply) as emulator:
        await turn(agent_for(wire, emulator, instructions="Be brief."), mode)
    (request,) = seen
    assert request.messages[0].text == "Be brief."
    assert request.messages[0].role == "system"
    assert [one.name for one in request.tools] == ["weather"]
    assert request.tools[0].schema["properties"] == {"city": {"type": "string"}}
    assert request.stream == (mode == "streamed")
