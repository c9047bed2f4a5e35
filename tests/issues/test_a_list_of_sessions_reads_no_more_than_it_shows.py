"""To list 20 sessions, or to describe, fork or delete one, all runs of a journal were read."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.postgres_server import PostgresServer

from holdfast import Agent, Sessions, SqliteJournal
from holdfast.core.events import SessionTitled, Status, TurnClosed, TurnOpened
from holdfast.core.messages import user
from holdfast.journal import sqlite_queries
from holdfast.journal.port import Record, RunEntry
from holdfast.journal.postgres import PostgresJournal
from holdfast.journal.sqlite_schema import SCHEMA
from holdfast.sessions.session_index import ScanningIndex, SessionIndex
from holdfast.testing import ScriptedModel


@pytest.fixture(params=["sqlite", "postgres"])
def journal(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[SqliteJournal | PostgresJournal]:
    if request.param == "sqlite":
        with SqliteJournal(tmp_path / "talk.db") as opened:
            yield opened
        return
    postgres: PostgresServer = request.getfixturevalue("postgres")
    with PostgresJournal(postgres.new_url()) as shared:
        yield shared


async def test_the_runs_are_not_listed(
    journal: SqliteJournal | PostgresJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(journal, SessionIndex)
    agent = Agent(ScriptedModel("Hi"), journal=journal)
    await agent.run("Hi", session="ada")
    await agent.sessions.rename("ada", "Ada")

    async def refuse(*, turn_open: bool = False) -> Sequence[RunEntry]:
        raise AssertionError("all runs were listed")

    monkeypatch.setattr(journal, "runs", refuse)
    await agent.sessions.fork("ada", to="eve")
    lines = [line async for line in agent.sessions.export("ada")]
    await agent.sessions.import_(lines, session="ivy")
    assert await agent.sessions.delete("ada") == 4
    assert (await agent.sessions.info("ivy")).title == "Ada"
    assert {info.session for info in await agent.sessions.list()} == {"eve", "ivy"}


async def test_the_pages_are_the_same_as_of_a_complete_list(
    journal: SqliteJournal | PostgresJournal,
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
        await journal.restore(runs)
    for number in (1, 2, 3, 6):  # also by appends
        await journal.append(f"s{number}", TurnClosed("t9", 9.0, Status.COMPLETED))
        await journal.append(f"s{number}", TurnOpened("t10", 3.0, user("Hi")))

    complete = Sessions(ScanningIndex(journal))
    wanted = [info.session for info in await complete.list(limit=1000)]
    assert len(wanted) == len(set(wanted)) > 30
    for limit in (1, 7, 1000):
        for sessions in (Sessions(journal), complete):
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

        reads = [read() for _ in range(200)]
        await asyncio.gather(*reads, append(2))
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
