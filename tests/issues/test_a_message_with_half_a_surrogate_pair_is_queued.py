"""A message with a name of a file in it that is no UTF-8 was run, and could not be submitted: UnicodeEncodeError."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Agent, MemoryJournal, PostgresJournal, SqliteJournal
from holdfast.errors import ConfigurationError
from holdfast.journal.port import Journal
from holdfast.runtime.queued_runs.queued_turn import decode_turn
from holdfast.testing import ScriptedModel
from holdfast.worker import Worker

pytestmark = pytest.mark.anyio

TEXT = "Read caf\udce9.txt\0, please."


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    if request.param == "memory":
        yield MemoryJournal()
    elif request.param == "sqlite":
        with SqliteJournal(tmp_path / "talk.db") as file:
            yield file
    else:
        with PostgresJournal(request.getfixturevalue("url")) as shared:
            yield shared


async def test_the_turn_is_done_with_its_text(journal: Journal) -> None:
    agent = Agent(ScriptedModel(lambda request: "As asked."), name="reader", journal=journal)
    async with Worker(agent):
        run = await agent.submit(TEXT, request="r")
        result = await run.wait(20)
        assert (await agent.submit(TEXT, request="r")).id == run.id
    assert result.text == "As asked."
    assert result.history[0].text == TEXT


def test_what_is_no_turn_is_refused_by_its_name() -> None:
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
