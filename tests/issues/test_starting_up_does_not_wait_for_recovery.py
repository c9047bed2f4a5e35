"""A program had to wait for `recover()` before it could serve its first message.

With a provider that is slow, that took as long as the slowest interrupted turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from holdfast import (
    Agent,
    ClarificationQuestion,
    ConfigurationError,
    MemoryJournal,
    SqliteJournal,
    ToolContext,
    tool,
)
from holdfast.core.messages import ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.errors import SessionBusyError
from holdfast.journal.port import Journal, Record
from holdfast.runtime.open_runs.recovery import RecoveryStatus
from holdfast.testing import CrashAt, ScriptedModel, SimulatedCrash

pytestmark = pytest.mark.anyio

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
