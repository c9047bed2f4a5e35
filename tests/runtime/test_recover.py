"""Every interrupted run of an agent goes on, and nobody else's; also when the agent has changed since."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel
from tests.runtime.slow_journal import BeforeToolsHook
from tests.tool_results import texts_of_results

from holdfast import Agent, ClarificationQuestion, ConfigurationError, SqliteJournal, Status, tool
from holdfast.core.errors import ErrorCategory, HoldfastError
from holdfast.core.messages import Reply, ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.core.questions import PermissionQuestion
from holdfast.errors import SessionBusyError
from holdfast.journal.memory import MemoryJournal
from holdfast.journal.port import Journal, Record
from holdfast.runtime.open_runs.recovery import RecoveryStatus
from holdfast.testing import CrashAt, ScriptedModel, SimulatedCrash
from holdfast.tools.context import ToolContext

CALLED, BEGUN, PAID = 2, 3, 4
"""Appends of the run below: opened, replied, begun, paid, replied, closed."""


def answer(request: ModelRequest) -> Reply | str:
    if request.messages[-1].role == "user":
        return Reply((ToolCall("a", "pay", '{"amount": 5}'),))
    return "done"


def paying(effect: Literal["read", "idempotent", "write"], paid: list[int]) -> Callable[..., Any]:
    @tool(effect=effect)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    return pay


def agent(journal: object, *, name: str = "payer", **keywords: Any) -> Agent[Any]:
    paid = keywords.pop("paid", [])
    tools = keywords.pop("tools", [paying(keywords.pop("effect", "write"), paid)])
    model = ScriptedModel(*[answer] * 50)
    middleware = [BeforeToolsHook()]  # so that a reply and the marker of its tools are two appends
    return Agent(model, name=name, tools=tools, journal=journal, middleware=middleware, **keywords)


async def interrupt(journal: object, session: str, moment: int = BEGUN, **keywords: Any) -> None:
    with pytest.raises(SimulatedCrash):
        await agent(CrashAt(journal, moment), **keywords).run("go", session=session)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_every_interrupted_run_goes_on_and_nothing_else_is_touched(
    kind: str, tmp_path: Path
) -> None:
    journal = MemoryJournal() if kind == "memory" else SqliteJournal(tmp_path / "talk.db")
    for number in range(1, 5):
        await interrupt(journal, f"cut {number}", number)
    await agent(journal).run("go", session="whole")
    await interrupt(journal, "of another", name="other")
    with pytest.raises(SimulatedCrash):
        await agent(CrashAt(journal, CALLED)).run("go")  # a run without a session
    before = await journal.read("of another")
    paid: list[int] = []
    found = await agent(journal, paid=paid).recover()
    named = {one.run_id for one in found}
    assert {f"cut {number}" for number in range(1, 5)} < named
    assert len(named) == 5
    assert {(type(one.error), one.result.output) for one in found} == {(type(None), "done")}
    assert paid == [5, 5, 5]  # of those that had not begun
    assert await journal.read("of another") == before
    assert await agent(journal).recover() == []
    assert len(await agent(journal, name="other").recover()) == 1
    if isinstance(journal, SqliteJournal):
        journal.close()


async def test_one_that_fails_hides_no_other() -> None:
    journal = MemoryJournal()
    for session in "abc":
        await interrupt(journal, session, CALLED)
    seen = 0

    def fail_once(request: ModelRequest) -> str:
        nonlocal seen
        seen += 1
        if seen == 2:
            raise ValueError("the model is odd")
        return "done"

    broken = Agent(
        ScriptedModel(*[fail_once] * 9), name="payer", tools=[paying("write", [])], journal=journal
    )
    found = await broken.recover(parallel=1)
    assert [one.run_id for one in found] == ["a", "b", "c"]
    assert [one.error is None for one in found] == [True, False, True]
    assert isinstance(found[1].error, HoldfastError)
    assert found[1].result is None


async def test_no_more_than_asked_for_at_once() -> None:
    journal = MemoryJournal()
    for number in range(9):
        await interrupt(journal, f"{number}", CALLED)
    at_once = most = 0

    @tool(effect="read")
    async def pay(amount: int) -> str:
        """Pay."""
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        at_once -= 1
        return "paid"

    found = await agent(journal, tools=[pay]).recover(parallel=3)
    assert len(found) == 9
    assert most == 3
    for parallel in (0, "many"):
        with pytest.raises(ConfigurationError, match="parallel"):
            await agent(journal).recover(parallel=parallel)  # type: ignore[arg-type]


async def test_what_this_agent_works_on_is_left_alone() -> None:
    journal, waiting, go = MemoryJournal(), asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def pay(amount: int) -> str:
        """Pay."""
        waiting.set()
        await go.wait()
        return "paid"

    busy = agent(journal, tools=[pay])
    runs = [asyncio.ensure_future(busy.run("go", session=session)) for session in ("s", None)]
    await waiting.wait()
    while len(await journal.runs(turn_open=True)) < 2:
        await asyncio.sleep(0)
    assert await busy.recover() == []
    go.set()
    assert [(await run).output for run in runs] == ["done", "done"]


async def test_a_run_that_waits_for_an_answer_waits_on_and_goes_on_when_it_has_one() -> None:
    @tool(effect="write")
    async def pay(amount: int, context: ToolContext) -> str:
        """Pay."""
        answer = await context.ask(PermissionQuestion(tool="pay"))
        return f"paid: {answer}"

    journal = MemoryJournal()
    asking = agent(journal, tools=[pay], on_wait="suspend")
    result = await asking.run("go", session="s")
    assert result.status is Status.WAITING
    assert await asking.recover() == []
    (question,) = await asking.questions("s")
    assert await asking.answer("s", question.approve())
    found = await agent(journal, tools=[pay], on_wait="suspend").recover()
    assert [(one.run_id, one.result.status) for one in found] == [("s", Status.COMPLETED)]


async def test_without_a_journal_there_is_nothing_to_recover_from() -> None:
    with pytest.raises(ConfigurationError, match="journal"):
        await agent(None).recover()


class TestAnAgentThatChanged:
    """What can go on goes on; the rest is an error that says what is the matter."""

    async def test_a_tool_that_vanished_before_it_ran(self) -> None:
        journal = MemoryJournal()
        await interrupt(journal, "s", CALLED)
        (found,) = await agent(journal, tools=[]).recover()
        assert found.result.output == "done"
        assert "not" in texts_of_results(found.result.messages)[0]

    async def test_a_tool_that_vanished_after_it_began_is_in_doubt(self) -> None:
        journal = MemoryJournal()
        await interrupt(journal, "s", BEGUN, effect="read")
        (found,) = await agent(journal, tools=[]).recover()
        assert "Whether it took effect is unknown" in texts_of_results(found.result.messages)[0]
        assert found.result.output == "done"

    async def test_a_tool_that_vanished_after_it_ended_is_not_missed(self) -> None:
        journal = MemoryJournal()
        await interrupt(journal, "s", PAID)
        (found,) = await agent(journal, tools=[]).recover()
        assert texts_of_results(found.result.messages) == ["paid"]

    async def test_a_tool_with_other_arguments_is_called_again_by_the_model(self) -> None:
        @tool(effect="write")
        def pay(euros: float, to: str) -> str:
            """Pay."""
            raise AssertionError

        journal = MemoryJournal()
        await interrupt(journal, "s", CALLED)
        (found,) = await agent(journal, tools=[pay]).recover()
        assert "euros" in texts_of_results(found.result.messages)[0]
        assert found.result.output == "done"

    @pytest.mark.parametrize(
        ("before", "after", "paid"),
        [("read", "write", []), ("write", "read", [5]), ("write", "idempotent", [5])],
    )
    async def test_what_a_tool_is_declared_as_now_decides(
        self, before: str, after: str, paid: list[int]
    ) -> None:
        journal, done = MemoryJournal(), []
        await interrupt(journal, "s", BEGUN, effect=before)
        (found,) = await agent(journal, effect=after, paid=done).recover()
        assert done == paid
        assert found.result.output == "done"

    async def test_another_type_of_answer_takes_the_turns_before_as_they_were(self) -> None:
        class Trip(BaseModel):
            city: str

        def trip(request: ModelRequest) -> str:
            return '{"city": "Porto"}'

        journal = MemoryJournal()
        await agent(journal).run("go", session="s")
        await interrupt(journal, "s", 1)
        typed = Agent(ScriptedModel(*[trip] * 3), name="payer", output=Trip, journal=journal)
        (found,) = await typed.recover()
        assert found.error is None
        result = await typed.run("more", session="s")
        assert result.output == Trip(city="Porto")
        assert (await agent(journal).run("and now?", session="s")).output == "done"

    async def test_an_agent_of_another_name_is_asked_for_its_run(self) -> None:
        journal = MemoryJournal()
        await interrupt(journal, "s")
        renamed = agent(journal, name="cashier")
        assert await renamed.recover() == []
        assert (await renamed.resume("s")).output == "done"


# A program serves messages while old turns are recovered.

LEFT = ("ada", "bob", "cleo")


@pytest.fixture(params=["memory", "sqlite"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journal]:
    kept = MemoryJournal() if request.param == "memory" else SqliteJournal(tmp_path / "s.db")
    for session in LEFT:
        crashed = Agent(ScriptedModel("x"), journal=CrashAt(kept, 2, before=True))
        with pytest.raises(SimulatedCrash):
            await crashed.run("Old.", session=session)
    yield kept
    if isinstance(kept, SqliteJournal):
        kept.close()


class Provider:
    """Answers new messages at once, and old ones when it is told to."""

    def __init__(self) -> None:
        self.left = len(LEFT)
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self, request: ModelRequest) -> str:
        if request.messages[-1].text == "Old.":
            self.left -= 1
            if self.left == 0:
                self.begun.set()
            await self.go_on.wait()
        return f"re {request.messages[-1].text}"


def new_agent(provider: Provider, journal: Journal, **options: object) -> Agent[str]:
    return Agent(ScriptedModel(*[provider] * 9), journal=journal, **options)  # type: ignore[arg-type]


async def test_new_turns_run_while_old_ones_are_recovered(journal: Journal) -> None:
    provider = Provider()
    agent = new_agent(provider, journal, on_busy="refuse")
    recovery = asyncio.create_task(agent.recover())
    await provider.begun.wait()
    assert (await agent.run("New.", session="dan")).output == "re New."
    assert (await agent.run("New.")).output == "re New."
    for session in LEFT:
        with pytest.raises(SessionBusyError):
            await agent.run("New.", session=session)
    provider.go_on.set()
    assert [found.status for found in await recovery] == [RecoveryStatus.RECOVERED] * 3
    assert (await agent.run("New.", session="ada")).output == "re New."


async def test_a_message_for_a_session_in_recovery_waits_for_it(journal: Journal) -> None:
    provider = Provider()
    agent = new_agent(provider, journal)
    recovery = asyncio.create_task(agent.recover())
    await provider.begun.wait()
    waiting = asyncio.create_task(agent.run("New.", session="ada"))
    provider.go_on.set()
    await recovery
    assert [message.text for message in (await waiting).messages] == [
        "Old.", "re Old.", "New.", "re New.",
    ]  # fmt: skip


async def test_a_turn_in_progress_is_not_recovered(journal: Journal) -> None:
    provider = Provider()
    agent, other = new_agent(provider, journal), new_agent(provider, journal)
    provider.left = 1
    turn = asyncio.create_task(agent.run("Old.", session="dan"))
    await provider.begun.wait()
    assert {entry.run for entry in await agent.open_runs()} == set(LEFT)
    assert {entry.run for entry in await other.open_runs()} == set(LEFT)
    provider.go_on.set()
    assert {found.run_id for found in await other.recover()} == set(LEFT)
    assert (await turn).output == "re Old."


async def test_open_runs_are_recovered_one_by_one(journal: Journal) -> None:
    provider = Provider()
    provider.go_on.set()
    agent = new_agent(provider, journal)
    found = await agent.open_runs()
    for entry in found:
        (recovered,) = await agent.recover(runs=[entry.run])
        assert (recovered.run_id, recovered.status) == (entry.run, RecoveryStatus.RECOVERED)
    assert {entry.run for entry in found} == set(LEFT)
    assert await agent.open_runs() == []
    assert await agent.recover(runs=["ada", "nobody"]) == []


async def test_a_session_that_waits_is_never_busy_with_a_recovery() -> None:
    @tool(effect="write")
    async def book(ctx: ToolContext) -> str:
        """Book after asking."""
        return await ctx.ask(ClarificationQuestion(question="Which class?"))

    class Watched(MemoryJournal):
        """Answers a question while the records are read for a recovery."""

        async def read(self, run: str, start: int = 0) -> Sequence[Record]:
            found = await super().read(run, start)
            await asyncio.sleep(0)
            return found

    journal = Watched()
    model = ScriptedModel(ToolCall("c", "book", "{}"), "Booked.")
    agent = Agent(model, tools=[book], journal=journal, on_wait="suspend", on_busy="refuse")
    waiting = await agent.run("Book.", session="ada")
    recovery = asyncio.create_task(agent.recover())
    await asyncio.sleep(0)
    await agent.answer("ada", waiting.questions[0], "first")
    assert (await agent.resume("ada")).output == "Booked."
    assert await recovery == []


@pytest.mark.parametrize("runs", ["ada", 7, [7], [None]])
async def test_anything_but_run_ids_is_refused(journal: Journal, runs: object) -> None:
    with pytest.raises(ConfigurationError, match="runs"):
        await new_agent(Provider(), journal).recover(runs=runs)  # type: ignore[arg-type]


# A turn that cancels its own task does not stop a recovery.


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "a wall"


async def done(_: ModelRequest) -> str:
    return "Done."


async def stray(_: ModelRequest) -> str:
    """Cancel the turn."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    return await asyncio.Event().wait()  # type: ignore[return-value]


async def test_a_turn_that_cancels_its_own_task_is_one_outcome_of_a_recovery() -> None:
    journal = MemoryJournal()
    for session in "abc":
        model = ScriptedModel(ToolCall("c", "look", "{}"))
        agent = Agent(model, tools=[look], journal=CrashAt(journal, 3))
        with pytest.raises(SimulatedCrash):
            await agent.run("Go.", session=session)
    again = Agent(ScriptedModel(done, stray, done), tools=[look], journal=journal)
    first, second, third = await again.recover()
    assert first.result is not None
    assert third.result is not None
    assert isinstance(second.error, HoldfastError)
    assert second.error.info.category is ErrorCategory.CANCELLED
    assert await journal.runs(turn_open=True) == []


async def test_a_recovery_that_is_cancelled_is_cancelled() -> None:
    begun = asyncio.Event()

    @tool(effect="read")
    async def hang() -> str:
        """Hang."""
        begun.set()
        return await asyncio.Event().wait()  # type: ignore[return-value]

    journal = MemoryJournal()
    model = ScriptedModel(ToolCall("c", "hang", "{}"))
    with pytest.raises(SimulatedCrash):
        await Agent(model, tools=[hang], journal=CrashAt(journal, 3)).run("Go.", session="s")
    task = asyncio.create_task(Agent(model, tools=[hang], journal=journal).recover())
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
