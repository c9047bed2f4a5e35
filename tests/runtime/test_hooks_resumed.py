"""A run with hooks that is resumed asks and decides what it would have, wherever it was cut."""

from __future__ import annotations

import logging
from itertools import count
from typing import Any

import msgspec
import pytest

from holdfast import Agent, MemoryJournal, Middleware, Status, ToolFinished, tool
from holdfast.core.errors import ErrorCategory, ErrorInfo, MiddlewareError, exception_for
from holdfast.core.events import Event
from holdfast.core.messages import Reply, ToolCall, ToolResult, user
from holdfast.core.model_request import ModelRequest
from holdfast.middleware import Deny, Guidance, HistoryReduction, Patch, RepetitionGuard, Stop
from holdfast.middleware.hook_contexts import (
    AfterIteration,
    AfterReply,
    BeforeIteration,
    BeforeTools,
    ModelCall,
)
from holdfast.testing import CrashAt, FakeClock, ScriptedModel, SimulatedCrash

ran: list[int] = []


@tool(effect="read")
def look(n: int) -> str:
    """Look."""
    ran.append(n)
    return "nothing"


_numbers = count()


class OfTheMoment(Middleware):
    """Instructions that would be others if they were made again."""

    async def before_turn(self, context: Any) -> Patch:
        said = (user(context.message.text + "!"),)
        return Patch(instructions=f"{context.instructions} No {next(_numbers)}.", messages=said)


def asks(request: ModelRequest) -> ToolCall | str:
    done = sum(message.role == "tool" for message in request.messages)
    return ToolCall(f"c{done}", "look", '{"n": 1}') if done < 3 else "done"


def agent(model: ScriptedModel, journal: object) -> Agent[str]:
    return Agent(
        model,
        instructions="Be brief.",
        tools=[look],
        middleware=[
            OfTheMoment(),
            Guidance(4),
            RepetitionGuard(9, hint_at=2, withdraw_at=3),
            HistoryReduction(3, 1, tokens=5000),
        ],
        journal=journal,  # type: ignore[arg-type]
    )


def plain(request: ModelRequest) -> bytes:
    said = (request.instructions.partition(" No ")[0], request.instructions.partition(".\n")[2])
    return msgspec.json.encode((said, tuple(request.messages), request.tools))


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("moment", range(2, 16))
async def test_every_request_is_the_same_as_without_the_crash(moment: int, before: bool) -> None:
    whole = ScriptedModel(*[asks] * 9)
    await agent(whole, MemoryJournal()).run("go", session="s")
    first, second, journal = ScriptedModel(*[asks] * 9), ScriptedModel(*[asks] * 9), MemoryJournal()
    try:
        await agent(first, CrashAt(journal, moment, before=before)).run("go", session="s")
    except SimulatedCrash:
        await agent(second, journal).resume("s")
    sent = [*first.requests, *second.requests]
    assert len({request.instructions.split(" No ")[1].split(".")[0] for request in sent}) == 1
    bodies = [plain(request) for request in sent]
    once = [body for at, body in enumerate(bodies) if body not in bodies[:at]]
    assert once == [plain(request) for request in whole.requests]
    assert all(request.messages[0].text == "go!" for request in sent if len(request.messages) < 5)


class NoTools(Middleware):
    async def before_tools(self, context: Any) -> Deny:
        return Deny("Not now.")


def two() -> Reply:
    return Reply((ToolCall("a", "look", '{"n": 1}'), ToolCall("b", "look", '{"n": 2}')))


@pytest.mark.parametrize("moment", range(2, 6))
async def test_what_was_denied_stays_denied(moment: int) -> None:
    ran.clear()
    journal = MemoryJournal()

    def made(journal: object, *script: object) -> Agent[str]:
        model = ScriptedModel(*script)  # type: ignore[arg-type]
        return Agent(model, tools=[look], middleware=[NoTools()], journal=journal)  # type: ignore[arg-type]

    with pytest.raises(SimulatedCrash):
        await made(CrashAt(journal, moment), two(), "done").run("go", session="s")
    result = await made(journal, "done").resume("s")
    told = [p.text for m in result.messages for p in m.parts if isinstance(p, ToolResult)]
    assert told == ["Not now.", "Not now."]
    assert ran == []


class Enough(Middleware):
    async def after_iteration(self, context: Any) -> Stop:
        return Stop("enough", f"{len(context.results)} of {len(context.calls)}")


@pytest.mark.parametrize("moment", range(2, 6))
async def test_a_stop_after_the_iteration_is_not_lost(moment: int) -> None:
    journal = MemoryJournal()

    def made(journal: object, *script: object) -> Agent[str]:
        model = ScriptedModel(*script)  # type: ignore[arg-type]
        return Agent(model, tools=[look], middleware=[Enough()], journal=journal)  # type: ignore[arg-type]

    with pytest.raises(SimulatedCrash):
        await made(CrashAt(journal, moment), two(), "never").run("go", session="s")
    result = await made(journal, "never").resume("s")
    assert (result.status, result.text) == (Status.STOPPED, "2 of 2")


async def test_a_failure_is_found_in_the_log_by_its_run_and_key(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool(effect="read")
    def broken() -> str:
        """Broken."""
        raise RuntimeError("password=hunter2 at db-7")

    journal = MemoryJournal()
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        model = ScriptedModel(ToolCall("1", "broken"), "done")
        made = Agent(model, tools=[broken], journal=journal, clock=FakeClock())
        result = await made.run("go")
    (finished,) = [
        record.event
        for record in await journal.read(result.run_id)
        if isinstance(record.event, ToolFinished)
    ]
    assert finished.error is not None
    assert finished.error.category.value
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert f"{finished.key} of run {result.run_id}" in said
    assert "db-7" in said
    assert "hunter2" not in said


# A turn that failed in a hook raises the same error when it is resumed.


class Before(Middleware):
    async def before_iteration(self, context: BeforeIteration) -> None:
        raise ValueError("secret")


class ReplyFails(Middleware):
    async def after_reply(self, context: AfterReply) -> None:
        raise ValueError("secret")


class Tools(Middleware):
    async def before_tools(self, context: BeforeTools) -> None:
        raise ValueError("secret")


class After(Middleware):
    async def after_iteration(self, context: AfterIteration) -> None:
        raise ValueError("secret")


class NoDecision(Middleware):
    async def before_iteration(self, context: BeforeIteration) -> None:
        return context  # type: ignore[return-value]


class Wrap(Middleware):
    name = "my.guard"

    async def wrap_model(self, context: ModelCall, call_next: object) -> object:  # type: ignore[override]
        raise ValueError("secret")


class Folding(Middleware[int]):
    initial = 0

    def fold(self, state: int, event: Event) -> int:
        raise ValueError("secret")


@tool(name="look")
def look_at_wall() -> str:
    """Look."""
    return "a wall"


def describe_error(error: MiddlewareError) -> tuple[object, ...]:
    info = error.info.to_public()
    return str(error), error.middleware, error.hook, error.problem, info, error.partial


@pytest.mark.parametrize("kind", [Before, ReplyFails, Tools, After, NoDecision, Wrap, Folding])
async def test_a_failed_hook_raises_the_same_error_on_every_resume(kind: type[Middleware]) -> None:
    model = ScriptedModel(*[ToolCall("c1", "look", "{}")] * 3)
    agent = Agent(model, tools=[look_at_wall], middleware=[kind()], journal=MemoryJournal())
    with pytest.raises(MiddlewareError) as first:
        await agent.run("Go.", session="s")
    for _ in range(2):
        with pytest.raises(MiddlewareError) as again:
            await agent.resume("s")
        assert describe_error(again.value) == describe_error(first.value)


def test_another_error_is_not_a_failure_of_a_hook() -> None:
    info = ErrorInfo(category=ErrorCategory.PROGRAMMING, safe="Bad luck", code="middleware")
    assert not isinstance(exception_for(info), MiddlewareError)
