"""A turn whose finish reason is only the word of the vendor behind a gateway, as OpenRouter passes it on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import Agent, ModelAt, RetryOptions, tool
from holdfast.core.messages import Reply, Text, ToolCall
from holdfast.errors import FilteredError, HoldfastError, OutputError, TruncatedError
from holdfast.events import RetryScheduled
from holdfast.testing import FakeClock
from holdfast.testing.emulator import Dress, Emulator

NATIVE = Dress(finish_field="native_finish_reason")
both_ways = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])


@dataclass
class Trip:
    city: str


def ended(word: str, *parts: Any) -> Reply:
    """A reply that ended for a reason of the vendor."""
    return Reply(parts, raw_finish=word)


def gateway_agent(provider: Emulator, **more: Any) -> Agent[Any]:
    model = ModelAt("openrouter:google/gemini-3-pro", base_url=provider.base_url, api_key="k")
    return Agent(model, clock=FakeClock(), retry=RetryOptions(max_retries=1), **more)


async def run(agent: Agent[Any], streamed: bool) -> tuple[Any, list[object]]:
    if not streamed:
        return await agent.run("go"), []
    async with agent.stream("go") as stream:
        items = [item async for item in stream]
    return stream.result, items


@both_ways
@pytest.mark.parametrize("word", ["STOP", "end_turn", "completed"])
async def test_the_word_of_the_vendor_ends_a_turn(word: str, streamed: bool) -> None:
    async with Emulator([ended(word, Text("Hello."))], dress=NATIVE) as provider:
        result, _ = await run(gateway_agent(provider), streamed)
        assert result.output == "Hello."
        assert len(provider.requests) == 1


@both_ways
async def test_a_tool_runs_and_its_result_is_read(streamed: bool) -> None:
    seen: list[str] = []

    @tool(effect="write")
    def book(city: str) -> str:
        """Book."""
        seen.append(city)
        return "booked"

    replies = [
        ended("STOP", ToolCall("1", "book", '{"city": "Porto"}')),
        ended("STOP", Text("Done.")),
    ]
    async with Emulator(replies, dress=NATIVE) as provider:
        result, _ = await run(gateway_agent(provider, tools=[book]), streamed)
    assert (result.output, seen) == ("Done.", ["Porto"])


@both_ways
async def test_a_call_that_was_cut_does_not_run(streamed: bool) -> None:
    @tool(effect="write")
    def book(city: str) -> str:
        """Book."""
        raise AssertionError

    cut = ended("MAX_TOKENS", ToolCall("1", "book", '{"city": "Po'))
    async with Emulator([cut] * 9, dress=NATIVE) as provider:
        with pytest.raises(TruncatedError):
            await run(gateway_agent(provider, tools=[book]), streamed)


@both_ways
@pytest.mark.parametrize(
    ("word", "error"), [("MAX_TOKENS", TruncatedError), ("SAFETY", FilteredError)]
)
async def test_a_reply_that_was_cut_or_filtered_is_no_answer(
    word: str, error: type[HoldfastError], streamed: bool
) -> None:
    async with Emulator([ended(word, Text("Hel"))] * 9, dress=NATIVE) as provider:
        with pytest.raises(error):
            await run(gateway_agent(provider), streamed)


@both_ways
async def test_a_malformed_call_of_the_vendor_is_tried_again(streamed: bool) -> None:
    replies = [ended("MALFORMED_FUNCTION_CALL"), ended("STOP", Text("Hello."))]
    async with Emulator(replies, dress=NATIVE) as provider:
        result, items = await run(gateway_agent(provider), streamed)
        assert result.output == "Hello."
        assert len(provider.requests) == 2
    waits = [item for item in items if isinstance(item, RetryScheduled)]
    assert [one.error.code for one in waits] == (["malformed_function_call"] if streamed else [])


@both_ways
async def test_a_typed_output_that_was_cut_is_told_as_cut(streamed: bool) -> None:
    cut = ended("max_output_tokens", Text('{"city": "Po'))
    whole = ended("STOP", Text('{"city": "Porto"}'))
    for replies, wanted in (([cut] * 9, None), ([whole], Trip("Porto"))):
        async with Emulator(replies, dress=NATIVE) as provider:
            agent = gateway_agent(provider, output=Trip)
            if wanted is None:
                with pytest.raises(OutputError, match="max_tokens"):
                    await run(agent, streamed)
            else:
                assert (await run(agent, streamed))[0].output == wanted


async def test_a_word_that_nobody_knows_is_no_end() -> None:
    replies = [ended("moon_phase", Text("Hel"))] * 9
    broken = Dress(finish_field="native_finish_reason", end_marker=False, usage="never")
    async with Emulator(replies, dress=broken) as provider:
        with pytest.raises(HoldfastError):
            await run(gateway_agent(provider), streamed=True)
    # The end marker after the tokens says that the reply is whole.
    async with Emulator(replies, dress=NATIVE) as provider:
        assert (await run(gateway_agent(provider), streamed=True))[0].output == "Hel"
