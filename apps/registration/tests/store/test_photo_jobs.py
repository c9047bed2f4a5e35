"""Photo jobs: one at a time for each session."""

from __future__ import annotations

import asyncio

from apps.registration.tests.store.samples import NOON, register

from registration.store import Database
from registration.store.outbox import find_job
from registration.store.photo_jobs import (
    LIFETIME,
    NewPhoto,
    Submitted,
    expire_photos,
    find_latest_photo,
    find_photo_job,
    finish_photo,
    set_photo_progress,
    set_photo_state,
    submit_photo,
)
from registration.store.registrations import load_registration


async def submit(database: Database, job: str, content: str, owner: str | None = None) -> Submitted:
    new = NewPhoto(job, "s1", owner, content, f"{job}.jpg", "Photo received")
    return await database.transact(lambda tx: submit_photo(tx, new, NOON))


async def test_the_same_bytes_are_the_same_job(database: Database) -> None:
    await register(database)
    submitted = await asyncio.gather(*(submit(database, f"j{n}", "hash") for n in range(4)))
    (job,) = {one.job.id for one in submitted}
    unused = {name for one in submitted for name in one.unused_files}
    assert unused == {f"j{n}.jpg" for n in range(4)} - {f"{job}.jpg"}
    assert await database.read(lambda tx: find_job(tx, f"photo/{job}"))


async def test_other_bytes_replace_a_job_under_way(database: Database) -> None:
    await register(database)
    await submit(database, "j1", "one")
    second = await submit(database, "j2", "two")
    assert second.unused_files == ("j1.jpg",)
    assert not await database.transact(lambda tx: finish_photo(tx, "j1", "p.jpg", "Done", NOON))
    assert not await database.transact(lambda tx: set_photo_progress(tx, "j1", "checking", NOON))
    latest = await database.read(lambda tx: find_latest_photo(tx, "s1"))
    assert latest is not None
    assert (latest.id, latest.state) == ("j2", "queued")


async def test_a_finished_photo_is_linked_once(database: Database) -> None:
    owner = await register(database)
    await submit(database, "j1", "one", owner)
    assert await database.transact(lambda tx: set_photo_progress(tx, "j1", "checking", NOON))
    done = [
        await database.transact(lambda tx: finish_photo(tx, "j1", "p.jpg", "Done", NOON))
        for _ in range(2)
    ]
    assert done == [True, False]
    job = await database.read(lambda tx: find_photo_job(tx, "j1"))
    stored = await database.read(lambda tx: load_registration(tx, owner))
    assert job is not None
    assert stored is not None
    assert (job.state, job.is_complete, stored.photo_file) == ("done", True, "p.jpg")
    again = await submit(database, "j2", "one", owner)
    assert again.job.id == "j2"


async def test_a_rejected_photo_leaves_no_link(database: Database) -> None:
    owner = await register(database)
    await submit(database, "j1", "one", owner)
    await database.transact(lambda tx: set_photo_state(tx, "j1", "rejected", "Too dark", NOON))
    stored = await database.read(lambda tx: load_registration(tx, owner))
    assert stored is not None
    assert stored.photo_file is None


async def test_a_job_expires_after_a_day(database: Database) -> None:
    await register(database)
    await submit(database, "j1", "one")
    early, late = NOON + LIFETIME - 1, NOON + LIFETIME
    assert await database.transact(lambda tx: expire_photos(tx, "Too late", early)) == ()
    assert await database.transact(lambda tx: expire_photos(tx, "Too late", late)) == ("j1.jpg",)
    job = await database.read(lambda tx: find_photo_job(tx, "j1"))
    assert job is not None
    assert job.state == "expired"
