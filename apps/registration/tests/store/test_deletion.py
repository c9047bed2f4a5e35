"""Deletion leaves no byte of a person, and of nobody else anything is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from apps.registration.tests.store.samples import ANSWERS, DAY, NOON, PERSONAL, player, register

from registration.store import Database
from registration.store.deletion import Deleted, delete_session, expired, forget_session
from registration.store.effects import EffectOf, save_effect
from registration.store.messages import NewMessage, save_answer, save_message
from registration.store.outbox import NewJob, enqueue
from registration.store.payment_state import PaymentRecord, StoredEvent
from registration.store.photo_jobs import NewPhoto, finish_photo, submit_photo
from registration.store.registrations import (
    load_registration,
    save_subscription,
    update_registration,
)
from registration.store.rows import write_json
from registration.store.sessions import create_session, finish_session, save_progress
from registration.store.tasks import NewTask, list_tasks, open_task
from registration.store.teams import Squad, reserve_shirt
from registration.store.webhooks import save_event, save_payments

TABLES = (
    *("sessions", "messages", "registrations", "shirt_numbers", "effects", "outbox"),
    *("webhook_events", "payments", "photo_jobs", "office_tasks"),
)


def fill_rows(tx: Any, session: str, owner: str, number: int) -> None:
    """Write rows of every table, with personal data wherever a column can hold some."""
    said = write_json({"answers": ANSWERS, "said": "My name is Wilhelmina Quackenbush"})
    save_progress(tx, session, said, 0, NOON)
    save_message(tx, NewMessage(session, "m1", f"turn-{session}", "Zebedee Quackenbush", 2), NOON)
    save_answer(tx, session, "m1", {"response": "Thank you, Wilhelmina Quackenbush!"})
    save_effect(tx, f"{session}/address", {"full": "Quackenbush House"}, EffectOf(session), NOON)
    save_effect(tx, f"registration/{owner}/payment", {"id": "BR"}, EffectOf(session, owner), NOON)
    enqueue(tx, NewJob(f"registration/{owner}/sms", "sms", ANSWERS, owner), NOON)
    enqueue(tx, NewJob(f"{session}/mail", "mail", ANSWERS, session_id=session), NOON)
    event = StoredEvent(f"EV-{owner}", "payments.confirmed", NOON, owner, payment=f"PM-{owner}")
    save_event(tx, event, NOON)
    enqueue(tx, NewJob(f"webhook/EV-{owner}", "payment_event", {"event": f"EV-{owner}"}), NOON)
    save_payments(tx, owner, [PaymentRecord(f"PM-{owner}", "fee", "2025-09", "confirmed", NOON)])
    reserve_shirt(tx, Squad("2526", "Lions", "u10s"), number, owner, NOON)
    photo = NewPhoto(f"J-{owner}", session, owner, "hash", f"up-{owner}.heic", "Received")
    submit_photo(tx, photo, NOON)
    finish_photo(tx, f"J-{owner}", f"Zebedee_Quackenbush_{owner}.jpg", "Done", NOON)
    open_task(tx, NewTask(f"{owner}/task", "photo", "Look at it", owner, session), NOON)
    conversation = [{"user": "I am Wilhelmina Quackenbush"}]
    update_registration(tx, owner, NOON, conversation=conversation)


async def fill(database: Database, session: str, who: str, number: int) -> str:
    owner = await register(database, session, player(who))
    await database.transact(lambda tx: fill_rows(tx, session, owner, number))
    return owner


def read_files(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.iterdir()))


async def count_rows(database: Database) -> dict[str, int]:
    def count(tx: Any) -> dict[str, int]:
        return {name: tx.execute(f"SELECT COUNT(*) AS n FROM {name}")[0]["n"] for name in TABLES}

    return await database.read(count)


async def test_nothing_of_a_deleted_person_is_left(
    database: Database, url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    owner = await fill(database, "s1", "Zebedee", 7)
    deleted = await database.transact(lambda tx: delete_session(tx, "s1", NOON))
    assert deleted == Deleted(
        existed=True, files=(f"Zebedee_Quackenbush_{owner}.jpg", f"up-{owner}.heic")
    )
    assert set((await count_rows(database)).values()) == {0}
    await database.compact()
    if url.startswith("sqlite"):
        stored = read_files(tmp_path)
    else:
        server = request.getfixturevalue("postgres")
        server.rows(url, "CHECKPOINT")
        tables = [
            server.rows(url, f"SELECT * FROM {name}")
            + server.rows(url, f"SELECT pg_read_binary_file(pg_relation_filepath('{name}'))")
            for name in TABLES
        ]
        stored = repr(tables).encode()
    assert stored
    for text in (*PERSONAL, owner):
        assert text.encode() not in stored, text
    await database.transact(lambda tx: create_session(tx, "s2", "t", "new", NOON))


async def test_the_search_finds_what_is_there(
    database: Database, url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    await fill(database, "s1", "Zebedee", 7)
    await database.compact()
    if url.startswith("sqlite"):
        stored = read_files(tmp_path)
        assert all(text.encode() in stored for text in PERSONAL)
    else:
        server = request.getfixturevalue("postgres")
        server.rows(url, "CHECKPOINT")
        path = "pg_relation_filepath('outbox')"
        stored = repr(server.rows(url, f"SELECT pg_read_binary_file({path})")).encode()
        assert b"Quackenbush" in stored


async def test_others_keep_everything(database: Database) -> None:
    await fill(database, "s2", "Dougal", 9)
    before = await count_rows(database)
    await fill(database, "s1", "Zebedee", 7)
    await database.transact(lambda tx: delete_session(tx, "s1", NOON))
    assert await count_rows(database) == before
    again = await database.transact(lambda tx: delete_session(tx, "s1", NOON))
    assert again == Deleted(existed=False)


async def test_a_subscription_that_goes_on_is_a_task(database: Database) -> None:
    owner = await fill(database, "s1", "Zebedee", 7)
    await database.transact(lambda tx: save_subscription(tx, owner, "SB-1", NOON))
    await database.transact(lambda tx: delete_session(tx, "s1", NOON))
    (task,) = await database.read(list_tasks)
    assert task.key == "deleted/SB-1"
    assert owner not in f"{task}"


async def test_who_registered_keeps_the_record_when_the_session_expires(
    database: Database,
) -> None:
    owner = await fill(database, "s1", "Zebedee", 7)
    deleted = await database.transact(lambda tx: forget_session(tx, "s1", NOON))
    assert deleted == Deleted(existed=True)
    stored = await database.read(lambda tx: load_registration(tx, owner))
    assert stored is not None
    assert (stored.session_id, stored.photo_file) == (None, f"Zebedee_Quackenbush_{owner}.jpg")
    counts = await count_rows(database)
    assert (counts["sessions"], counts["messages"], counts["photo_jobs"]) == (0, 0, 1)


async def test_who_did_not_get_to_the_payment_is_deleted_when_the_session_expires(
    database: Database,
) -> None:
    owner = await fill(database, "s1", "Zebedee", 7)
    await database.transact(lambda tx: update_registration(tx, owner, NOON, status="incomplete"))
    deleted = await database.transact(lambda tx: forget_session(tx, "s1", NOON))
    assert len(deleted.files) == 2
    assert set((await count_rows(database)).values()) == {0}


async def test_sessions_expire_after_their_days(database: Database) -> None:
    for session in ("open", "finished"):
        await database.transact(lambda tx, s=session: create_session(tx, s, s, "new", NOON))
    await database.transact(lambda tx: finish_session(tx, "finished", NOON))

    async def expired_after(days: float) -> list[str]:
        return await database.read(lambda tx: expired(tx, NOON + days * DAY))

    assert await expired_after(29.9) == []
    assert await expired_after(30) == ["open"]
    assert await expired_after(89.9) == ["open"]
    assert await expired_after(90) == ["finished", "open"]
