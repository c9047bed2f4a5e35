"""Another file takes the place of the journal of a running service: nothing is written to it."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import Path

import aiohttp
import pytest
from tests.server.serving import Api, read_problems, serve

from holdfast import Agent, Reply, SqliteJournal, ToolCall, tool
from holdfast.errors import JournalCorruptError
from holdfast.server import create_app
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio

BODY = {"agent": "worker", "wait": 20}


async def make_other(path: Path) -> bytes:
    """Make the journal of another service; return its digest."""
    with SqliteJournal(path) as journal:
        agent = Agent(ScriptedModel("Of another.", "Again."), name="worker", journal=journal)
        await agent.run("An apple.", session="ada")
        await agent.run("A pear and an apple.", session="intruder")
    return digest(path)


def digest(path: Path) -> bytes:
    """Return the digest of a file."""
    return sha256(path.read_bytes()).digest()


class Work:
    """A service whose tool ends when the test says so."""

    def __init__(self, journal: SqliteJournal) -> None:
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()

        @tool(effect="write")
        async def work() -> str:
            """Work."""
            self.begun.set()
            await self.may_end.wait()
            return "done"

        replies = ("First.", Reply((ToolCall("c", "work", "{}"),)), "All done.", "More.")
        agent = Agent(ScriptedModel(*replies), name="worker", tools=[work], journal=journal)
        self.app = create_app(agent, grace=0.5)


@pytest.mark.slow  # takes half a second or more
async def test_a_replaced_journal_is_named_and_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "talk.db"
    other = await make_other(tmp_path / "other.db")
    journal = SqliteJournal(path)
    work = Work(journal)
    async with serve(work.app) as base, Api(base) as api, aiohttp.ClientSession() as http:
        await api.post("/turns", {**BODY, "message": "An apple.", "session": "ada"})
        began = {**BODY, "message": "Work.", "session": "eve", "wait": 2}
        turn = asyncio.ensure_future(api.post("/turns", began))
        await work.begun.wait()
        async with http.get(f"{base}/ready") as ready:
            assert ready.status == 200
        (tmp_path / "other.db").rename(path)

        refused = [
            await api.post("/turns", {**BODY, "message": "More.", "session": "bob"}),
            await api.call("PATCH", "/sessions/ada", {"title": "A title"}),
            await api.post("/sessions/ada/fork"),
            await api.post("/sessions/ada/rewind", {"to": 0}),
            await api.call("DELETE", "/sessions/ada"),
            await api.get("/sessions?q=apple"),  # read by a connection of its own
        ]
        for answer in refused:
            assert (answer.status, answer.json["kind"]) == (503, "journal"), answer.body
        assert "was replaced while it was open" in caplog.text
        problems = await read_problems(http, base)
        assert problems["journal"] == "does not work: JournalStorageError"
        # What was acknowledged is nowhere else, so it can still be read; nothing of the other file can.
        history = (await api.get("/sessions/ada/history")).json
        assert [point["text"] for point in history["points"]] == ["An apple."]
        assert (await api.get("/sessions/intruder")).status == 404
        work.may_end.set()
        assert (await turn).json["status"] == "open"
    journal.close()
    assert digest(path) == other
    with pytest.raises(JournalCorruptError, match="belongs to another database"):
        SqliteJournal(path)
    assert digest(path) == other


async def test_a_replaced_store_of_keys_is_named_and_left_alone(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "talk.db")
    with SqliteJournal(tmp_path / "other.db") as another:
        async with serve(Work(another).app) as base, Api(base) as api:
            assert (await api.get("/sessions")).status == 200
    store, other = tmp_path / "talk.db-service.db", tmp_path / "other.db-service.db"
    async with serve(Work(journal).app) as base, Api(base) as api, aiohttp.ClientSession() as http:
        key = {"Idempotency-Key": "k"}
        await api.post("/turns", {**BODY, "message": "An apple.", "session": "ada"}, headers=key)
        before = digest(other)
        other.rename(store)
        answer = await api.post("/sessions/ada/fork", {}, headers=key)
        assert (answer.status, answer.json["kind"]) == (503, "journal")
        problems = await read_problems(http, base)
        assert problems["store"] == "does not work: JournalStorageError"
        assert digest(store) == before
    journal.close()
    assert digest(store) == before
