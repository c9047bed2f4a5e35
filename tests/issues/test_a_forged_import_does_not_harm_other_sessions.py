"""A line made up for the purpose, with sums that fit, failed what others wrote to the file meanwhile."""

from __future__ import annotations

import asyncio
import json
import threading
from hashlib import blake2b
from pathlib import Path

import pytest
from tests.postgres_server import PostgresServer

from holdfast import Agent, SqliteJournal
from holdfast.core.errors import ConfigurationError
from holdfast.journal.journal_errors import JournalCorruptError
from holdfast.journal.port import Record
from holdfast.journal.url import open_journal
from holdfast.journal.writer import WriterJob
from holdfast.testing import ScriptedModel
from holdfast.testing.journal_conformance import make_turn_opened, read_keys


def summed(lines: list[dict[str, object]]) -> list[str]:
    """Lines as an export has them, whatever they say."""
    last, found = "", []
    for line in lines:
        text = json.dumps(line, separators=(",", ":"))
        last = blake2b((last + text).encode(), digest_size=8).hexdigest()
        found.append(f'{text[:-1]},"sum":"{last}"}}')
    return found


@pytest.mark.parametrize(
    "made_up",
    [
        {"digest": "\ud800"},
        {"at": float("nan")},
        {"at": float("inf")},
        {"run": "\ud800"},
        {"key": "t1\ud800"},
        {"at": "\ud800"},
        {"seq": "\ud800"},
    ],
)
async def test_it_is_refused_and_nothing_is_kept(
    tmp_path: Path, made_up: dict[str, object]
) -> None:
    with SqliteJournal(tmp_path / "talk.db") as journal:
        agent = Agent(ScriptedModel("Hi"), journal=journal)
        await agent.run("Hi", session="ada")
        lines = [json.loads(line) async for line in agent.sessions.export("ada")]
        for line in lines:
            del line["sum"]
        lines[0].update(made_up)
        with pytest.raises((ConfigurationError, JournalCorruptError)):
            await agent.sessions.import_(summed(lines), session="evil")
        assert [entry.run for entry in await journal.runs()] == ["ada"]


async def test_what_is_written_at_the_same_time_is_kept(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "talk.db") as journal:
        begun, blocker = threading.Event(), threading.Event()

        def hold(_: object) -> None:
            begun.set()
            blocker.wait()

        journal._writer.submit(WriterJob(hold, writes=False))
        begun.wait()  # what is queued from now on becomes one group
        acts = [
            asyncio.ensure_future(journal.append("ada", make_turn_opened(1))),
            asyncio.ensure_future(
                journal.restore({"evil": [Record(make_turn_opened(1), "\ud800")]})
            ),
            asyncio.ensure_future(journal.append("ada", make_turn_opened(2))),
        ]
        await asyncio.sleep(0)
        blocker.set()
        outcomes = await asyncio.gather(*acts, return_exceptions=True)
        assert [type(one) for one in outcomes] == [type(None), ConfigurationError, type(None)]
        assert await read_keys(journal, "ada") == ["t1", "t2"]


async def test_an_agent_takes_no_session_that_stands_beside_another(tmp_path: Path) -> None:
    """It was taken, and then never listed, and forgotten with the other one."""
    with SqliteJournal(tmp_path / "talk.db") as journal:
        agent = Agent(ScriptedModel("Hi", "Hi"), journal=journal)
        for name in ("ada/t1.i0.tool.0", "ada/:title"):
            with pytest.raises(ConfigurationError, match="is reserved for the titles"):
                await agent.run("Hi", session=name)
        await agent.run("Hi", session="ada/tea")
        assert [info.session for info in await agent.sessions.list()] == ["ada/tea"]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_name_that_is_no_text_does_not_spoil_the_list_of_all(
    tmp_path: Path, postgres: PostgresServer, kind: str
) -> None:
    """The list of all sessions shows who was asked last, and could not be read any more."""
    url = f"sqlite:///{tmp_path}/talk.db" if kind == "sqlite" else postgres.new_url()
    with open_journal(url) as journal:  # type: ignore[union-attr]  # no memory
        with pytest.raises(ConfigurationError, match="name"):
            await Agent(ScriptedModel("Hi"), name="\ud800", journal=journal).run("Hi")
        agent = Agent(ScriptedModel("Hi"), journal=journal)
        await agent.run("Hi", session="ada")
        lines = [json.loads(line) async for line in agent.sessions.export("ada")]
        for line in lines:
            del line["sum"]
        lines[0]["event"]["agent"] = "\ud800"
        with pytest.raises(ConfigurationError, match="name"):
            await agent.sessions.import_(summed(lines), session="evil")
        assert [info.session for info in await agent.sessions.list()] == ["ada"]
