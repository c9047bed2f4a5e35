"""What the writer of a SQLite journal remembers of a run is forgotten when it may have changed."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import SqliteJournal
from holdfast.core.errors import ConflictError
from holdfast.core.run_fold import make_change
from holdfast.journal.rows import encode_append
from holdfast.journal.sqlite import hidden_runs, opening, run_heads
from holdfast.journal.sqlite.run_heads import WriterConnection
from holdfast.journal.sqlite.sqlite_appends import Append
from holdfast.testing.journal_conformance import make_turn_opened


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[WriterConnection]:
    path = str(tmp_path / "talk.db")
    lock = opening.claim_file(path, 0)
    with closing(opening.open_connection(path, 0)) as connection:
        yield connection
    lock.release()


def append(connection: sqlite3.Connection, turn: int, run: str = "ada") -> None:
    event = make_turn_opened(turn)
    change = make_change(event, None)
    Append("", event, [encode_append("", run, event, None)], change)(connection)


def read(connection: sqlite3.Connection) -> list[tuple[int, int, str]]:
    return connection.execute("SELECT id, seq, key FROM records ORDER BY id").fetchall()


def test_records_are_numbered_on(connection: WriterConnection) -> None:
    for turn, run in ((1, "ada"), (1, "bob"), (2, "ada"), (2, "bob")):
        append(connection, turn, run)
    assert read(connection) == [(1, 1, "t1"), (2, 1, "t1"), (3, 2, "t2"), (4, 2, "t2")]


def test_a_transaction_that_is_rolled_back_is_forgotten(connection: WriterConnection) -> None:
    append(connection, 1)
    connection.execute("BEGIN IMMEDIATE")
    append(connection, 2)
    append(connection, 1, "bob")
    connection.roll_back()
    append(connection, 3)
    append(connection, 2, "bob")
    assert read(connection) == [(1, 1, "t1"), (2, 2, "t3"), (3, 1, "t2")]


def test_a_deleted_run_begins_again_and_no_id_is_given_twice(connection: WriterConnection) -> None:
    append(connection, 1)
    append(connection, 2)
    _, left = hidden_runs.hide_runs("", ["ada"], connection)
    while left:
        left = list(hidden_runs.delete_hidden(left, connection))
    append(connection, 1)
    assert read(connection) == [(3, 1, "t1")]
    assert connection.execute("SELECT name, records FROM runs").fetchall() == [("ada", 1)]


def test_a_taken_key_changes_nothing_that_is_remembered(connection: WriterConnection) -> None:
    append(connection, 1)
    for _ in range(2):
        with pytest.raises(ConflictError, match="'t1'"):
            append(connection, 1)
    append(connection, 2)
    assert read(connection) == [(1, 1, "t1"), (2, 2, "t2")]
    assert connection.execute("SELECT records FROM runs").fetchall() == [(2,)]


def test_another_connection_is_refused() -> None:
    with closing(sqlite3.connect(":memory:")) as other, pytest.raises(TypeError, match="to write"):
        append(other, 1)


def test_hiding_many_runs_deletes_their_records_in_later_pieces(
    connection: WriterConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"run-{number}" for number in range(5)]
    for name in names:
        append(connection, 1, name)
    monkeypatch.setattr(hidden_runs, "PIECE", -1.0)
    count, left = hidden_runs.hide_runs("", names, connection)
    assert (count, len(left)) == (5, 5)
    assert not any(connection.execute("SELECT 1 FROM runs WHERE tenant = ''"))
    while left:
        left = list(hidden_runs.delete_hidden(left, connection))
    assert read(connection) == []


async def test_heads_are_forgotten_between_groups_and_never_within_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run_heads, "_MOST", 3)
    with SqliteJournal(tmp_path / "talk.db") as journal:
        for name in ("ada", "bob"):
            await journal.append(name, make_turn_opened(1))
        # One group: the second record of "ada" is numbered after her first one in it.
        await asyncio.gather(
            journal.append("ada", make_turn_opened(2)),
            *[journal.append(name, make_turn_opened(1)) for name in ("cem", "dan", "eve")],
            journal.append("ada", make_turn_opened(3)),
        )
        assert [record.event.key for record in await journal.read("ada")] == ["t1", "t2", "t3"]
