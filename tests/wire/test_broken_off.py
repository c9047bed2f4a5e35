"""A stream that breaks off and goes on, over real HTTP: whole text, no repeated word, honest notices."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from holdfast import Agent, Resilience, RetryOptions
from holdfast.core.deltas import TextDelta
from holdfast.core.errors import HoldfastError
from holdfast.core.events import ModelReplied
from holdfast.core.messages import Message
from holdfast.core.model_request import ModelSettings
from holdfast.core.notices import AttemptAbandoned, AttemptStarted, RetryScheduled
from holdfast.models.presets import PRESETS
from holdfast.models.resolve import ModelAt
from holdfast.resilience.hedge.options import HedgeOptions
from holdfast.resilience.system_clock import SystemClock
from holdfast.testing import FakeClock
from holdfast.testing.emulator import (
    DropAfter,
    EmptyChoices,
    EmulatedRequest,
    Emulator,
    ErrorEvent,
    ErrorResponse,
    Fault,
    Html200,
    HttpStatus,
    NoTerminator,
    ResetAfterHeaders,
    SplitEveryByte,
    Stall,
    TruncatedJson,
    call,
    chaos,
    thinking,
)
from holdfast.testing.emulator.script import ReplyLike
from holdfast.transport.port import Timeouts

STORY = "Once upon a time there was a stream,\n\nwhich  broke, and went on."
MODELS = {
    "anthropic": "anthropic:claude-sonnet-4-5",
    "mistral": "mistral:mistral-large-latest",
    "deepseek-beta": "deepseek-beta:deepseek-chat",
    "vllm": "vllm:any",
}
WIRES = {"anthropic": "anthropic"}
RULES = {"anthropic": "openai"}  # which are of the other wire
ON = Resilience(continue_streams=True)
PASSING: tuple[Fault, ...] = (
    *(DropAfter(chunk) for chunk in range(2, 9)),
    *(DropAfter(chunk, reset=False) for chunk in range(2, 9)),
    ErrorEvent(5),
    ErrorEvent(7, "overloaded"),
    NoTerminator(),
    ErrorResponse("rate_limit", {"retry-after": "0"}),
    ErrorResponse("server_error"),
    ResetAfterHeaders(),
    TruncatedJson(),
    Html200(),
    EmptyChoices(),
    SplitEveryByte(),
)


def beginning(request: EmulatedRequest) -> str:
    """What the client wants to be continued."""
    last: Message = request.messages[-1]
    return last.text if last.role == "assistant" else ""


def storyteller(request: EmulatedRequest) -> ReplyLike:
    """Writes the rest of the story, as a model does; Mistral's says the beginning again."""
    begun = beginning(request)
    if not begun:
        return STORY
    assert STORY.startswith(begun)
    assert begun == begun.rstrip()
    return STORY if request.model.startswith("mistral") else STORY[len(begun) :]


def agent_for(emulator: Emulator, provider: str = "anthropic", **more: Any) -> Agent[Any]:
    given: dict[str, Any] = {
        "resilience": ON,
        "clock": FakeClock(),
        "retry": RetryOptions(max_retries=3),
        **more,
    }
    model = given.pop("model", MODELS.get(provider, provider))
    return Agent(
        model,
        base_url=emulator.base_url_for(WIRES.get(provider, "openai_chat")),
        api_key="k",
        **given,
    )


def asked_to_continue(emulator: Emulator) -> list[bool]:
    """Of each request, whether it brought the beginning of its reply."""
    bodies = [entry.body for entry in emulator.requests]
    return [body["messages"][-1]["role"] == "assistant" for body in bodies]  # type: ignore[index]


class Screen:
    """What a reader sees who obeys the notices."""

    def __init__(self) -> None:
        self.text = ""
        self.abandoned = 0
        self.started: list[AttemptStarted] = []
        self.replies: list[ModelReplied] = []

    def item(self, item: object) -> None:
        match item:
            case AttemptStarted():
                self.started.append(item)
            case AttemptAbandoned():
                self.abandoned += 1
                self.text = ""
            case TextDelta(text=text):
                self.text += text
            case ModelReplied():
                self.replies.append(item)
            case _:
                pass


async def watched(agent: Agent[Any], screen: Screen | None = None) -> tuple[Any, Screen]:
    screen = screen or Screen()
    async with agent.stream("Tell me.") as run:
        async for item in run:
            screen.item(item)
    return run.result, screen


async def chunks_of(provider: str) -> int:
    async with Emulator(storyteller, dress=RULES.get(provider, provider)) as emulator:
        await watched(agent_for(emulator, provider))
        return emulator.requests[0].chunks


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("provider", MODELS)
async def test_a_drop_at_each_chunk_costs_no_word_and_repeats_none(provider: str) -> None:
    continued = 0
    total = await chunks_of(provider)
    for chunk in range(total):
        for reset in (True, False):
            broken = Emulator(
                storyteller,
                faults=[DropAfter(chunk, reset=reset)],
                dress=RULES.get(provider, provider),
            )
            async with broken as emulator:
                result, screen = await watched(agent_for(emulator, provider))
            assert result.output == STORY
            assert screen.text == STORY
            # A text whose finish reason came, and not its end marker, needs no more: it is repeated.
            assert screen.abandoned == 0 or chunk >= total - 3
            reply = screen.replies[0].reply
            continued += reply.continued
            assert not [entry.problem for entry in emulator.requests if entry.problem]
            if reply.continued:
                assert [notice.continues for notice in screen.started] == [False, True]
                assert asked_to_continue(emulator) == [False, True]
    assert continued > 10


@pytest.mark.parametrize("provider", MODELS)
async def test_a_reply_that_is_not_streamed_is_asked_for_again(provider: str) -> None:
    async with Emulator(storyteller, faults=[DropAfter(1)]) as emulator:
        result = await agent_for(emulator, provider).run("Tell me.")
    assert result.output == STORY
    assert asked_to_continue(emulator) == [False, False]


async def test_a_text_that_breaks_at_every_attempt_is_completed() -> None:
    faults = [DropAfter(6), DropAfter(6), DropAfter(6)]
    async with Emulator(storyteller, faults=faults) as emulator:
        result, screen = await watched(agent_for(emulator))
    assert (result.output, screen.text, screen.abandoned) == (STORY, STORY, 0)
    assert screen.replies[0].reply.continued == 3
    assert screen.replies[0].attempts == 4


@pytest.mark.parametrize(
    "fault",
    [ErrorEvent(6, "overloaded"), Stall(after=6, seconds=30)],
    ids=lambda fault: type(fault).__name__,
)
async def test_other_ways_to_break_off_are_continued_too(fault: Any) -> None:
    hasty = Timeouts(between_chunks=0.2)
    async with Emulator(storyteller, faults=[fault]) as emulator:
        result, screen = await watched(agent_for(emulator, timeouts=hasty))
    assert (result.output, screen.text, screen.abandoned) == (STORY, STORY, 0)


async def test_a_text_to_which_nothing_is_added_is_asked_for_again() -> None:
    # All of it had come but its end; "no more text" and "an empty reply" look the same.
    async with Emulator(storyteller, faults=[NoTerminator()]) as emulator:
        result, screen = await watched(agent_for(emulator))
        assert asked_to_continue(emulator) == [False, True, False]
    assert (result.output, screen.text, screen.abandoned) == (STORY, STORY, 1)


async def test_a_refusal_between_the_halves_loses_nothing() -> None:
    faults: list[Fault] = [DropAfter(6), ErrorResponse("overloaded"), ErrorResponse("rate_limit")]
    async with Emulator(storyteller, faults=faults) as emulator:
        result, screen = await watched(agent_for(emulator))
    assert (result.output, screen.text, screen.abandoned) == (STORY, STORY, 0)
    assert screen.replies[0].reply.continued == 1


async def test_a_model_that_refuses_to_continue_is_asked_again_and_costs_no_retry() -> None:
    refusal = {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "This model does not support assistant message prefill.",
        },
    }
    faults: list[Fault] = [DropAfter(6), HttpStatus(400, {}, refusal), DropAfter(6)]
    async with Emulator(storyteller, faults=faults) as emulator:
        made = agent_for(emulator, retry=RetryOptions(max_retries=2))
        result, screen = await watched(made)
    assert (result.output, screen.text) == (STORY, STORY)
    assert screen.abandoned == 2
    assert asked_to_continue(emulator) == [
        False, True, False, False,
    ]  # fmt: skip


async def test_without_the_setting_it_is_repeated_as_ever() -> None:
    async with Emulator(storyteller, faults=[DropAfter(6)]) as emulator:
        result, screen = await watched(agent_for(emulator, resilience=Resilience()))
    assert (result.output, screen.text, screen.abandoned) == (STORY, STORY, 1)
    assert screen.replies[0].reply.continued == 0


@pytest.mark.parametrize(
    ("provider", "more"),
    [
        ("openai:gpt-5.2", {}),
        ("deepseek:deepseek-chat", {}),
        ("anthropic", {"model": "anthropic:claude-opus-4-6"}),
        ("anthropic", {"settings": ModelSettings(reasoning_effort="low")}),
    ],
)
async def test_who_cannot_continue_repeats(provider: str, more: dict[str, Any]) -> None:
    async with Emulator(storyteller, faults=[DropAfter(6)]) as emulator:
        result, screen = await watched(agent_for(emulator, provider, **more))
    assert (result.output, screen.text, screen.abandoned) == (STORY, STORY, 1)


@pytest.mark.parametrize("reply", [[STORY, call("pay")], [thinking("Let me see."), STORY]])
async def test_a_call_or_a_thought_is_not_continued(reply: Any) -> None:
    def choose_reply(request: EmulatedRequest) -> ReplyLike:
        assert not beginning(request)
        return reply if request.number < 3 else STORY

    def pay() -> str:
        """Pay."""
        return "paid"

    async with Emulator(choose_reply) as emulator:
        await watched(agent_for(emulator, tools=[pay]))
        last = emulator.requests[0].chunks - 3
    async with Emulator(choose_reply, faults=[DropAfter(last)]) as emulator:
        result, screen = await watched(agent_for(emulator, tools=[pay]))
    assert STORY in result.text
    assert screen.abandoned == 1


async def test_after_the_last_retry_the_text_is_abandoned_and_stored_on_the_error() -> None:
    faults = [DropAfter(6), DropAfter(6)]
    screen = Screen()
    async with Emulator(storyteller, faults=faults) as emulator:
        made = agent_for(emulator, retry=RetryOptions(max_retries=1))
        with pytest.raises(HoldfastError) as caught:
            await watched(made, screen)
    assert (screen.text, screen.abandoned) == ("", 1)
    partial = caught.value.partial
    assert partial is not None
    assert partial.continued == 1
    assert STORY.startswith(partial.text)
    assert len(partial.text) > len(STORY) // 3


async def test_a_refusal_in_the_end_keeps_what_was_there() -> None:
    faults: list[Fault] = [DropAfter(6), ErrorResponse("bad_key")]
    async with Emulator(storyteller, faults=faults) as emulator:
        with pytest.raises(HoldfastError) as caught:
            await watched(agent_for(emulator))
    assert caught.value.partial is not None
    assert STORY.startswith(caught.value.partial.text)


async def test_a_fallback_begins_anew() -> None:
    async with Emulator([STORY], faults=[DropAfter(6)]) as emulator:
        other = ModelAt(MODELS["deepseek-beta"], base_url=emulator.base_url, api_key="k")
        none = RetryOptions(max_retries=0)
        result, screen = await watched(agent_for(emulator, retry=none, fallback=[other]))
        assert asked_to_continue(emulator) == [False, False]
    assert (result.output, screen.text, screen.abandoned) == (STORY, STORY, 1)


async def test_a_run_that_is_cancelled_while_it_waits_keeps_the_partial_text() -> None:
    shown = ""
    async with Emulator(storyteller, faults=[DropAfter(6)]) as emulator:
        slow = RetryOptions(retry_delay=60.0)
        made = agent_for(emulator, retry=slow, clock=SystemClock())
        async with made.stream("Tell me.", session="s") as run:
            async for item in run:
                shown += item.text if isinstance(item, TextDelta) else ""
                if isinstance(item, RetryScheduled):
                    break
        again = await made.run("And then?", session="s")
    assert shown
    assert any(shown in message.text for message in again.messages)


async def test_a_hedge_continues_the_same_text() -> None:
    both = msgspec.structs.replace(ON, hedge=HedgeOptions(delay=0.001))
    async with Emulator(storyteller, faults=[DropAfter(6)]) as emulator:
        result, screen = await watched(agent_for(emulator, resilience=both))
    assert (result.output, screen.text, screen.abandoned) == (STORY, STORY, 0)


async def test_the_answer_after_tools_is_continued_and_no_tool_runs_again() -> None:
    ran: list[str] = []

    def look(city: str) -> str:
        """Look."""
        ran.append(city)
        return f"sunny in {city}"

    def choose_reply(request: EmulatedRequest) -> ReplyLike:
        if beginning(request):
            return storyteller(request)
        results = [message for message in request.messages if message.role == "tool"]
        return STORY if results else ["I look. ", call("look", {"city": "Porto"})]

    faults = [None, DropAfter(6), DropAfter(7)]
    async with Emulator(choose_reply, faults=faults) as emulator:
        result, screen = await watched(agent_for(emulator, tools=[look]))
        assert asked_to_continue(emulator) == [False, False, True, True]
    assert (result.output, ran, screen.abandoned) == (STORY, ["Porto"], 0)
    assert screen.text == f"I look. {STORY}"
    assert [event.reply.continued for event in screen.replies] == [0, 2]


async def test_the_next_turn_sees_one_whole_text() -> None:
    def choose_reply(request: EmulatedRequest) -> ReplyLike:
        return (
            "Good night."
            if request.text == "Tell me." and len(request.messages) > 3
            else storyteller(request)
        )

    async with Emulator(choose_reply, faults=[DropAfter(6)]) as emulator:
        made = agent_for(emulator)
        async with made.stream("Tell me.", session="s") as run:
            await run.wait()
        await made.run("Tell me.", session="s")
        body = emulator.requests[-1].body
    assert isinstance(body, dict)
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert STORY in str(body["messages"][1]["content"]).replace("\\n", "\n")


@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-sonnet-5", "claude-fable-5"])
async def test_a_model_that_is_known_to_refuse_is_not_even_asked(model: str) -> None:
    async with Emulator(storyteller, faults=[DropAfter(6)]) as emulator:
        result, _ = await watched(agent_for(emulator, model=f"anthropic:{model}"))
        assert [entry.status for entry in emulator.requests if entry.problem] == []
        assert asked_to_continue(emulator) == [False, False]
    assert result.output == STORY


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("seed", range(4, 12))
@pytest.mark.parametrize("provider", MODELS)
async def test_whatever_goes_wrong_a_reader_has_the_story_once(provider: str, seed: int) -> None:
    patient = msgspec.structs.replace(ON, budget=None, breaker=None)
    spoiled = chaos(seed=seed, share=0.7, faults=PASSING)
    async with Emulator(storyteller, faults=spoiled) as emulator:
        handling = RetryOptions(max_retries=60)
        made = agent_for(emulator, provider, resilience=patient, retry=handling)
        result, screen = await watched(made)
    assert (result.output, screen.text) == (STORY, STORY)
    assert screen.replies[0].reply.text == STORY


async def test_many_at_once_are_not_mixed_up() -> None:
    def odd(request: EmulatedRequest) -> DropAfter | None:
        return DropAfter(request.number % 9 + 2) if request.number % 2 else None

    async with Emulator(storyteller, faults=odd) as emulator:
        made = agent_for(emulator, retry=RetryOptions(max_retries=20))
        done = await asyncio.gather(*(watched(made) for _ in range(20)))
    assert {screen.text for _, screen in done} == {STORY}


def test_the_setting_is_described_and_checked() -> None:
    with pytest.raises(HoldfastError, match=r"resilience\.continue_streams: must be True or False"):
        Resilience(continue_streams="yes")  # type: ignore[arg-type]
    shown = Agent("anthropic:claude-sonnet-4-5", api_key="k", resilience=ON).describe()
    assert "continue_streams=True" in shown
    assert PRESETS["anthropic"].profile.prefill
