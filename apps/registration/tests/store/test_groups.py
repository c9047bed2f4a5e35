"""Transactions that wait for the writer of a file are saved by one commit, each whole or not at all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from registration.store import Database, DatabaseUnavailable, Transaction, open_database
from registration.store.errors import TransactionConflict
from registration.store.sqlite import SqliteConnection

PUT = "INSERT INTO effects (key, kind, outcome_json, created_at) VALUES (?, 'test', '{}', 0)"


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await open_database(f"sqlite:///{tmp_path}/club.db")
    yield opened
    await opened.close()


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One entry for each commit."""
    counted: list[None] = []
    commit = SqliteConnection.commit

    def count(connection: SqliteConnection) -> None:
        counted.append(None)
        commit(connection)

    monkeypatch.setattr(SqliteConnection, "commit", count)
    return counted


def put(key: str) -> Callable[[Transaction], object]:
    return lambda tx: tx.execute(PUT, key)


def keys(tx: Transaction) -> list[str]:
    return [row["key"] for row in tx.execute("SELECT key FROM effects ORDER BY key")]


async def perform_together(database: Database, *works: Callable[[Transaction], Any]) -> list[Any]:
    """Let works wait behind one that holds the writer; their results, or what they raised."""
    go_on = threading.Event()
    first = asyncio.create_task(database.transact(lambda _tx: go_on.wait(10)))
    await asyncio.sleep(0.05)
    rest = [asyncio.create_task(database.transact(work)) for work in works]
    await asyncio.sleep(0.05)
    go_on.set()
    await first
    return await asyncio.gather(*rest, return_exceptions=True)


async def test_what_waits_is_saved_by_one_commit(database: Database, commits: list[None]) -> None:
    await perform_together(database, *(put(f"k{number:02d}") for number in range(20)))
    assert len(commits) == 2
    assert len(await database.read(keys)) == 20


async def test_one_that_fails_is_undone_alone(database: Database) -> None:
    def fail(tx: Transaction) -> None:
        tx.execute(PUT, "half")
        raise LookupError("of the caller")

    ended = await perform_together(database, put("a"), fail, put("a"), put("b"))
    assert isinstance(ended[1], LookupError)
    assert "breaks the rule" in str(ended[2])
    assert await database.read(keys) == ["a", "b"]


@pytest.mark.parametrize("error", [TransactionConflict, lambda: DatabaseUnavailable("it is full")])
async def test_if_the_group_cannot_be_saved_each_is_done_by_itself(
    database: Database, error: Callable[[], Exception]
) -> None:
    raised = iter([error()])

    def fail_once(tx: Transaction) -> None:
        tx.execute(PUT, "b")
        for one in raised:
            raise one

    await perform_together(database, put("a"), fail_once, put("c"))
    assert await database.read(keys) == ["a", "b", "c"]


async def test_a_commit_of_unknown_outcome_is_told_to_all(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = iter(range(100))
    commit = SqliteConnection.commit

    def commit_and_fail(connection: SqliteConnection) -> None:
        commit(connection)
        if next(calls) == 1:
            raise DatabaseUnavailable("the disk reports an error", landed="unknown")

    monkeypatch.setattr(SqliteConnection, "commit", commit_and_fail)
    ended = await perform_together(database, put("a"), put("b"))
    assert [getattr(one, "landed", None) for one in ended] == ["unknown", "unknown"]
    assert await database.read(keys) == ["a", "b"]  # and nothing was done a second time
