"""Reminders and monthly payments over the end of a year and the changes of the clocks."""

from __future__ import annotations

from datetime import date

import pytest
from apps.registration.tests.outbox.fakes import Service
from apps.registration.tests.outbox.test_chasing import at, load, outbox_keys, run_at
from apps.registration.tests.store.samples import register

from registration.club.fees import plan_payments
from registration.outbox import kinds
from registration.outbox.chasing import count_days
from registration.store import Database
from registration.store.outbox import NewJob
from registration.store.payment_state import StoredEvent, fold_events


def test_days_go_on_over_the_end_of_a_year() -> None:
    assert count_days(at("2025-12-31 23:59"), at("2026-01-01 00:00")) == 1
    assert count_days(at("2025-12-28 23:30"), at("2026-01-01 00:10")) == 4
    assert count_days(at("2027-12-30 12:00"), at("2028-03-01 12:00")) == 62  # with 29 February


@pytest.mark.slow  # takes half a second or more
async def test_reminders_go_on_over_the_end_of_a_year(database: Database) -> None:
    identifier = await register(database, now=at("2025-12-28 23:30"))
    seen = await run_at(
        database,
        "2025-12-30 12:00",
        "2025-12-31 08:00",
        "2026-01-01 12:00",
        "2026-01-02 08:00",
        "2026-01-03 23:59",
        "2026-01-04 08:00",
    )
    assert seen == [0, 1, 0, 2, 0, 1]
    assert await outbox_keys(database, identifier) == ["chase/3", "chase/5", "chase/5/mail"]
    assert (await load(database, identifier)).status == "suspended"


@pytest.mark.parametrize("day", [1, 15, 28, 31, -1])
@pytest.mark.parametrize("mandate", ["2025-09-10", "2025-10-26", "2025-12-30", "2026-03-29"])
def test_a_season_has_each_month_once(day: int, mandate: str) -> None:
    schedule = plan_payments(day, date.fromisoformat(mandate), "2526")
    assert schedule is not None
    months = [(one.year, one.month) for one in schedule.dates]
    first = months[0][0] * 12 + months[0][1] - 1
    assert [year * 12 + month - 1 for year, month in months] == list(
        range(first, 2026 * 12 + 5)
    )  # without a gap to May
    assert (schedule.first - date.fromisoformat(mandate)).days >= 5


@pytest.mark.parametrize(
    ("authorised", "first"),
    [
        ("2025-12-26", "2025-12-31"),
        ("2025-12-27", "2026-01-31"),  # five days later is the next year
        ("2026-02-23", "2026-02-28"),
        ("2026-02-24", "2026-03-31"),
    ],
)
async def test_a_subscription_begins_on_the_first_day_that_is_left(
    database: Database, authorised: str, first: str
) -> None:
    service, owner = Service(database), await register(database)
    await database.transact(lambda tx: tx.execute("UPDATE registrations SET payment_day = -1"))
    plan = {"mandate": "MD1", "authorised_on": authorised}
    await service.put(NewJob("r/plan", kinds.CREATE_SUBSCRIPTION, plan, owner))
    await service.worker.drain()
    (made,) = service.payments.subscriptions.values()
    assert (made.first.isoformat(), made.last.isoformat()) == (first, "2026-05-31")


@pytest.mark.parametrize(
    ("moment", "month"),
    [
        ("2026-05-01 00:30", "2026-05"),  # 23:30 of 30 April in UTC
        ("2026-04-30 23:59", "2026-04"),
        ("2026-01-01 00:30", "2026-01"),
        ("2025-12-31 23:59", "2025-12"),
    ],
)
def test_a_payment_belongs_to_its_month_in_london(moment: str, month: str) -> None:
    event = StoredEvent("e1", "payments.created", at(moment), payment="p", subscription="s")
    (payment,) = fold_events([event]).payments
    assert (payment.kind, payment.month) == ("month", month)
