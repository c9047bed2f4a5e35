"""A journal lists the tenants of its store, all or only those with an open turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import MemoryJournal, PostgresJournal, SqliteJournal
from holdfast.core.events import Status, TurnClosed, TurnOpened
from holdfast.core.messages import user
from holdfast.journal.port import Journal
from holdfast.journal.tenants import TenantList

pytestmark = pytest.mark.anyio

OPENED = TurnOpened("t1", 1.0, user("Hi"))


async def check_tenants(journal: Journal) -> None:
    assert isinstance(journal, TenantList)
    assert list(await journal.tenants()) == []
    for tenant in ("b", "a"):
        await journal.for_tenant(tenant).append("s", OPENED)
    await journal.for_tenant("b").append("s", TurnClosed("t1.closed", 2.0, Status.COMPLETED))
    assert list(await journal.tenants()) == ["a", "b"]
    assert list(await journal.tenants(turn_open=True)) == ["a"]


async def test_in_memory() -> None:
    await check_tenants(MemoryJournal())


async def test_in_a_file(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "journal.db") as journal:
        await check_tenants(journal)


async def test_in_postgresql(url: str) -> None:
    with PostgresJournal(url) as journal:
        await check_tenants(journal)
