"""A recorded run is a test: the same agent passes, and each change of behaviour is reported."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast import (
    Agent,
    ConfigurationError,
    Limits,
    MemoryJournal,
    OutputRejected,
    RetryOptions,
    SqliteJournal,
    tool,
)
from holdfast.cli.main import main
from holdfast.core.errors import ErrorCategory, ErrorInfo, ProviderError
from holdfast.core.messages import ToolCall, assistant, user
from holdfast.journal.journal_errors import JournalError
from holdfast.middleware.tool_permission import ToolPermission
from holdfast.testing import ReplayDifference, ScriptedModel, replay
from holdfast.testing.crash import CrashAt, SimulatedCrash

pytestmark = pytest.mark.anyio

RAN: list[str] = []


@tool(effect="read")
def weather(city: str) -> str:
    """The weather in a city."""
    RAN.append(city)
    return f"clear in {city}"


@tool(effect="write")
def pay(amount: int) -> str:
    """Pay somebody."""
    RAN.append(str(amount))
    if amount > 100:
        raise RuntimeError("too much")
    return f"paid {amount}"


CALLS = (
    ToolCall("a", "weather", '{"city": "Porto"}'),
    ToolCall("b", "pay", '{"amount": 10}'),
)


async def recorded_run(**options: Any) -> MemoryJournal:
    journal = MemoryJournal()
    model = ScriptedModel(CALLS, ToolCall("c", "pay", '{"amount": 500}'), "Done.", "You did.")
    agent = Agent(
        model,
        **{"tools": [weather, pay], **options},
        journal=journal,
        retry=RetryOptions(max_retries=0),
    )
    await agent.run("Pay and look.", session="ada")
    await agent.run("Did I?", session="ada")
    RAN.clear()
    return journal


def now(**options: Any) -> Agent[Any]:
    return Agent("openai:gpt-5.2", api_key="none", **{"tools": [weather, pay], **options})


async def test_the_same_agent_does_the_same_and_touches_nothing() -> None:
    found = await replay(await recorded_run(), now(instructions="Be brief."))
    assert (found.run, found.turns) == ("ada", 2)
    assert found.events == 13
    assert found.messages[-1].text == "You did."
    assert RAN == []


async def differs(journal: object, agent: Agent[Any], **options: Any) -> ReplayDifference:
    with pytest.raises(ReplayDifference) as caught:
        await replay(journal, agent, **options)  # type: ignore[arg-type]
    assert RAN == []
    return caught.value


async def test_a_limit_that_ends_the_turn_earlier_is_named() -> None:
    found = await differs(await recorded_run(), now(limits=Limits(iterations=2)))
    assert found.key == "t1.i2.model"
    assert "then: the model says 'Done.'; now: the turn ends as limit" in found.problem


async def test_limits_of_one_run_can_be_given() -> None:
    journal = await recorded_run()
    assert (await replay(journal, now(limits=Limits(iterations=1)), limits=Limits())).turns == 2


async def test_a_tool_that_is_gone_is_named() -> None:
    found = await differs(await recorded_run(), now(tools=[pay]))
    assert found.key == "t1.i0.tool.0"
    assert "weather returns 'clear in Porto'" in found.problem
    assert "there is no such function" in found.problem


async def test_parameters_that_changed_are_named() -> None:
    @tool(effect="read")
    def weather(town: str) -> str:
        """The weather in a town."""
        return town

    found = await differs(await recorded_run(), now(tools=[weather, pay]))
    assert found.key == "t1.i0.tool.0"
    assert "town" in found.problem


async def test_a_permission_that_is_asked_for_now_is_named() -> None:
    asks = ToolPermission(allow=["weather"], ask=["pay"])
    found = await differs(await recorded_run(), now(middleware=[asks]))
    assert found.key == "t1.i0.tool.1.ask.0.asked"
    assert "PermissionQuestion" in found.problem


async def test_a_tool_that_is_denied_now_is_named() -> None:
    denies = ToolPermission(allow=["weather"], deny=["pay"])
    found = await differs(await recorded_run(), now(middleware=[denies]))
    assert found.key == "t1.i0.tool.1"
    assert "denied by a rule" in found.problem


async def test_a_tool_that_was_denied_and_would_run_now_is_named() -> None:
    denies = ToolPermission(allow=["weather"], deny=["pay"])
    journal = await recorded_run(middleware=[denies])
    assert (await replay(journal, now(middleware=[denies]))).turns == 2
    found = await differs(journal, now())
    assert found.key == "t1.i0.tool.1"
    assert "is run now, but was not then" in found.problem


async def test_answers_of_people_are_given_again() -> None:
    journal = MemoryJournal()

    async def person(request: Any) -> object:
        return request.approve() if request.tool == "pay" else None

    asks = ToolPermission(ask=["pay", "weather"], timeout=5)
    agent = Agent(
        ScriptedModel(CALLS, "Done."),
        tools=[weather, pay],
        journal=journal,
        middleware=[asks],
        on_question=person,
    )
    await agent.run("Pay.", session="ada")
    RAN.clear()
    assert (await replay(journal, now(middleware=[asks]))).messages[-1].text == "Done."


async def test_a_failure_of_the_model_fails_again() -> None:
    journal = MemoryJournal()
    info = ErrorInfo(category=ErrorCategory.AUTH_ERROR, safe="bad key")
    agent = Agent(ScriptedModel(ProviderError("bad key", info=info)), journal=journal)
    with pytest.raises(ProviderError):
        await agent.run("Hello", session="ada")
    assert (await replay(journal, now())).messages == (user("Hello"),)


async def test_an_output_type_that_refuses_the_answer_is_named() -> None:
    found = await differs(await recorded_run(), now(output=list[int]))
    assert found.key.startswith("t1.")


@pytest.mark.parametrize("append", range(1, 8))
async def test_a_run_that_was_interrupted_is_replayed_up_to_its_end(append: int) -> None:
    journal = MemoryJournal()
    agent = Agent(
        ScriptedModel(CALLS, "Done."),
        tools=[weather, pay],
        journal=CrashAt(journal, append),  # type: ignore[arg-type]
    )
    with pytest.raises(SimulatedCrash):
        await agent.run("Pay.", session="ada")
    RAN.clear()
    found = await replay(journal, now())
    assert found.turns == 1
    assert found.events >= min(append, 2) - 1
    assert RAN == []


async def test_a_run_that_was_resumed_in_doubt_is_replayed() -> None:
    journal = MemoryJournal()
    dying = Agent(
        ScriptedModel(CALLS),
        tools=[weather, pay],
        journal=CrashAt(journal, 3),  # type: ignore[arg-type]
    )
    with pytest.raises(SimulatedCrash):
        await dying.run("Pay.", session="ada")
    await Agent(ScriptedModel("Done."), tools=[weather, pay], journal=journal).resume("ada")
    RAN.clear()
    assert (await replay(journal, now())).messages[-1].text == "Done."


async def test_a_cancelled_turn_is_replayed() -> None:
    journal = MemoryJournal()
    begun = asyncio.Event()

    async def slow(_request: object) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    agent = Agent(ScriptedModel(slow, "Hello."), journal=journal)
    task = asyncio.create_task(agent.run("Hello?", session="ada"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await agent.run("Again?", session="ada")
    assert (await replay(journal, now())).messages[-1].text == "Hello."


@pytest.fixture
def exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    source = asyncio.run(recorded_run())
    path = tmp_path / "talk.db"

    async def copy() -> None:
        with SqliteJournal(path) as journal:
            for record in await source.read("ada"):
                await journal.append("ada", record.event)

    asyncio.run(copy())
    assert main(["journal", "export", str(path), "ada"]) == 0
    lines = tmp_path / "ada.jsonl"
    lines.write_text(capsys.readouterr().out)
    return lines


def test_a_journal_and_its_export_are_replayed(exported: Path) -> None:
    for source in (exported, str(exported), exported.with_name("talk.db")):
        assert asyncio.run(replay(source, now())).turns == 2


@pytest.mark.parametrize(
    "spoil",
    [
        lambda lines: lines[:3] + lines[4:],
        lambda lines: [lines[1], lines[0], *lines[2:]],
        lambda lines: [*lines[:2], lines[2][:40], *lines[3:]],
        lambda lines: [lines[0], lines[1].replace("model_replied", "model_dreamed"), *lines[2:]],
        lambda lines: ["this is prose"],
    ],
)
def test_a_damaged_export_is_refused(exported: Path, spoil: Any) -> None:
    exported.write_text("\n".join(spoil(exported.read_text().splitlines())))
    with pytest.raises(JournalError, match=r"ada\.jsonl"):
        asyncio.run(replay(exported, now()))


def test_bytes_that_are_not_an_export_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "picture"
    path.write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(JournalError, match="neither a journal nor an export"):
        asyncio.run(replay(path, now()))


async def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    journal = await recorded_run()
    with pytest.raises(ConfigurationError, match="no run 'bob'"):
        await replay(journal, now(), run="bob")
    with pytest.raises(ConfigurationError, match="there is no file"):
        await replay(tmp_path / "nothing.db", now())
    with pytest.raises(ConfigurationError, match="must be an Agent"):
        await replay(journal, "agent")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="must be a journal or a file"):
        await replay(5, now())  # type: ignore[arg-type]
    agent = Agent(ScriptedModel("Hello."), journal=journal)
    await agent.run("Hello?", session="bob")
    with pytest.raises(
        ConfigurationError, match=r"holds 2 runs: 'ada', 'bob'\. Name one of them, such as 'ada'"
    ):
        await replay(journal, now())


async def test_a_run_that_began_with_a_history_is_replayed() -> None:
    journal = MemoryJournal()
    before = [user("I am Ada."), assistant("Hello, Ada.")]
    agent = Agent(ScriptedModel("You are Ada."), journal=journal)
    await agent.run("Who am I?", history=before)
    found = await replay(journal, now())
    assert [message.text for message in found.messages][::3] == ["I am Ada.", "You are Ada."]


async def test_an_answer_that_was_repaired_is_repaired_again() -> None:
    journal = MemoryJournal()
    agent = Agent(ScriptedModel("one, two", "[1, 2]"), output=list[int], journal=journal)
    assert (await agent.run("Count.", session="ada")).output == [1, 2]
    assert (await replay(journal, now(output=list[int]))).turns == 1
    found = await differs(journal, now(output=list[str]))
    assert found.key.startswith("t1.i1.")


async def test_a_run_that_waited_for_a_person_is_replayed() -> None:
    journal = MemoryJournal()
    asks = ToolPermission(ask=["pay"], allow=["weather"])
    options: dict[str, Any] = {"tools": [weather, pay], "journal": journal, "middleware": [asks]}
    agent = Agent(ScriptedModel(CALLS), on_wait="suspend", **options)
    waiting = await agent.run("Pay.", session="ada")
    (question,) = waiting.questions
    await agent.answer("ada", question.approve())
    done = await Agent(ScriptedModel("Done."), on_wait="suspend", **options).resume("ada")
    assert done.output == "Done."
    RAN.clear()
    assert (await replay(journal, now(middleware=[asks]))).messages[-1].text == "Done."


async def test_an_output_function_is_not_called_in_a_replay() -> None:
    journal = MemoryJournal()
    agent = Agent(ScriptedModel('{"amount": 500}', '{"amount": 10}'), output=cap, journal=journal)
    assert (await agent.run("Pay", session="s")).output == "paid 10"
    RAN.clear()
    result = await replay(journal, agent, run="s")
    assert (result.turns, result.messages[-1].text, RAN) == (1, '{"amount": 10}', [])
    with pytest.raises(ReplayDifference, match="renamed"):
        await replay(journal, Agent("ollama:a", output=renamed), run="s")


def cap(amount: int) -> str:
    """Pay somebody."""
    RAN.append(str(amount))
    if amount > 100:
        raise OutputRejected("At most 100.")
    return f"paid {amount}"


def renamed(amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount}"
