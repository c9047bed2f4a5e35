"""The inbox of a journal in memory, in SQLite and in PostgreSQL, with a clock that stands still."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.journal.inbox.queued_turns import InboxUnderTest, SetClock

from holdfast import MemoryJournal, PostgresJournal, SqliteJournal
from holdfast.journal.inbox.inbox import InboxStore
from holdfast.journal.inbox.opening_inbox import open_inbox
from holdfast.journal.inbox.postgres_inbox import PostgresInboxStore
from holdfast.journal.inbox.sqlite_inbox import MemoryInboxStore, SqliteInboxStore


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[InboxUnderTest]:
    """An empty inbox."""
    clock = SetClock()
    if request.param == "memory":
        memory = MemoryJournal()
        kept = open_inbox(memory)._store
        assert isinstance(kept, MemoryInboxStore)
        kept._now = clock
        yield InboxUnderTest(kept, memory, clock, lambda: kept)
    elif request.param == "sqlite":
        with SqliteJournal(tmp_path / "talk.db") as file:

            def open_again() -> InboxStore:
                return SqliteInboxStore(file, clock)

            yield InboxUnderTest(open_again(), file, clock, open_again)
    else:
        with PostgresJournal(request.getfixturevalue("url")) as shared:

            def open_another() -> InboxStore:
                return PostgresInboxStore(shared, clock)

            yield InboxUnderTest(open_another(), shared, clock, open_another)
