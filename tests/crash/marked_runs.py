"""Whole runs that tests kill: the replies of the model, and agents whose tools leave marks on the disk.

A reply depends on the request only, so every process receives the same replies; the numbers of the
requests decide which of them fail.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tests.tool_results import texts_of_results
from typing_extensions import TypedDict

from holdfast import Agent, RetryOptions, tool
from holdfast.core.questions import PermissionQuestion
from holdfast.journal.port import Journal
from holdfast.middleware.tool_permission import ToolPermission
from holdfast.testing.emulator import DropAfter, ErrorResponse, call
from holdfast.testing.emulator.emulated_request import EmulatedRequest
from holdfast.testing.emulator.faults import FaultEntry
from holdfast.testing.emulator.script import ReplyLike
from holdfast.tools.context import ToolContext
from holdfast.tools.tool import ToolEffect

TOOLS: dict[str, ToolEffect] = {
    "look": "read",
    "put": "idempotent",
    "pay": "write",
    "book": "write",
}


@dataclass(frozen=True)
class Talk:
    """A kind of run.

    Args:
        name: the first word of its prompt; the second word names the file for the marks.
        batches: the tools that each reply calls; the answer follows.
        asks: whether a person is asked before each write.
        repair: whether the first answer has a wrong type.
    """

    name: str
    batches: Sequence[Sequence[str]]
    asks: bool = False
    repair: bool = False


TALKS = {
    talk.name: talk
    for talk in (
        Talk("tools", [["look", "put", "pay"], ["book", "look"]]),
        Talk("questions", [["pay", "look"], ["book"]], asks=True),
        Talk("repair", [["pay"]], repair=True),
        Talk("plain", []),
    )
}


class Address(Protocol):
    """The address of the provider."""

    @property
    def base_url(self) -> str: ...
    @property
    def api_key(self) -> str: ...


class Found(TypedDict):
    """The typed output of a run."""

    said: list[str]


def mark(place: str, what: str) -> None:
    """Write a line that stays on the disk after a kill."""
    file = os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, f"{what}\n".encode())
    os.fsync(file)
    os.close(file)


def choose_reply(request: EmulatedRequest) -> ReplyLike:
    """Return the reply of the model, and leave a mark."""
    messages = [message for message in request.messages if message.role != "system"]
    name, _, place = messages[0].text.partition(" ")
    asked = sum(message.role == "assistant" for message in messages)
    mark(place, f"t1.i{asked}.model")
    talk = TALKS[name]
    if asked < len(talk.batches):
        names = enumerate(talk.batches[asked])
        return [call(name, {}, id=f"c{asked}{index}") for index, name in names]
    if talk.repair and asked == len(talk.batches):
        return "I know it, and this is no JSON."
    said = texts_of_results(messages)
    return json.dumps({"said": said}) if talk.repair else "Done: " + " | ".join(said)


def faults(request: EmulatedRequest) -> FaultEntry:
    """Cut every third stream in the middle, and refuse some requests."""
    if request.number % 7 == 5:
        return ErrorResponse("overloaded")
    return DropAfter(2) if request.number % 3 == 1 else None


def _made(name: str, effect: ToolEffect) -> Any:
    @tool(name=name, effect=effect)
    async def act(context: ToolContext[str]) -> str:
        """Act."""
        await asyncio.sleep(0)
        mark(context.deps, f"{context.key} {name}")
        await asyncio.sleep(0.001)
        return f"{name} is done"

    return act


# Made before the forks, which share it.
_made_tools = [_made(name, effect) for name, effect in TOOLS.items()]


def agent_for(talk: Talk, at: Address, journal: Journal) -> Agent[Any]:
    """Return an agent with real HTTP and tools that leave their marks in the file that `deps` names."""

    async def person(request: PermissionQuestion) -> object:
        await asyncio.sleep(0.002)
        return request.approve()

    return Agent(
        "openai:emulated",
        tools=_made_tools,
        output=Found if talk.repair else str,
        middleware=[ToolPermission(allow=["look"], ask=["pay", "book"])] if talk.asks else [],
        on_question=person if talk.asks else None,
        retry=RetryOptions(retry_delay=0.001, max_retries=8),
        base_url=at.base_url,
        api_key=at.api_key,
        journal=journal,
    )


def prompt(talk: Talk, place: str) -> str:
    """Return the message of the user."""
    return f"{talk.name} {place}"
