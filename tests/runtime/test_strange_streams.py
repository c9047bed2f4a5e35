"""Habits of endpoints over real HTTP: what runs, what a reader is shown, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest

from holdfast import Agent, tool
from holdfast.codecs.endpoint_profile import ProfileChanges
from holdfast.core.deltas import ReasoningDelta, TextDelta, ToolCallDelta
from holdfast.core.errors import NoTextError
from holdfast.core.notices import ReplyReplaced
from holdfast.event_log.display.display_fold import DisplayFold
from holdfast.event_log.display.display_items import (
    CallArgumentsShown,
    CallReady,
    DisplayItem,
    StepWithdrawn,
)
from holdfast.testing import Emulator, FakeClock
from holdfast.testing.emulator import RepeatedArguments, call
from holdfast.testing.emulator.script import ReplyLike

Form = Literal["cumulative", "again"]


@dataclass
class Trip:
    city: str
    days: int


@tool
def book(city: str, days: int) -> str:
    """Book a trip."""
    return f"{days} days in {city}"


ARGUMENTS = '{"city":"Porto","days":3}'


def repeating(form: Form) -> Emulator:
    replies: list[ReplyLike] = [call("book", {"city": "Porto", "days": 3}), "Booked."]
    return Emulator(replies, faults=lambda _: RepeatedArguments(form), chunking=4)


@pytest.mark.parametrize("form", ["cumulative", "again"])
async def test_repeated_arguments_run_once_and_readers_are_corrected(form: Form) -> None:
    """Such a stream took ten model calls, and then the turn ended at its limit."""
    async with repeating(form) as provider:
        agent = Agent("openai:m", base_url=provider.base_url, api_key="k", tools=[book])
        async with agent.stream("Go") as run:
            items = [item async for item in run]
        assert len(provider.requests) == 2
    assert run.result.output == "Booked."
    (replaced,) = [at for at, item in enumerate(items) if isinstance(item, ReplyReplaced)]
    after = [item.arguments for item in items[replaced:] if isinstance(item, ToolCallDelta)]
    assert "".join(after) == ARGUMENTS


@pytest.mark.parametrize("form", ["cumulative", "again"])
async def test_a_page_shows_the_arguments_that_run(form: Form) -> None:
    fold = DisplayFold("s")
    shown: list[DisplayItem] = []
    async with repeating(form) as provider:
        agent = Agent("openai:m", base_url=provider.base_url, api_key="k", tools=[book])
        async with agent.stream("Go") as run:
            async for item in run:
                shown += fold.feed_run(item)
    (ready,) = [at for at, item in enumerate(shown) if isinstance(item, CallReady)]
    first = [at for at, item in enumerate(shown[:ready]) if isinstance(item, StepWithdrawn)]
    streamed = [
        item.text for item in shown[first[-1] : ready] if isinstance(item, CallArgumentsShown)
    ]
    assert "".join(streamed) in ("", ARGUMENTS)
    assert shown[ready].arguments == ARGUMENTS


@pytest.mark.parametrize("form", ["cumulative", "again"])
async def test_the_last_preview_of_an_output_is_its_value(form: Form) -> None:
    async with Emulator(
        lambda request: call(request.tools[0].name, {"city": "Porto", "days": 3}),
        faults=lambda _: RepeatedArguments(form),
        chunking=4,
    ) as provider:
        agent = Agent("groq:m", base_url=provider.base_url, api_key="k", output=Trip)
        async with agent.stream("Go") as run:
            previews = [preview async for preview in run.partials()]
    assert previews[-2:] == [None, {"city": "Porto", "days": 3}]
    assert run.result.output == Trip("Porto", 3)


async def test_thinking_in_tags_is_streamed_as_reasoning() -> None:
    text = "<think>\nTwo and two.\n</think>\n\nFour."
    async with Emulator([text], chunking=3) as provider:
        agent = Agent("vllm:qwen3", base_url=provider.base_url)
        async with agent.stream("2+2?") as run:
            items = [item async for item in run]
    assert run.result.output == "Four."
    assert "".join(item.text for item in items if isinstance(item, TextDelta)) == "Four."
    thoughts = [item.text for item in items if isinstance(item, ReasoningDelta)]
    assert "".join(thoughts) == "Two and two.\n"
    assert len(thoughts) > 2


async def test_thinking_is_not_sent_back_and_is_no_part_of_a_typed_output() -> None:
    thought = '<think>Maybe {"city": "Faro"}.</think>'
    replies = [f"{thought}Porto.", f'{thought}{{"city": "Porto", "days": 3}}']
    async with Emulator(replies) as provider:
        agent = Agent("llamacpp:qwen3", base_url=provider.base_url)
        first = await agent.run("Where?")
        second = await agent.run("How long?", history=first.messages, output=Trip)
    assert second.output == Trip("Porto", 3)
    assert "Faro" not in str(provider.requests[1].body)


async def test_thinking_that_is_never_closed_is_asked_for_again() -> None:
    async with Emulator(["<think>Is it four?", "<think>Yes.</think>Four."]) as provider:
        agent = Agent("lmstudio:qwen3", base_url=provider.base_url, clock=FakeClock())
        result = await agent.run("2+2?")
        assert (result.output, len(provider.requests)) == ("Four.", 2)
    async with Emulator(lambda _: "<think>Is it four?") as provider:
        agent = Agent("ollama:qwen3", base_url=provider.base_url, clock=FakeClock())
        with pytest.raises(NoTextError, match="only reasoning"):
            await agent.run("2+2?")


HERMES: ProfileChanges = {"text_calls": "hermes"}
IN_TEXT = 'I book it.\n<tool_call>\n{"name": "book", "arguments": {"city": "Porto", "days": 3}}\n</tool_call>'


@pytest.mark.parametrize("live", [True, False])
async def test_a_call_in_the_text_runs(*, live: bool) -> None:
    async with Emulator([IN_TEXT, "Booked."], chunking=5) as provider:
        agent = Agent("vllm:m", base_url=provider.base_url, profile=HERMES, tools=[book])
        if live:
            async with agent.stream("Go") as run:
                texts = [item.text async for item in run if isinstance(item, TextDelta)]
            assert "".join(texts) == "I book it.\nBooked."
            result = run.result
        else:
            result = await agent.run("Go")
        sent = provider.requests[1].body["messages"]  # type: ignore[index]  # a body of Chat Completions
    assert result.output == "Booked."
    assert sent[1]["content"] == "I book it.\n"
    assert sent[1]["tool_calls"][0]["function"]["name"] == "book"
    assert sent[2]["content"] == "3 days in Porto"


async def test_a_call_in_the_text_that_is_cut_does_not_run() -> None:
    ran: list[str] = []

    @tool
    def note(text: str) -> str:
        """Note a text."""
        ran.append(text)
        return "Noted."

    cut = '<tool_call>{"name": "note", "arguments": {"text": "a"}'
    async with Emulator([cut, "I could not."]) as provider:
        agent = Agent("vllm:m", base_url=provider.base_url, profile=HERMES, tools=[note])
        result = await agent.run("Go")
        assert "not valid JSON" in str(provider.requests[1].body)
    assert (result.output, ran) == ("I could not.", [])


async def test_previews_are_right_where_the_profile_names_the_repetitions() -> None:
    profile: ProfileChanges = {"repeats_arguments": True, "output_mode": "tool"}
    async with Emulator(
        lambda request: call(request.tools[0].name, {"city": "Porto", "days": 3}),
        faults=lambda _: RepeatedArguments(),
        chunking=4,
    ) as provider:
        agent = Agent("vllm:m", base_url=provider.base_url, profile=profile, output=Trip)
        async with agent.stream("Go") as run:
            previews = [preview async for preview in run.partials()]
    assert run.result.output == Trip("Porto", 3)
    cities = [preview["city"] for preview in previews if "city" in preview]  # type: ignore[operator, index]  # an object
    assert cities
    assert all("Porto".startswith(city) for city in cities)
