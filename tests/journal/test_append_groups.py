"""Appends that are inserted together have the outcomes that they have one by one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import Agent, SqliteJournal, Status
from holdfast.core.effects import Effect
from holdfast.core.errors import ConflictError
from holdfast.core.events import Event, SessionRewound, TurnClosed, TurnOpened
from holdfast.core.messages import user
from holdfast.core.run_fold import make_change
from holdfast.journal.journal_errors import RequestExistsError
from holdfast.journal.rows import encode_append
from holdfast.journal.sqlite import opening
from holdfast.journal.sqlite.run_heads import WriterConnection
from holdfast.journal.sqlite.sqlite_appends import Append, AppendGroup
from holdfast.testing import ScriptedModel


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[WriterConnection]:
    path = str(tmp_path / "talk.db")
    lock = opening.claim_file(path, 0)
    with closing(opening.open_connection(path, 0)) as connection:
        yield connection
    lock.release()


def opened(turn: int, at: float = 1.0, agent: str = "", request: str = "") -> TurnOpened:
    return TurnOpened(f"t{turn}", at, user("Hello"), agent=agent, request=request)


def closed(turn: int, at: float = 1.0) -> TurnClosed:
    return TurnClosed(f"t{turn}.closed", at, Status.COMPLETED)


def make(run: str, *events: Event) -> Append:
    rows = [encode_append("", run, event, None) for event in events]
    change = make_change(events[0], events[1] if len(events) > 1 else None)
    return Append("", events[0], rows, change)


def insert(connection: sqlite3.Connection, *appends: Append) -> AppendGroup:
    group = AppendGroup(appends, connection)
    group.insert()
    return group


def read_keys(connection: sqlite3.Connection) -> list[tuple[int, str, int, str]]:
    statement = (
        "SELECT r.id, name, seq, key FROM records r JOIN runs ON runs.id = run ORDER BY r.id"
    )
    return connection.execute(statement).fetchall()


def read_runs(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    columns = "name, records, opened_at, changed_at, turn_open, agent"
    return connection.execute(f"SELECT {columns} FROM runs ORDER BY name").fetchall()


def test_a_taken_key_refuses_its_own_append_only(connection: WriterConnection) -> None:
    insert(connection, make("ada", opened(1)))
    appends = make("ada", opened(2)), make("ada", opened(1)), make("bob", opened(1))
    group = insert(connection, *appends, make("ada", opened(2)), make("ada", closed(2)))
    assert list(group.refused) == [1, 3]
    assert all(isinstance(error, ConflictError) for error in group.refused.values())
    assert "'t1'" in str(group.refused[1])
    assert read_keys(connection) == [
        (1, "ada", 1, "t1"),
        (2, "ada", 2, "t2"),
        (3, "bob", 1, "t1"),
        (4, "ada", 3, "t2.closed"),
    ]
    assert [row[:2] for row in read_runs(connection)] == [("ada", 3), ("bob", 1)]


def test_a_pair_is_refused_whole_for_a_key_of_its_group(connection: WriterConnection) -> None:
    pair = make("ada", opened(2), closed(1))
    group = insert(connection, make("ada", opened(1)), make("ada", closed(1)), pair)
    assert list(group.refused) == [2]
    assert [row[3] for row in read_keys(connection)] == ["t1", "t1.closed"]
    assert read_runs(connection) == [("ada", 2, 1.0, 1.0, 0, "")]


def test_a_request_is_given_once_within_a_group(connection: WriterConnection) -> None:
    first, second = opened(1, request="order-1"), opened(1, request="order-1")
    group = insert(connection, make("ada", first), make("bob", second))
    assert isinstance(group.refused[1], RequestExistsError)
    assert [row[1] for row in read_keys(connection)] == ["ada"]


@pytest.mark.parametrize(
    ("events", "is_open", "agent"),
    [
        ([closed(1), opened(2, agent="new")], 1, "new"),
        ([closed(1), opened(2, agent="new"), closed(2)], 0, "new"),
        ([opened(2, agent="new"), closed(2), opened(3)], 1, ""),
        ([closed(1)], 0, "old"),
    ],
)
def test_the_last_event_says_whether_a_turn_is_open(
    connection: WriterConnection, events: list[Event], is_open: int, agent: str
) -> None:
    insert(connection, make("ada", opened(1, agent="old")))
    insert(connection, *(make("ada", event) for event in events))
    assert read_runs(connection) == [("ada", 1 + len(events), 1.0, 1.0, is_open, agent)]


def test_a_run_has_the_first_and_the_last_time_of_its_group(connection: WriterConnection) -> None:
    insert(connection, make("ada", opened(1, at=5.0)))
    insert(connection, make("ada", closed(1, at=7.0)), make("ada", opened(2, at=3.0)))
    insert(connection, make("ada", closed(2, at=6.0), opened(3, at=2.0)))
    assert read_runs(connection)[0][1:4] == (5, 2.0, 7.0)


def test_each_run_is_updated_once(connection: WriterConnection) -> None:
    insert(connection, make("ada", opened(1)), make("bob", opened(1)))
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    insert(connection, *(make(run, closed(n)) for n in range(1, 5) for run in ("ada", "bob")))
    assert sum("SET records" in text for text in statements) == 2
    assert [row[1] for row in read_runs(connection)] == [5, 5]


def test_a_rewind_and_the_next_turn_are_counted_once(connection: WriterConnection) -> None:
    insert(connection, make("ada", opened(1)), make("ada", closed(1)))
    rewind = make("ada", SessionRewound("t2", 1.0, 0))
    insert(connection, rewind, make("ada", opened(3)), make("ada", closed(3)))
    columns = "title, turns, messages, turn, status"
    found = connection.execute(f"SELECT {columns} FROM runs").fetchall()
    assert found == [("Hello", 1, 1, 3, "completed")]


def test_an_error_belongs_to_the_append_that_caused_it(connection: WriterConnection) -> None:
    connection.execute(
        "CREATE TRIGGER refuse BEFORE INSERT ON records WHEN new.key = 't3'"
        " BEGIN SELECT RAISE(ABORT, 'no'); END"
    )
    group = AppendGroup([make("ada", opened(n)) for n in (1, 2, 3, 4)], connection)
    with pytest.raises(sqlite3.IntegrityError, match="no"):
        group.insert()
    assert group.current == 2


async def test_a_replaced_append_is_called_for_every_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    with SqliteJournal(tmp_path / "talk.db") as journal:
        append = journal.append

        async def counting(
            run: str, event: Event, effect: Effect | None = None, *, marker: Event | None = None
        ) -> None:
            seen.extend(one.key for one in (event, marker) if one is not None)
            await append(run, event, effect, marker=marker)

        monkeypatch.setattr(journal, "append", counting)
        await Agent(ScriptedModel("Hi."), journal=journal).run("Hello")
    assert seen == ["t1", "t1.i0.model", "t1.closed"]
