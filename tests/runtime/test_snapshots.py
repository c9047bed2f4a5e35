"""A session that opens from a snapshot is the session that opens from its records."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from holdfast import Agent, Middleware, SqliteJournal, tool
from holdfast.core.messages import Reply, Text, ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.journal.journal_errors import JournalStorageError
from holdfast.journal.port import Record
from holdfast.runtime.sessions import session_pool
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio

ODD = "h\u00e9llo \x00 \u2028"


class Watched(SqliteJournal):
    """Notes how many records were left out when a session was read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.left_out: list[int] = []

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        self.left_out.append(after)
        return await super().read(run, after)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_pool, "LEAST_RECORDS", 4)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Watched]:
    with Watched(tmp_path / "talk.db") as kept:
        yield kept


@tool(effect="read")
def look(place: str) -> str:
    """Look."""
    return place


def agent(journal: SqliteJournal, seen: list[list[object]], **given: object) -> Agent[str]:
    def answer(request: ModelRequest) -> Reply | str:
        if request.messages[-1].role == "user":
            seen.append(list(request.messages))
            call = ToolCall("c", "look", '{"place": "Porto"}')
            return Reply((Text(ODD, extra={"n": [1]}), call))
        return f"re {request.messages[-3].text}"

    return Agent(ScriptedModel(*[answer] * 60), tools=[look], journal=journal, **given)  # type: ignore[arg-type]


async def talked(journal: SqliteJournal, turns: int = 4, **given: object) -> None:
    """Turns with a rewind between them."""
    one = agent(journal, [], **given)
    for number in range(turns):
        await one.run(f"{number}", session="ada")
        if number == 1:
            await one.sessions.rewind("ada", 1)


async def sent(journal: SqliteJournal, **given: object) -> list[object]:
    """What a new agent sends next."""
    seen: list[list[object]] = []
    await agent(journal, seen, **given).run("next", session="ada")
    return seen[0]


def forget_snapshots(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM snapshots")
    connection.commit()
    connection.close()


async def test_what_is_sent_is_the_same_and_fewer_records_are_read(tmp_path: Path) -> None:
    with Watched(tmp_path / "a.db") as journal:
        await talked(journal)
        fork = await agent(journal, []).sessions.fork("ada", to="bob")
        journal.left_out.clear()
        first = await sent(journal)
        assert max(journal.left_out) > 10
        assert fork == "bob"
    forget_snapshots(tmp_path / "a.db")
    with SqliteJournal(tmp_path / "a.db") as journal:
        seen: list[list[object]] = []
        await agent(journal, seen).run("next", session="bob")
        assert seen[0] == first


async def test_one_can_go_back_to_before_a_snapshot(journal: Watched) -> None:
    await talked(journal)
    await agent(journal, []).sessions.rewind("ada", 2)
    said = [message.text for message in await sent(journal) if message.role == "user"]  # type: ignore[attr-defined]
    assert said == ["0", "1", "next"]
    said = [message.text for message in await sent(journal) if message.role == "user"]  # type: ignore[attr-defined]
    assert said == ["0", "1", "next", "next"]


async def test_the_result_of_the_last_turn_is_found_again(journal: Watched) -> None:
    await talked(journal)
    result = await agent(journal, []).run("last", session="ada")
    again = await agent(journal, []).resume("ada")
    assert (again.text, again.usage, again.status) == (result.text, result.usage, result.status)
    assert list(again.messages) == list(result.messages)


@pytest.mark.parametrize(
    "spoil",
    [
        "UPDATE snapshots SET state = X'00'",
        "UPDATE snapshots SET state = substr(state, 1, 90)",
        "UPDATE snapshots SET state = CAST(replace(CAST(state AS TEXT), '0.', '9.') AS BLOB)",
        "UPDATE snapshots SET state = 'text'",
    ],
)
async def test_a_snapshot_that_cannot_be_believed_is_passed_over(
    tmp_path: Path, spoil: str
) -> None:
    with SqliteJournal(tmp_path / "a.db") as journal:
        await talked(journal)
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute(spoil)
    connection.commit()
    connection.close()
    with Watched(tmp_path / "a.db") as journal:
        texts = [message.text for message in await sent(journal) if message.role == "user"]  # type: ignore[attr-defined]
        assert texts == ["0", "2", "3", "next"]


async def test_a_session_of_the_same_name_is_not_taken_for_the_old_one(journal: Watched) -> None:
    await talked(journal)
    one = agent(journal, [])
    await one.run("other", session="bob")
    lines = [line async for line in one.sessions.export("bob")]
    await one.sessions.delete("ada")
    assert await journal.load_snapshot("ada") is None
    await one.sessions.import_(lines, session="ada")
    texts = [message.text for message in await sent(journal) if message.role == "user"]  # type: ignore[attr-defined]
    assert texts == ["other", "next"]


async def test_nothing_is_kept_of_a_session_that_was_deleted_meanwhile(journal: Watched) -> None:
    await journal.save_snapshot("ada", 3, b"my secret")
    assert await journal.load_snapshot("ada") is None


class Remembers(Middleware[int]):
    """Counts the events of the session."""

    scope = "session"
    initial = 0  # type: ignore[assignment]

    def fold(self, state: int, event: object) -> int:
        return state + 1

    async def before_turn(self, context: object) -> None:
        self.seen = context.state_of(self)  # type: ignore[attr-defined]


async def test_a_middleware_that_remembers_the_session_sees_every_event(journal: Watched) -> None:
    await talked(journal)
    counting = Remembers()
    await sent(journal, middleware=[counting])
    assert counting.seen == 19, "25 events, and 6 of them in a turn that was rewound"


async def test_a_turn_does_not_fail_when_no_snapshot_can_be_kept(
    journal: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object) -> None:
        raise JournalStorageError("talk.db", "the disk is full")

    monkeypatch.setattr(journal, "save_snapshot", full)
    await talked(journal)
    assert await journal.load_snapshot("ada") is None
    assert len(await sent(journal)) == 13


async def test_a_short_session_has_none(journal: Watched) -> None:
    await agent(journal, []).run("hi", session="ada")
    assert await journal.load_snapshot("ada") is None
