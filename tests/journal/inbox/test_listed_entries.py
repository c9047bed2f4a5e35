"""A list of entries reads the entries of its tenant from the latest one on, and sorts nothing."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg

from holdfast import PostgresJournal
from holdfast.journal.inbox.entries import EntryState
from holdfast.journal.inbox.inbox import Inbox
from holdfast.journal.inbox.postgres_inbox import translate
from holdfast.journal.inbox.statements import Statement, Transaction
from holdfast.journal.inbox_schema import MEMORY_TABLES

T = TypeVar("T")

INDEX = "holdfast_inbox_listed"


class StatementRecorder:
    """Performs nothing, and keeps the first statement of each transaction."""

    def __init__(self) -> None:
        self.statements: list[Statement] = []

    async def perform(self, make: Callable[[], Transaction[T]]) -> Any:
        self.statements.append(next(make()))
        return []

    def watch(self, notify: Callable[[], None], *, of_ends: bool = True) -> Callable[[], None]:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


async def find_lists() -> list[Statement]:
    """The statements of lists of one tenant: the first page, a later one, and that of some states."""
    recorder = StatementRecorder()
    inbox = Inbox(recorder)
    await inbox.list_entries(tenant="acme", limit=20)
    await inbox.list_entries(tenant="acme", before=500, limit=20)
    await inbox.list_entries(tenant="acme", states=[EntryState.FAILED, EntryState.DONE], limit=20)
    return recorder.statements


async def test_sqlite_lists_the_entries_of_a_tenant_by_an_index() -> None:
    connection = sqlite3.connect(":memory:")
    for text in MEMORY_TABLES:
        connection.execute(text)
    for statement in await find_lists():
        rows = connection.execute(f"EXPLAIN QUERY PLAN {statement.text}", statement.values)
        plan = [row[3] for row in rows]
        assert len(plan) == 1, plan
        assert plan[0].startswith(f"SEARCH holdfast_inbox USING INDEX {INDEX} (tenant=?"), plan


async def test_postgresql_lists_the_entries_of_a_tenant_by_an_index(url: str) -> None:
    with PostgresJournal(url) as journal:
        await journal.runs()
    with psycopg.connect(url) as connection:
        connection.execute("SET enable_seqscan = off")  # the table is empty
        connection.execute("SET enable_bitmapscan = off")
        for statement in await find_lists():
            explain = f"EXPLAIN {translate(statement)}".encode()
            plan = "\n".join(row[0] for row in connection.execute(explain, dict(statement.values)))
            assert re.search(f"Index Scan Backward using {INDEX} ", plan), plan
            assert "Sort" not in plan
