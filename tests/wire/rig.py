"""An agent with a tool against an emulator, on every wire, and one word for what came of a turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from holdfast import Agent, tool
from holdfast.core.deltas import TextDelta
from holdfast.core.errors import HoldfastError
from holdfast.core.messages import ToolResult
from holdfast.core.notices import AttemptAbandoned, AttemptStarted, ReplyReplaced
from holdfast.core.turn_history import WITHHELD_TEXT
from holdfast.models.refusals import REFUSALS, STREAM
from holdfast.resilience.retry.options import RetryOptions
from holdfast.runtime.result import Result
from holdfast.testing import FakeClock
from holdfast.testing.emulator import EmulatedRequest, Emulator, call, thinking
from holdfast.testing.emulator.script import Replies, ReplyLike
from holdfast.transport.port import Timeouts

MODELS = {
    "openai_chat": "openai:gpt-5.2",
    "openai_responses": "openai-responses:gpt-5.2",
    "anthropic": "anthropic:claude-sonnet-4-5",
    "gemini": "gemini:gemini-3-pro",
}
MODES = ("whole", "streamed")
QUESTION = "What is the weather in Porto and Faro?"
FIRST = "Let me look. "
ANSWER = "It is sunny in Porto and sunny in Faro."
WITHHELD = f"It is {WITHHELD_TEXT} and {WITHHELD_TEXT}."

PATIENT = Timeouts(connect=20.0, first_byte=20.0, between_chunks=20.0, total=60.0)
HASTY = Timeouts(connect=20.0, first_byte=1.0, between_chunks=0.5, total=1.5)


def forecaster(request: EmulatedRequest) -> ReplyLike:
    """Thinks, says a word, asks for two tools at once, again when one failed, and then answers."""
    results = request.tool_results
    if not results or any(result.text.startswith("Error") for result in results):
        calls = [call("weather", {"city": city}) for city in ("Porto", "Faro")]
        return [thinking("I must look."), FIRST, *calls]
    said = " and ".join(result.text for result in results)
    return [thinking("Now I know."), f"It is {said}."]


@dataclass
class Seen:
    """What happened besides the answer."""

    ran: list[str] = field(default_factory=list)
    shown: str = ""


def agent_for(
    wire: str,
    emulator: Emulator,
    seen: Seen | None = None,
    *,
    timeouts: Timeouts = PATIENT,
    model: str = "",
    **more: Any,
) -> Agent[Any]:
    """An agent with a `weather` tool, that waits for nothing."""
    ran = seen.ran if seen is not None else []

    @tool(effect="read")
    async def weather(city: str) -> str:
        """Current weather in a city."""
        ran.append(city)
        return f"sunny in {city}"

    given: dict[str, Any] = {"tools": [weather], "clock": FakeClock(), **more}
    return Agent(
        model or MODELS[wire],
        base_url=emulator.base_url_for(wire),
        api_key="k",
        timeouts=timeouts,
        **given,
    )


def want_whole_replies(agent: Agent[Any]) -> None:
    """Let the agent send requests that are not streamed, as to an endpoint that refused to stream."""
    model = agent._engine.plan.model
    REFUSALS.learn(model.account, model.model, {STREAM: ""})


async def turn(agent: Agent[Any], mode: str, seen: Seen | None = None, **more: Any) -> Result[Any]:
    """One turn, watched or not; what a subscriber who obeys the notices would have on screen."""
    if mode == "whole":
        want_whole_replies(agent)
        return await agent.run(QUESTION, **more)
    kept = fresh = ""
    async with agent.stream(QUESTION, **more) as run:
        async for item in run:
            match item:
                case AttemptStarted():
                    kept, fresh = kept + fresh, ""
                case AttemptAbandoned() | ReplyReplaced():
                    fresh = ""
                case TextDelta(text=text):
                    fresh += text
                case _:
                    pass
        if seen is not None:
            seen.shown = kept + fresh
        return run.result


async def outcome(
    wire: str,
    mode: str,
    faults: Any,
    *,
    timeouts: Timeouts = PATIENT,
    retries: int = 3,
    choose_reply: Replies = forecaster,
) -> str:
    """What a turn came to, in a word; whatever is not as it must be, in more.

    "intact": nobody noticed anything. "retried": the same request was sent again. "told": the model
    was told what was wrong with its calls. "withheld": the same request was sent again without the
    results. "raises <category>": the turn failed.
    """
    seen = Seen()
    handling = RetryOptions(max_retries=retries)
    async with Emulator(choose_reply, faults=faults) as emulator:
        agent = agent_for(wire, emulator, seen, timeouts=timeouts, retry=handling)
        try:
            result = await turn(agent, mode, seen)
        except HoldfastError as error:
            said = f"raises {error.info.category.value}"
            return said if len(seen.ran) in (0, 2) else f"{said}, and ran {seen.ran}"
        refused = [entry.problem for entry in emulator.requests if entry.problem]
        requests = len(emulator.requests)
    if requests == 3 and result.output == WITHHELD:
        return "withheld"
    told = _told(result)
    wrong = [
        *([f"said {result.output!r}"] if result.output != ANSWER else []),
        *([f"ran {seen.ran}"] if sorted(seen.ran) != ["Faro", "Porto"] else []),
        *([f"was refused: {refused}"] if refused else []),
        *([] if result.usage.total else ["counted no tokens"]),
        *([] if mode == "whole" or seen.shown == _shown(told) else [f"showed {seen.shown!r}"]),
    ]
    if wrong:
        return ", ".join(wrong)
    return "told" if told else "intact" if requests == 2 else "retried"


def _told(result: Result[Any]) -> bool:
    results = [
        part
        for message in result.messages
        for part in message.parts
        if isinstance(part, ToolResult)
    ]
    return any(part.is_error for part in results)


def _shown(told: bool) -> str:
    return FIRST * (2 if told else 1) + ANSWER
