"""A failed turn keeps the message of the user, and can be tried again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast import Agent, Limits, MemoryJournal, Middleware, SqliteJournal, tool
from holdfast.core.errors import (
    ErrorCategory,
    ErrorInfo,
    HoldfastError,
    LimitError,
    ProviderError,
    StoppedError,
)
from holdfast.core.events import Status, TurnOpened
from holdfast.core.messages import ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.journal.port import Journal
from holdfast.middleware import Deny, PIIProtection, Stop
from holdfast.middleware.hook_contexts import BeforeTurn
from holdfast.testing import CrashAt, Emulator, FakeClock, ScriptedModel, SimulatedCrash
from holdfast.testing.emulator import call
from holdfast.testing.emulator.faults import HttpStatus

SAID = "My order number is 4711."


@pytest.fixture(params=["memory", "sqlite"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journal]:
    if request.param == "memory":
        yield MemoryJournal()
        return
    kept = SqliteJournal(tmp_path / "s.db")
    yield kept
    kept.close()


def failure(category: ErrorCategory, status: int | None = None) -> ProviderError:
    return ProviderError("no", info=ErrorInfo(category=category, safe="no", status=status))


def texts(request: ModelRequest) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in request.messages]


def asked(journal: Journal, seen: list[list[tuple[str, str]]], **options: object) -> Agent[str]:
    def answer(request: ModelRequest) -> str:
        seen.append(texts(request))
        return "It is 4711."

    return Agent(ScriptedModel(*[answer] * 9), journal=journal, **options)  # type: ignore[arg-type]


PASSING = [
    failure(ErrorCategory.AUTH_ERROR, 401),
    failure(ErrorCategory.RATE_LIMIT_TERMINAL, 429),
    failure(ErrorCategory.SERVER_ERROR, 503),
    failure(ErrorCategory.MODEL_NOT_FOUND, 404),
    failure(ErrorCategory.TRUNCATED),
    failure(ErrorCategory.INVALID_RESPONSE),
]


@pytest.mark.parametrize("error", PASSING, ids=lambda error: error.info.category.value)
async def test_the_next_turn_knows_the_message_of_a_failed_turn(
    journal: Journal, error: Exception
) -> None:
    failing = Agent(ScriptedModel(*[error] * 5), journal=journal, clock=FakeClock())
    with pytest.raises(HoldfastError):
        await failing.run(SAID, session="ada")
    seen: list[list[tuple[str, str]]] = []
    result = await asked(journal, seen).run("Which number did I say?", session="ada")
    assert seen == [[("user", SAID), ("user", "Which number did I say?")]]
    assert [message.role for message in result.messages] == ["user", "user", "assistant"]


REFUSALS = [
    failure(ErrorCategory.CONTENT_FILTERED, 400),
    failure(ErrorCategory.CONTEXT_WINDOW, 400),
    failure(ErrorCategory.CLIENT_ERROR, 400),
]


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: error.info.category.value)
async def test_a_message_that_was_refused_is_saved_and_not_sent_again(
    journal: Journal, error: Exception
) -> None:
    agent = Agent(ScriptedModel(error, error), journal=journal)
    with pytest.raises(HoldfastError):
        await agent.run(SAID, session="ada")
    with pytest.raises(HoldfastError):
        await agent.resume("ada")
    seen: list[list[tuple[str, str]]] = []
    await asked(journal, seen).run("Hello", session="ada")
    assert seen == [[("user", "Hello")]]
    opened = [r.event for r in await journal.read("ada") if isinstance(r.event, TurnOpened)]
    assert [event.message.text for event in opened if event.message] == [SAID, "Hello"]


async def test_resume_tries_the_turn_again(journal: Journal) -> None:
    with pytest.raises(ProviderError):
        await Agent(ScriptedModel(PASSING[0]), journal=journal).run(SAID, session="ada")
    seen: list[list[tuple[str, str]]] = []
    agent = asked(journal, seen)
    result = await agent.resume("ada")
    assert (result.output, seen) == ("It is 4711.", [[("user", SAID)]])
    assert (await agent.resume("ada")).output == "It is 4711."
    assert len(seen) == 1
    assert [message.role for message in result.messages] == ["user", "assistant"]
    points = (await agent.sessions.read("ada")).points
    assert [(point.text, point.status) for point in points] == [
        (SAID, Status.FAILED),
        ("", Status.COMPLETED),
    ]


async def test_a_second_failure_can_be_tried_again_too(journal: Journal) -> None:
    model = ScriptedModel(PASSING[0], PASSING[0], "Fine.")
    agent = Agent(model, journal=journal)
    for attempt in (agent.run(SAID, session="ada"), agent.resume("ada")):
        with pytest.raises(ProviderError):
            await attempt
    assert (await agent.resume("ada")).output == "Fine."


async def test_finished_tools_are_not_repeated(journal: Journal) -> None:
    paid: list[int] = []

    @tool(effect="write")
    def pay(euros: int) -> str:
        """Pay."""
        paid.append(euros)
        return "paid"

    model = ScriptedModel(ToolCall("c", "pay", '{"euros": 5}'), PASSING[0], "Paid.")
    agent = Agent(model, tools=[pay], journal=journal)
    with pytest.raises(ProviderError):
        await agent.run("Pay 5.", session="ada")
    result = await agent.resume("ada")
    assert (result.output, paid) == ("Paid.", [5])
    assert [message.role for message in result.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


async def test_a_limit_begins_anew_when_the_turn_is_tried_again(journal: Journal) -> None:
    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "a wall"

    model = ScriptedModel(*[ToolCall("c", "look", "{}")] * 2, "A wall.")
    agent = Agent(model, tools=[look], journal=journal)
    limits = Limits(iterations=2)
    with pytest.raises(LimitError):
        await agent.run("Look.", session="ada", limits=limits)
    assert (await agent.resume("ada")).output == "A wall."
    opened = [r.event for r in await journal.read("ada") if isinstance(r.event, TurnOpened)]
    assert [event.limits for event in opened] == [limits, limits]


async def test_the_text_that_was_shown_stays_after_a_cancellation(journal: Journal) -> None:
    async with Emulator(["Half an answer", "Whole."]) as provider:
        agent = Agent(
            "openai:emulated-model", base_url=provider.base_url, api_key="k", journal=journal
        )
        async with agent.stream(SAID, session="ada") as run:
            async for _ in run.text():
                break
        history = (await agent.sessions.read("ada")).messages
        assert [message.role for message in history][:1] == ["user"]
        result = await agent.resume("ada")
    assert result.text in ("Whole.", "Half an answer")
    assert [message.role for message in result.messages] == ["user", "assistant"]


class Denies(Middleware):
    def __init__(self, decision: Deny | Stop) -> None:
        self.decision = decision

    async def before_turn(self, context: BeforeTurn) -> Deny | Stop | None:
        return self.decision if context.message.text == SAID else None


async def test_a_message_that_a_hook_denied_is_saved_and_not_sent(journal: Journal) -> None:
    seen: list[list[tuple[str, str]]] = []
    agent = asked(journal, seen, middleware=[Denies(Deny("Not that."))])
    with pytest.raises(StoppedError, match="Not that") as denied:
        await agent.run(SAID, session="ada")
    assert denied.value.reason == "denied"
    with pytest.raises(StoppedError, match="Not that"):
        await agent.resume("ada")
    await agent.run("Hello", session="ada")
    assert seen == [[("user", "Hello")]]
    assert (await agent.sessions.read("ada")).points[0].text == SAID


async def test_personal_data_that_a_hook_denied_is_not_saved(journal: Journal) -> None:
    agent = asked(journal, [], middleware=[PIIProtection(actions={"Email": "block"})])
    with pytest.raises(StoppedError):
        await agent.run("I am ada@example.org", session="ada")
    assert await journal.read("ada") == []


@pytest.mark.parametrize("decision", [Deny("Not that."), Stop("closed", "We are closed.")])
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("moment", [1, 2, 3])
async def test_a_turn_that_a_hook_ended_is_not_continued_after_a_crash(
    moment: int, before: bool, decision: Deny | Stop
) -> None:
    journal = MemoryJournal()
    seen: list[list[tuple[str, str]]] = []
    hook = Denies(decision)
    try:
        crashing = CrashAt(journal, moment, before=before)
        await asked(crashing, seen, middleware=[hook]).run(SAID, session="ada")
    except (SimulatedCrash, StoppedError):
        pass
    await asked(journal, seen, middleware=[hook]).recover()
    assert seen == []


async def test_over_http_nothing_is_doubled_and_nothing_is_lost(tmp_path: Path) -> None:
    bought: list[str] = []

    @tool(effect="write")
    def buy(what: str) -> str:
        """Buy."""
        bought.append(what)
        return "bought"

    async with Emulator(
        [call("buy", {"what": "bread"}, id="c1"), "You bought bread."],
        faults=[None, HttpStatus(401)],
    ) as provider:
        agent = Agent(
            "mistral:emulated-model",
            base_url=provider.base_url,
            api_key="k",
            tools=[buy],
            journal=f"sqlite:///{tmp_path / 's.db'}",
        )
        with pytest.raises(ProviderError):
            await agent.run("Buy bread.", session="ada")
        result = await agent.run("And?", session="ada")
    assert (result.output, bought) == ("You bought bread.", ["bread"])
    roles = [entry["role"] for entry in provider.requests[-1].body["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]


async def test_two_resumes_at_once_try_it_once(journal: Journal) -> None:
    with pytest.raises(ProviderError):
        await Agent(ScriptedModel(PASSING[0]), journal=journal).run(SAID, session="ada")
    seen: list[list[tuple[str, str]]] = []
    agent = asked(journal, seen)
    results = await asyncio.gather(agent.resume("ada"), agent.resume("ada"))
    assert [result.output for result in results] == ["It is 4711."] * 2
    assert len(seen) == 1
