"""Chasing: day 3, day 5, day 7, each once, whatever the clocks do."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest
from apps.registration.tests.outbox.fakes import Service
from apps.registration.tests.store.samples import player, register

from registration.club.time_zone import LONDON
from registration.outbox import chase
from registration.outbox.chasing import count_days
from registration.outbox.texts import make_link
from registration.store import Database
from registration.store.registrations import Registration, load_registration, update_registration
from registration.store.tasks import list_tasks


def at(text: str) -> float:
    """A time in London: "2026-03-27 20:00"."""
    return datetime.fromisoformat(text).replace(tzinfo=LONDON).timestamp()


async def outbox_keys(database: Database, identifier: str) -> list[str]:
    rows = await database.read(lambda tx: tx.execute("SELECT key FROM outbox ORDER BY key"))
    return [row["key"].removeprefix(f"registration/{identifier}/") for row in rows]


async def load(database: Database, identifier: str) -> Registration:
    found = await database.read(lambda tx: load_registration(tx, identifier))
    assert found is not None
    return found


async def run_at(database: Database, *times: str) -> list[int]:
    moments = [at(time) for time in times]
    return [await database.transact(lambda tx, now=now: chase(tx, now)) for now in moments]


@pytest.mark.parametrize(
    ("begin", "end", "days"),
    [
        ("2026-03-27 23:59", "2026-03-28 00:00", 1),
        ("2026-03-28 00:30", "2026-03-31 00:30", 3),  # a day of 23 hours between
        ("2026-03-28 23:30", "2026-03-31 00:10", 3),
        ("2026-03-28 23:30", "2026-03-30 23:59", 2),
        ("2026-10-24 00:30", "2026-10-26 23:59", 2),  # a day of 25 hours between
        ("2026-10-24 23:30", "2026-10-27 00:00", 3),
        ("2026-06-01 00:30", "2026-06-01 23:59", 0),  # 23:30 of the day before, in UTC
    ],
)
def test_days_are_days_in_london(begin: str, end: str, days: int) -> None:
    assert count_days(at(begin), at(end)) == days


async def test_each_reminder_is_written_on_its_day_once(database: Database) -> None:
    identifier = await register(database, now=at("2026-03-27 20:00"))
    seen = []
    for day in range(9):
        date = f"2026-0{3 if day < 5 else 4}-{27 + day if day < 5 else day - 4:02}"
        seen.append(await run_at(database, f"{date} 06:00", f"{date} 18:00"))
    assert seen == [[0, 0]] * 3 + [[1, 0], [0, 0], [2, 0], [0, 0], [1, 0], [0, 0]]
    assert await outbox_keys(database, identifier) == ["chase/3", "chase/5", "chase/5/mail"]
    stored = await load(database, identifier)
    assert (stored.status, stored.follow_ups) == ("suspended", 2)
    (task,) = await database.read(list_tasks)
    assert (task.kind, task.registration_id) == ("suspended", identifier)


async def test_two_processes_at_once_write_each_reminder_once(database: Database) -> None:
    identifier = await register(database, now=at("2025-09-01 12:00"))
    now = at("2025-09-06 08:00")
    counts = await asyncio.gather(*(database.transact(lambda tx: chase(tx, now)) for _ in range(4)))
    assert sum(counts) == 2
    assert (await load(database, identifier)).follow_ups == 1


async def test_after_a_break_only_the_latest_reminder_is_sent(database: Database) -> None:
    identifier = await register(database, now=at("2025-09-01 12:00"))
    await run_at(database, "2025-09-07 08:00")
    assert await outbox_keys(database, identifier) == ["chase/5", "chase/5/mail"]


@pytest.mark.parametrize("status", ["incomplete", "active", "suspended"])
async def test_nobody_else_is_chased(database: Database, status: str) -> None:
    identifier = await register(database, now=at("2025-09-01 12:00"))
    await database.transact(lambda tx: update_registration(tx, identifier, 0, status=status))
    assert await run_at(database, "2025-09-04 08:00", "2025-09-20 08:00") == [0, 0]
    assert (await load(database, identifier)).status == status


async def test_what_is_sent_greets_and_has_the_link(database: Database) -> None:
    identifier = await register(database, now=at("2025-09-01 12:00"))
    await register(database, "s2", player("Dougal"), now=at("2025-09-06 12:00"))
    service = Service(database, at("2025-09-08 12:00"))
    await run_at(database, "2025-09-04 08:00", "2025-09-06 08:00")
    await service.worker.drain()
    link = make_link(service.settings, identifier)
    assert link.startswith("https://club.example/pay/")
    assert [to for to, _ in service.sms.sent.values()] == ["+447700900123"] * 2
    for _, text in service.sms.sent.values():
        assert text.startswith("Hi Wilhelmina, ")
        assert "Zebedee" in text
        assert text.endswith(link)
    ((to, subject, text),) = service.mail.sent.values()
    assert (to, subject) == ("wilhelmina@example.org", "Zebedee's registration: 2 days left to pay")
    assert link in text
