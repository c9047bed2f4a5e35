"""Records the golden journals: `python -m tests.golden.record NAME`. A recorded file is never written again."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import msgspec
from pydantic import Field
from typing_extensions import TypedDict

from holdfast import (
    Agent,
    Limits,
    Media,
    MemoryJournal,
    OutputRejected,
    SqliteJournal,
    StructuredOutput,
    tool,
    user,
)
from holdfast.core.errors import ErrorCategory, ErrorInfo, HoldfastError, ProviderError
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import FinishReason, Reasoning, Reply, Text, ToolCall, Usage
from holdfast.journal.encoding import encode, to_line
from holdfast.journal.port import Record
from holdfast.models import Prices
from holdfast.testing import FakeClock, ScriptedModel

FOLDER = Path(__file__).parent / "journals"


@tool(effect="read")
async def weather(city: str) -> str:
    """Weather in a city."""
    return f"{city}: sunny, 21 °C"


@tool(effect="write")
async def pay(amount: int) -> str:
    """Pay."""
    raise ValueError("no money")


async def answer(journal: MemoryJournal, clock: FakeClock) -> None:
    agent = Agent(ScriptedModel("Hello, Ada!", "As I said: Ada."), journal=journal, clock=clock)
    await agent.run("I am Ada. \U0001f44b", session="golden")
    clock.advance(3600)
    await agent.run("Who am I?", session="golden")


async def tools(journal: MemoryJournal, clock: FakeClock) -> None:
    thinking = Reply(
        (
            Reasoning("They want two cities.", "sig=", "anthropic", {"id": "r1"}),
            Text("Looking."),
            ToolCall("a", "weather", '{"city": "Porto"}', "anthropic", {"index": 0}),
            ToolCall("b", "weather", '{"city": "Faro"}'),
            ToolCall("c", "pay", '{"amount": 3}'),
        ),
        finish=FinishReason.TOOL_CALLS,
        usage=Usage(120, 40, 100, reasoning=12),
        model="golden-1",
        id="reply-1",
    )
    agent = Agent(
        ScriptedModel(thinking, "Both sunny; the payment failed."),
        tools=[weather, pay],
        journal=journal,
        clock=clock,
    )
    await agent.run(user("Weather?", Media("image/png", data=b"\x89PNG\x00\xff")), session="golden")


async def failures(journal: MemoryJournal, clock: FakeClock) -> None:
    down = ErrorInfo(category=ErrorCategory.AUTH_ERROR, safe="golden: 401 bad key", status=401)
    call = ToolCall("x", "weather", '{"city": "Porto"}')
    agent = Agent(
        ScriptedModel(ProviderError("401", info=down), call, call, "Fine again."),
        tools=[weather],
        journal=journal,
        clock=clock,
    )
    for prompt, limits in (("one", Limits()), ("two", Limits(iterations=2)), ("three", Limits())):
        try:
            await agent.run(prompt, session="golden", limits=limits)
        except HoldfastError:
            clock.advance(1)


async def costs(journal: MemoryJournal, clock: FakeClock) -> None:
    """A fallback, an agent in a tool, a model without a price, and a limit that is reached."""
    table = {
        "first": {"input": "10", "output": "100", "cached_input": "1"},
        "second": {"input": "0.15", "output": "0.6", "tiers": {"flex": {"input": "0.1"}}},
    }
    down = ErrorInfo(category=ErrorCategory.AUTH_ERROR, safe="golden: 401 bad key", status=401)
    part = Reply((Text("Half"),), usage=Usage(100, 3, 40), model="first")
    usage = Usage(1000, 7, cache_write=20, cache_write_1h=5, audio_input=3, audio_output=1)
    asks = ToolCall("x", "scout", '{"task": "Look."}')
    replies = [
        Reply((asks,), finish=FinishReason.TOOL_CALLS, usage=usage, model="second"),
        Reply((Text("Done."),), usage=Usage(1000, 7), model="second", tier="flex"),
        Reply((Text("New."),), usage=Usage(9, 9), model="third"),
        Reply((asks,), finish=FinishReason.TOOL_CALLS, usage=Usage(9, 50), model="second"),
    ]
    scout = Agent(
        ScriptedModel(*[Reply((Text("."),), usage=Usage(7, 2), model="first")] * 9), name="scout"
    )
    agent = Agent(
        ScriptedModel(*[ProviderError("401", info=down, partial=part)] * 9, name="a:first"),
        fallback=[ScriptedModel(*replies, name="b:second")],
        tools=[scout.as_tool()],
        prices=Prices({**table, "model": table["second"]}),
        journal=journal,
        clock=clock,
    )
    for prompt, limits in (("one", Limits()), ("two", Limits()), ("three", Limits(cost="0.0004"))):
        try:
            await agent.run(prompt, session="golden", limits=limits)
        except HoldfastError:
            clock.advance(1)


class Digit(TypedDict):
    """A digit."""

    digit: Annotated[int, Field(ge=0, le=9)]


async def checked(journal: MemoryJournal, clock: FakeClock) -> None:
    """Answers of a type: mended, given up, rejected by a validator, and right at once."""

    def odd(value: Digit) -> None:
        if not value["digit"] % 2:
            raise OutputRejected("An odd one, please.")

    wanted = StructuredOutput(Digit, validators=[odd], attempts=3)
    fenced = 'Here:\n```json\n{"digit": 7}\n```'
    model = ScriptedModel("seven", '{"digit": 12}', fenced, "a", "b", "c", '{"digit": 4}', fenced)
    agent = Agent(model, output=wanted, journal=journal, clock=clock)
    for prompt in ("one", "two", "three"):
        try:
            await agent.run(prompt, session="golden")
        except HoldfastError:
            clock.advance(1)


async def changes(journal: MemoryJournal, clock: FakeClock) -> None:
    """Back, another way, back over that, a summary that keeps a pinned turn, and what came then."""
    call = ToolCall("x", "weather", '{"city": "Porto"}')
    script = ["re one", call, "re two", "re three", "re four", "re five", "re six"]
    agent = Agent(ScriptedModel(*script), tools=[weather], journal=journal, clock=clock)
    sessions = agent.sessions

    async def say(*prompts: str) -> None:
        for prompt in prompts:
            clock.advance(1)
            await agent.run(prompt, session="golden")

    await say("one", "two", "three")
    await sessions.rewind("golden", 1)
    await say("four")
    await sessions.rewind("golden", 3)
    await say("five")
    await sessions.compact(
        "golden", keep=1, summary="They spoke of one.", pinned=lambda said: said.text == "two"
    )
    await say("six")


SCENARIOS: dict[str, Callable[[MemoryJournal, FakeClock], Awaitable[None]]] = {
    "answer": answer,
    "answer-checked": checked,
    "changes": changes,
    "costs": costs,
    "failures": failures,
    "tools": tools,
}


async def record(name: str) -> None:
    """Write `NAME.jsonl`, and the messages that it must replay to as `NAME.messages.json`."""
    journal = MemoryJournal()
    await SCENARIOS[name](journal, FakeClock())
    machine = SessionMachine()
    with (FOLDER / f"{name}.jsonl").open("xb") as out:
        for seq, kept in enumerate(await journal.read("golden"), 1):
            machine.apply(kept.event)
            out.write(encode(to_line("golden", seq, kept)) + b"\n")
    messages = msgspec.to_builtins(list(machine.transcript))
    (FOLDER / f"{name}.messages.json").write_text(
        json.dumps(messages, ensure_ascii=False, indent=1) + "\n", "utf-8"
    )


async def record_file() -> None:
    """Write `version-N.sqlite` with the conversation of `answer`, for the schema of today."""
    from holdfast.journal.encoding import decode, record_of
    from holdfast.journal.files.sqlite_schema import VERSION

    with SqliteJournal(FOLDER / f"version-{VERSION}.sqlite") as journal:
        for line in (FOLDER / "answer.jsonl").read_bytes().splitlines():
            kept: Record = record_of(decode(line))
            await journal.append("alice", kept.event)


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        asyncio.run(record_file() if wanted == "file" else record(wanted))
