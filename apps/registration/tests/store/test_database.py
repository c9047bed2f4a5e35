from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from registration.store import (
    ConstraintViolated,
    Database,
    DatabaseUnavailable,
    SchemaRefused,
    StatementFailed,
    Transaction,
    open_database,
)

PUT = "INSERT INTO effects (key, kind, outcome_json, created_at) VALUES (?, 'test', '{}', 0)"


def put(key: str) -> Any:
    return lambda tx: tx.execute(PUT, key)


def keys(tx: Transaction) -> list[str]:
    return [row["key"] for row in tx.execute("SELECT key FROM effects ORDER BY key")]


async def test_a_transaction_is_saved_whole(database: Database) -> None:
    def work(tx: Transaction) -> str:
        tx.execute(PUT, "a")
        tx.execute(PUT, "b")
        return "done"

    assert await database.transact(work) == "done"
    assert await database.read(keys) == ["a", "b"]


async def test_an_exception_undoes_the_transaction(database: Database) -> None:
    def work(tx: Transaction) -> None:
        tx.execute(PUT, "a")
        raise LookupError("of the caller")

    with pytest.raises(LookupError, match="of the caller"):
        await database.transact(work)
    assert await database.transact(keys) == []


async def test_errors_quote_no_row(database: Database) -> None:
    await database.transact(put("Zebedee"))
    with pytest.raises(ConstraintViolated) as violated:
        await database.transact(put("Zebedee"))
    with pytest.raises(StatementFailed) as failed:
        await database.transact(lambda tx: tx.execute("SELECT Zebedee FROM effects"))
    for error in (violated.value, failed.value):
        assert "Zebedee" not in f"{error!r} {error}"
        assert error.__context__ is None
        assert error.__cause__ is None
    await database.transact(put("next"))


async def test_reading_cannot_write(database: Database) -> None:
    with pytest.raises(DatabaseUnavailable):
        await database.read(put("a"))
    assert await database.transact(keys) == []


async def test_work_runs_beside_the_event_loop(database: Database) -> None:
    free = threading.Event()

    def work(tx: Transaction) -> bool:
        return free.wait(5)

    waiting = asyncio.ensure_future(database.transact(work))
    await asyncio.sleep(0)
    free.set()
    assert await waiting


async def test_flags_and_texts_come_back_as_they_were(database: Database) -> None:
    def work(tx: Transaction) -> list[dict[str, Any]]:
        row = ("k", "100 % ?", "Zoë 🦁", "{}", 0.1)
        tx.execute(
            "INSERT INTO effects (key, kind, session_id, outcome_json, created_at)"
            " VALUES (?, ?, ?, ?, ?)",
            *row,
        )
        return tx.execute("SELECT * FROM effects WHERE kind LIKE '100 %'")

    (row,) = await database.transact(work)
    assert (row["kind"], row["session_id"], row["created_at"]) == ("100 % ?", "Zoë 🦁", 0.1)


async def test_opening_twice_applies_the_schema_once(url: str) -> None:
    databases = await asyncio.gather(*(open_database(url) for _ in range(3)))
    for database in databases:
        await database.transact(put(str(id(database))))
    assert len(await databases[0].read(keys)) == 3
    for database in databases:
        await database.close()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ("INSERT INTO schema_files VALUES (9000, '9000_later.sql', 'x')", "newer version"),
        ("UPDATE schema_files SET digest = 'edited'", "was edited"),
    ],
)
async def test_a_schema_of_others_is_refused(url: str, change: str, match: str) -> None:
    database = await open_database(url)
    await database.transact(lambda tx: tx.execute(change))
    await database.close()
    with pytest.raises(SchemaRefused, match=match):
        await open_database(url)


@pytest.mark.parametrize(
    "url", ["mysql://user:hunter2@host/db", "sqlite://", "registration.db", "", "postgresql://"]
)
async def test_an_address_of_another_form_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="sqlite:///") as refused:
        await open_database(url)
    assert "hunter2" not in str(refused.value)


async def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    database = await open_database(f"sqlite:///{tmp_path}/private.db")
    await database.transact(put("a"))
    modes = {one.stat().st_mode & 0o077 for one in os.scandir(tmp_path)}
    assert modes == {0}
    await database.close()
