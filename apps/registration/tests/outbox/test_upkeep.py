"""Upkeep: nobody is written to at night, and a database that is away ends nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from apps.registration.tests.outbox.fakes import Clock
from apps.registration.tests.outbox.test_chasing import at, outbox_keys
from apps.registration.tests.store.samples import register

from registration.outbox import Upkeep
from registration.store import Database, DatabaseUnavailable
from registration.store.photo_jobs import NewPhoto, submit_photo


async def test_parents_are_written_to_in_the_daytime(database: Database) -> None:
    owner = await register(database, now=at("2025-09-01 12:00"))
    clock = Clock(at("2025-09-04 03:00"))
    upkeep = Upkeep(database, clock, remove_files=fail)
    for time in ("2025-09-04 03:00", "2025-09-04 08:59", "2025-09-04 20:00"):
        clock.now = at(time)
        await upkeep.run_once()
    assert await outbox_keys(database, owner) == []
    clock.now = at("2025-09-04 09:00")
    await upkeep.run_once()
    assert await outbox_keys(database, owner) == ["chase/3"]


async def test_photos_that_were_never_checked_are_removed(database: Database) -> None:
    new = NewPhoto("j1", "s1", None, "hash", "up.heic", "Photo received")
    await database.transact(lambda tx: submit_photo(tx, new, at("2025-09-01 12:00")))
    removed: list[str] = []

    async def remove(files: tuple[str, ...]) -> None:
        removed.extend(files)

    upkeep = Upkeep(database, Clock(at("2025-09-02 12:00")), remove)
    await upkeep.run_once()
    await upkeep.run_once()
    assert removed == ["up.heic"]


@pytest.mark.parametrize("error", [DatabaseUnavailable("its disk is full"), OSError("a name")])
async def test_what_fails_is_tried_the_next_time(
    database: Database, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    tried = asyncio.Event()

    async def away(work: Any) -> Any:
        tried.set()
        raise error

    monkeypatch.setattr(database, "transact", away)
    upkeep = Upkeep(database, Clock(at("2025-09-04 12:00")), fail)
    running = asyncio.ensure_future(upkeep.run(every=0.001))
    await asyncio.wait_for(tried.wait(), 60)
    tried.clear()
    await asyncio.wait_for(tried.wait(), 60)
    upkeep.stop()
    await asyncio.wait_for(running, 60)


async def fail(files: tuple[str, ...]) -> None:
    raise AssertionError(files)
