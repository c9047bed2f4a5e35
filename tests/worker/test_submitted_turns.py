"""Submitted turns: their text, their names, and waits that end early."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Agent, MemoryJournal, PostgresJournal, SqliteJournal
from holdfast.errors import ConfigurationError
from holdfast.journal.port import Journal
from holdfast.runtime.queued_runs.queued_run import QueuedRun
from holdfast.runtime.queued_runs.queued_turn import decode_turn
from holdfast.testing import ScriptedModel
from holdfast.worker import Worker

# A wait that ends early.


async def submit(folder: Path) -> QueuedRun[str]:
    agent = Agent(ScriptedModel("Hello."), name="a", journal=f"sqlite:///{folder}/talk.db")
    return await agent.submit("Hi.", session="s")


async def test_a_wait_whose_time_is_over_leaves_no_task(tmp_path: Path) -> None:
    run = await submit(tmp_path)
    before = asyncio.all_tasks()
    with pytest.raises(TimeoutError):
        await run.wait(0.05)
    assert asyncio.all_tasks() == before


async def test_a_cancelled_wait_leaves_no_task(tmp_path: Path) -> None:
    run = await submit(tmp_path)
    before = asyncio.all_tasks()
    waiting = asyncio.create_task(run.wait())
    await asyncio.wait([waiting], timeout=0.05)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert asyncio.all_tasks() == before


# A message with half a surrogate pair, as in the name of a file that is not UTF-8.

TEXT = "Read caf\udce9.txt\0, please."


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def any_journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    if request.param == "memory":
        yield MemoryJournal()
    elif request.param == "sqlite":
        with SqliteJournal(tmp_path / "talk.db") as file:
            yield file
    else:
        with PostgresJournal(request.getfixturevalue("url")) as shared:
            yield shared


async def test_a_message_with_half_a_surrogate_pair_is_queued(any_journal: Journal) -> None:
    agent = Agent(ScriptedModel(lambda request: "As asked."), name="reader", journal=any_journal)
    async with Worker(agent):
        run = await agent.submit(TEXT, request="r")
        result = await run.wait(20)
        assert (await agent.submit(TEXT, request="r")).id == run.id
    assert result.text == "As asked."
    assert result.history[0].text == TEXT


def test_a_body_that_is_not_a_turn_is_refused() -> None:
    for body in (b"{", b"[]", b'{"message": 1}', b'"\\ud800"'):
        with pytest.raises(ConfigurationError, match="body: is not a turn"):
            decode_turn(body)


@pytest.mark.parametrize("by", ["ann\0", "ann\ud800"])
async def test_who_submits_or_cancels_has_a_name_that_every_journal_stores(by: str) -> None:
    agent = Agent(ScriptedModel("Hi."), name="reader", journal=MemoryJournal())
    with pytest.raises(ConfigurationError, match=r"^by: "):
        await agent.submit("Hello.", by=by)
    run = await agent.submit("Hello.")
    with pytest.raises(ConfigurationError, match=r"^by: "):
        await run.cancel(by=by)
