"""A journal finds the open questions of a page of sessions with one read, and every journal finds the same."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import pytest

from holdfast import MemoryJournal, PostgresJournal, SqliteJournal
from holdfast.core.events import (
    Event,
    QuestionAnswered,
    QuestionAsked,
    SessionTitled,
    Status,
    TurnClosed,
    TurnOpened,
)
from holdfast.core.messages import user
from holdfast.journal import open_questions
from holdfast.journal.open_questions import ListedQuestion, QuestionQuery
from holdfast.sessions.session_index import ScanningIndex, SessionIndex, to_index

Found: TypeAlias = list[tuple[str, str, str]]


@pytest.fixture(params=["memory", "sqlite", "postgres", "scanning"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> SessionIndex:
    """A journal of each kind."""
    match request.param:
        case "sqlite":
            return SqliteJournal(tmp_path / "talk.db")
        case "postgres":
            return PostgresJournal(request.getfixturevalue("url"))
        case "memory":
            return to_index(MemoryJournal())
        case _:
            return ScanningIndex(MemoryJournal())


def ask(key: str, at: float) -> QuestionAsked:
    return QuestionAsked(f"{key}.asked", at, "PermissionQuestion", {"tool": key})


def open_turn(at: float, agent: str = "clerk") -> TurnOpened:
    return TurnOpened("t1", at, user("Pay."), agent=agent)


HISTORIES: dict[str, tuple[Event, ...]] = {
    "late": (open_turn(1.0), ask("t1.i0.tool.0.ask.0", 9.0)),
    "two": (open_turn(1.0), ask("t1.i0.tool.0.ask.0", 2.0), ask("t1.i0.tool.1.ask.0", 3.0)),
    "half": (
        open_turn(1.0, "other"),
        ask("t1.i0.tool.0.ask.0", 2.0),
        ask("t1.i0.tool.1.ask.0", 3.0),
        QuestionAnswered("t1.i0.tool.0.ask.0", 4.0, True),
    ),
    "answered": (
        open_turn(1.0),
        ask("t1.i0.tool.0.ask.0", 2.0),
        QuestionAnswered("t1.i0.tool.0.ask.0", 3.0, True),
    ),
    "ended": (
        open_turn(1.0),
        ask("t1.i0.tool.0.ask.0", 2.0),
        TurnClosed("t1.closed", 3.0, Status.CANCELLED),
    ),
    "two/t1.i0.tool.5": (open_turn(1.0), ask("t1.i0.tool.0.ask.0", 2.0)),
    "two/:title": (SessionTitled("t1", 1.0, "Both"),),
}


async def fill(index: SessionIndex) -> None:
    for run, events in HISTORIES.items():
        for event in events:
            await index.append(run, event)
    await index.for_tenant("acme").append("two", open_turn(1.0))
    await index.for_tenant("acme").append("two", ask("t1.i0.tool.0.ask.0", 2.0))


def show(found: Sequence[ListedQuestion]) -> Found:
    return [
        (one.run, one.title, one.event.key.removeprefix("t1.i0.tool.").removesuffix(".asked"))
        for one in found
    ]


TWO: Found = [("two", "Both", "0.ask.0"), ("two", "Both", "1.ask.0")]
HALF: Found = [("half", "Pay.", "1.ask.0")]
LATE: Found = [("late", "Pay.", "0.ask.0")]


async def test_the_session_that_waits_longest_comes_first(index: SessionIndex) -> None:
    await fill(index)
    found = await index.list_questions(QuestionQuery(limit=10))
    assert show(found) == [*TWO, *HALF, *LATE]
    assert [one.agent for one in found] == ["clerk", "clerk", "other", "clerk"]
    assert [one.changed_at for one in found] == [3.0, 3.0, 4.0, 9.0]
    assert found[0].event == HISTORIES["two"][1]


async def test_a_page_has_whole_sessions_and_the_next_begins_after_it(index: SessionIndex) -> None:
    await fill(index)
    assert show(await index.list_questions(QuestionQuery(limit=1))) == TWO
    after = (3.0, "two")
    assert show(await index.list_questions(QuestionQuery(limit=1, after=after))) == HALF
    assert show(await index.list_questions(QuestionQuery(limit=9, after=(4.0, "half")))) == LATE
    assert await index.list_questions(QuestionQuery(limit=9, after=(9.0, "late"))) == []
    of_agent = QuestionQuery(limit=9, agent="other")
    assert show(await index.list_questions(of_agent)) == HALF


async def test_sqlite_finds_questions_by_indexes(tmp_path: Path) -> None:
    index = SqliteJournal(tmp_path / "talk.db")
    await fill(index)
    index.close()
    values = QuestionQuery(limit=5).make_values("")
    with sqlite3.connect(tmp_path / "talk.db") as connection:
        for statement, given in (
            (open_questions.SQLITE_SESSIONS, values),
            (open_questions.SQLITE_QUESTIONS, ("[]",)),
        ):
            plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", given).fetchall()
            read = [str(step[-1]) for step in plan if str(step[-1]).startswith(("SCAN", "SEARCH"))]
            assert [step for step in read if step.startswith("SCAN") and "asked" not in step] == []
    connection.close()
