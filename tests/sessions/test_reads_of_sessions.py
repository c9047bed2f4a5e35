"""A change of one session reads no other, a list reads its page, and no append waits for a long session."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.postgres_server import PostgresServer

from holdfast import Agent, Sessions, SqliteJournal
from holdfast.core.events import ModelReplied, SessionTitled, Status, TurnClosed, TurnOpened
from holdfast.core.messages import Media, Reply, Text, user
from holdfast.journal.files.sqlite_schema import SCHEMA
from holdfast.journal.port import Record, RunEntry
from holdfast.journal.postgres.postgres_journal import PostgresJournal
from holdfast.journal.sqlite import hidden_runs, sqlite_queries
from holdfast.journal.sqlite.writer import WriterJob
from holdfast.sessions.session_index import ScanningIndex, SessionIndex
from holdfast.testing import ScriptedModel


async def test_no_record_of_another_session_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqliteJournal(tmp_path / "talk.db") as journal:
        agent = Agent(ScriptedModel("Hi", "Hello"), journal=journal)
        await agent.run("Hi", session="ada")
        await agent.run("Hello", session="bob")
        await agent.sessions.rename("ada", "Ada")

        read: list[str] = []
        records = journal.read

        async def noted(run: str, after: int = 0) -> object:
            read.append(run)
            return await records(run, after)

        monkeypatch.setattr(journal, "read", noted)
        await agent.sessions.fork("ada", to="eve")
        lines = [line async for line in agent.sessions.export("ada")]
        await agent.sessions.import_(lines, session="ivy")
        assert await agent.sessions.delete("ada") == 4
        assert set(read) == {"ada", "ada/:title", "ivy", "ivy/:title"}  # an import is read again
        assert {info.session for info in await agent.sessions.list()} == {"bob", "eve", "ivy"}


@pytest.fixture(params=["sqlite", "postgres"])
def any_journal(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[SqliteJournal | PostgresJournal]:
    if request.param == "sqlite":
        with SqliteJournal(tmp_path / "talk.db") as opened:
            yield opened
        return
    postgres: PostgresServer = request.getfixturevalue("postgres")
    with PostgresJournal(postgres.new_url()) as shared:
        yield shared


async def test_a_change_of_one_session_does_not_list_the_runs(
    any_journal: SqliteJournal | PostgresJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(any_journal, SessionIndex)
    agent = Agent(ScriptedModel("Hi"), journal=any_journal)
    await agent.run("Hi", session="ada")
    await agent.sessions.rename("ada", "Ada")

    async def refuse(*, turn_open: bool = False) -> Sequence[RunEntry]:
        raise AssertionError("all runs were listed")

    monkeypatch.setattr(any_journal, "runs", refuse)
    await agent.sessions.fork("ada", to="eve")
    lines = [line async for line in agent.sessions.export("ada")]
    await agent.sessions.import_(lines, session="ivy")
    assert await agent.sessions.delete("ada") == 4
    assert (await agent.sessions.info("ivy")).title == "Ada"
    assert {info.session for info in await agent.sessions.list()} == {"eve", "ivy"}


@pytest.mark.slow  # takes half a second or more
async def test_the_pages_are_the_same_as_of_a_complete_list(
    any_journal: SqliteJournal | PostgresJournal,
) -> None:
    rng = random.Random(7)
    for number in range(40):
        name, at = f"s{number}", float(rng.randrange(6))
        records = [Record(TurnOpened("t1", at, user("Hi")))]
        if number % 3:
            records.append(Record(TurnClosed("t1.closed", at + rng.randrange(3), Status.COMPLETED)))
        runs = {f"{name}/t1.i0.tool.0": records}
        if number % 4:
            runs[name] = records
        if number % 5 < 2:
            runs[f"{name}/:title"] = [Record(SessionTitled("t1", at, f"Title {number}"))]
        await any_journal.restore(runs)
    for number in (1, 2, 3, 6):  # also by appends
        await any_journal.append(f"s{number}", TurnClosed("t9", 9.0, Status.COMPLETED))
        await any_journal.append(f"s{number}", TurnOpened("t10", 3.0, user("Hi")))

    complete = Sessions(ScanningIndex(any_journal))
    wanted = [info.session for info in await complete.list(limit=1000)]
    assert len(wanted) == len(set(wanted)) > 30
    for limit in (1, 7, 1000):
        for sessions in (Sessions(any_journal), complete):
            found: list[str] = []
            page = await sessions.list(limit=limit)
            while page:
                found += [info.session for info in page]
                page = await sessions.list(limit=limit, before=page[-1])
            assert found == wanted


def test_sqlite_finds_the_runs_by_an_index() -> None:
    connection = sqlite3.connect(":memory:")
    for statement in SCHEMA:
        connection.execute(statement)
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    sqlite_queries.select_recent_runs("", 20, (2.0, "a"), connection)
    sqlite_queries.select_next_runs("", "a", connection, turn_open=True)
    sqlite_queries.select_next_runs("", "a", connection, turn_open=False)
    sqlite_queries.select_runs_between("", "a", "b", connection)
    connection.set_trace_callback(None)
    assert len(statements) == 5
    for statement in statements:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}")]
        assert len(plan) == 1, plan
        assert plan[0].startswith("SEARCH runs USING INDEX"), plan


async def test_an_append_waits_for_a_few_reads_only(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "talk.db") as journal:
        await journal.append("r", TurnOpened("t1", 1.0, user("Hi")))
        ended: list[str] = []

        async def read() -> None:
            await journal.read("r")
            ended.append("read")

        async def append(number: int) -> None:
            await journal.append("r", TurnOpened(f"t{number}", 1.0, user("Hi")))
            ended.append("append")

        # All of them wait when the thread comes to the first one, however slow it or the loop is.
        has_begun, gate = threading.Event(), threading.Event()

        def hold(_: object) -> None:
            has_begun.set()
            gate.wait(60)

        journal._writer.submit(WriterJob(hold, writes=False))
        await asyncio.to_thread(has_begun.wait, 60)
        waiting = [asyncio.ensure_future(one) for one in (*[read() for _ in range(200)], append(2))]
        while journal._writer._queue.qsize() <= 200:
            await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(*waiting)
        assert ended.index("append") < 50


def test_a_search_reads_the_records_of_its_piece_only() -> None:
    connection = sqlite3.connect(":memory:")
    for statement in SCHEMA:
        connection.execute(statement)
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    sqlite_queries.find_words("", ["north"], 1000, connection)
    connection.set_trace_callback(None)
    statement = statements[-1]
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}")]
    assert plan[0].startswith("SEARCH records USING INTEGER PRIMARY KEY (rowid>")
    assert plan[1].startswith("SEARCH runs USING INTEGER PRIMARY KEY (rowid=")


TURNS = 1500


def make_turn(turn: int, *parts: Media) -> list[Record]:
    return [
        Record(TurnOpened(f"t{turn}", 1.0, user("What does secretly written mean?", *parts))),
        Record(ModelReplied(f"t{turn}.i0.model", 1.0, Reply((Text("No idea. " * 50),)))),
        Record(TurnClosed(f"t{turn}.closed", 1.0, Status.COMPLETED)),
    ]


@pytest.fixture
async def long_journal(tmp_path: Path) -> AsyncIterator[SqliteJournal]:
    with SqliteJournal(tmp_path / "talk.db") as journal:
        records = [record for turn in range(1, TURNS + 1) for record in make_turn(turn)]
        await journal.restore({"long": records})
        yield journal


async def count_appends(journal: SqliteJournal, beside: Awaitable[object]) -> int:
    """Append one record after another until something else is done; return how many were saved."""
    task, count = asyncio.ensure_future(beside), 0
    while not task.done():
        await journal.append("turn", TurnOpened(f"t{count}", 1.0, user("Hi.")))
        count += 1
    await task
    return count


async def test_appends_continue_while_a_long_session_is_deleted(
    long_journal: SqliteJournal,
) -> None:
    assert await count_appends(long_journal, long_journal.delete("long")) > 10
    assert await long_journal.read("long") == []


@pytest.mark.slow  # takes half a second or more
async def test_appends_continue_while_a_long_session_is_copied(long_journal: SqliteJournal) -> None:
    records = await long_journal.read("long")
    assert await count_appends(long_journal, long_journal.restore({"copy": records})) > 10
    assert await long_journal.read("copy") == records


@pytest.mark.slow  # takes half a second or more
async def test_appends_continue_while_pictures_are_read(long_journal: SqliteJournal) -> None:
    """256 rows were one piece, with all their pictures."""
    pictures = [Media("image/png", bytes([turn]) * 300_000) for turn in range(1, 60)]
    records = [r for turn, picture in enumerate(pictures, 1) for r in make_turn(turn, picture)]
    await long_journal.restore({"pictures": records})
    assert await count_appends(long_journal, long_journal.read("pictures")) > 10


@pytest.mark.slow  # takes half a second or more
async def test_a_copy_that_is_cancelled_leaves_nothing(long_journal: SqliteJournal) -> None:
    records = await long_journal.read("long")
    task = asyncio.ensure_future(long_journal.restore({"copy": records}))
    while not await long_journal._read(hidden_runs.find_hidden):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert await long_journal.read("copy") == []
    assert await long_journal.tenants() == [""]
    while await long_journal._read(hidden_runs.find_hidden):
        await asyncio.sleep(0.01)
    assert await long_journal.count_orphans() == 0
    await long_journal.restore({"copy": records})
    assert await long_journal.read("copy") == records


async def test_a_deleted_long_session_cannot_be_found_in_the_file(
    long_journal: SqliteJournal,
) -> None:
    await Sessions(long_journal).delete("long")
    files = [path for path in Path(long_journal.path).parent.iterdir() if path.is_file()]
    assert not any(b"secretly written" in path.read_bytes() for path in files)
