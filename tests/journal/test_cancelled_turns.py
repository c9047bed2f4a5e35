"""After a turn is cancelled at any moment, the session continues."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from holdfast import Agent, SqliteJournal, tool
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import ToolCall
from holdfast.journal.sqlite.writer import WriterJob
from holdfast.testing import ScriptedModel
from holdfast.testing.journal_conformance import make_turn_opened


@tool(effect="read")
async def look(n: int) -> str:
    """Look."""
    return str(n)


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("passes", range(0, 60, 3))
async def test_after_a_cancellation_at_any_append_the_next_turn_works(
    tmp_path: Path, passes: int
) -> None:
    calls = (ToolCall("a", "look", '{"n": 1}'), ToolCall("b", "look", '{"n": 2}'))
    with SqliteJournal(tmp_path / "talk.db") as journal:
        script = ScriptedModel(calls, "one")
        agent = Agent(script, tools=[look], journal=journal)
        turn = asyncio.ensure_future(agent.run("go", session="s"))
        for _ in range(passes):
            await asyncio.sleep(0 if passes % 2 else 0.0005)
        turn.cancel()
        await asyncio.wait([turn])
        script._script[:] = ["fine"]
        assert (await agent.run("again", session="s")).output == "fine"
        machine = SessionMachine()
        for record in await journal.read("s"):
            machine.apply(record.event)
        assert machine.transcript[-1].text == "fine"


@pytest.mark.parametrize("at", range(1, 8))
async def test_a_turn_cancelled_while_a_record_is_written_has_the_state_of_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    # The append of this number is cancelled when it is too late to withdraw its record.
    with SqliteJournal(tmp_path / "talk.db") as journal:
        script = ScriptedModel((ToolCall("a", "look", '{"n": 1}'),), "one")
        agent = Agent(script, tools=[look], journal=journal)
        append, seen = journal._writer.submit, 0

        def submit(act: WriterJob[object]) -> WriterJob[object]:
            nonlocal seen
            append(act)
            seen += act.writes
            if act.writes and seen == at:
                while not act._claim_lock.locked():
                    pass
                turn.cancel()
            return act

        monkeypatch.setattr(journal._writer, "submit", submit)
        turn = asyncio.ensure_future(agent.run("go", session="s"))
        await asyncio.wait([turn])
        script._script[:] = ["fine"]
        assert (await agent.run("again", session="s")).output == "fine"


async def test_a_record_withdrawn_from_the_queue_is_never_written(tmp_path: Path) -> None:
    begun, free = threading.Event(), threading.Event()

    def busy(connection: sqlite3.Connection) -> None:
        begun.set()
        free.wait(60)

    with SqliteJournal(tmp_path / "talk.db") as journal:
        first = journal._writer.submit(WriterJob(busy, writes=False))
        await asyncio.to_thread(begun.wait, 60)
        append = asyncio.ensure_future(journal.append("s", make_turn_opened(1)))
        await asyncio.sleep(0)
        append.cancel()
        await asyncio.wait([append])
        assert append.cancelled()
        free.set()
        await first
        assert await journal.read("s") == []
        await journal.append("s", make_turn_opened(1))
