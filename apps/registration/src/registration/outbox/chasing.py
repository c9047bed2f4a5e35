"""Chasing: reminds of a payment on day 3 and day 5, and suspends on day 7."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec import Struct

from registration.club.time_zone import LONDON
from registration.outbox.kinds import SEND_MAIL, SEND_SMS
from registration.store import Transaction
from registration.store.outbox import NewJob, enqueue
from registration.store.registrations import list_unpaid, record_follow_up, suspend_registration
from registration.store.tasks import NewTask, open_task

DAYS_TO_PAY: Final = 7


class Reminder(Struct, frozen=True):
    """A reminder: from which day it is due, and how it is sent."""

    day: int
    kind: str
    suffix: str = ""


REMINDERS: Final = (
    Reminder(3, SEND_SMS),
    Reminder(5, SEND_SMS),
    Reminder(5, SEND_MAIL, "/mail"),
)


def count_days(begin: float, now: float) -> int:
    """Return how many midnights in London lie between two times.

    A day of 23 or 25 hours, when the clocks change, is a day.
    """
    first, last = (datetime.fromtimestamp(time, LONDON).date() for time in (begin, now))
    return (last - first).days


def chase(tx: Transaction, now: float) -> int:
    """Write the reminders that are due and suspend who did not pay; return how many rows are new.

    It may run at any time and any number of times. If it did not run for some days, only the
    reminder of the latest day is sent.

    Args:
        tx: the transaction.
        now: the time, in seconds since 1970.
    """
    count = 0
    for unpaid in list_unpaid(tx):
        days = count_days(unpaid.payment_asked_at, now)
        if days >= DAYS_TO_PAY:
            count += _suspend(tx, unpaid.id, now)
        else:
            count += _remind(tx, unpaid.id, days, now)
    return count


def _remind(tx: Transaction, owner: str, days: int, now: float) -> int:
    latest = max((one.day for one in REMINDERS if one.day <= days), default=None)
    jobs = [
        NewJob(
            key=f"registration/{owner}/chase/{one.day}{one.suffix}",
            kind=one.kind,
            payload={"template": f"chase_{one.day}"},
            registration_id=owner,
        )
        for one in REMINDERS
        if one.day == latest
    ]
    count = sum(enqueue(tx, job, now) for job in jobs)
    if count:
        record_follow_up(tx, owner, now)
    return count


def _suspend(tx: Transaction, owner: str, now: float) -> int:
    if not suspend_registration(tx, owner, now):
        return 0
    reason = f"Suspended: not paid within {DAYS_TO_PAY} days. A late payment restores it."
    return int(
        open_task(tx, NewTask(f"registration/{owner}/suspended", "suspended", reason, owner), now)
    )
