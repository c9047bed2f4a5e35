"""How each child ended: one record, one payment, one text message, and the answers that were given.

This module must never put a person's data into what it finds.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from registration.emulators.emulated_providers import EmulatedProviders
from registration.play.parent import PAYMENT_LINK, Parent
from registration.store import Transaction
from registration.store.registrations import Registration, find_of_session

_CONFIRMED = "Payment confirmed"


class Ended(Struct, frozen=True, kw_only=True):
    """How a child ended.

    Args:
        status: of the registration.
        records: how many records the child has.
        payments: how many signing-on fees were paid.
        requests: how many billing requests were made.
        subscriptions: how many subscriptions were made.
        links: how many text messages with the link were sent.
        confirmations: how many text messages confirm the payment.
        wrong: the names of what is stored wrongly, or is missing.
    """

    status: str
    records: int
    payments: int
    requests: int
    subscriptions: int
    links: int
    confirmations: int
    wrong: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Whether everything is as it should be, and once."""
        counted = (self.records, self.payments, self.requests, self.subscriptions)
        told = (self.links, self.confirmations)
        return self.status == "active" and {*counted, *told} == {1} and not self.wrong


def check_child(tx: Transaction, parent: Parent, providers: EmulatedProviders) -> Ended:
    """Return how a child ended.

    Args:
        tx: a transaction of the service's database.
        parent: the parent of the child.
        providers: what the outside saw.
    """
    record = find_of_session(tx, parent.page.session)
    if record is None:
        return Ended(
            status="missing",
            records=0,
            payments=0,
            requests=0,
            subscriptions=0,
            links=0,
            confirmations=0,
            wrong=(),
        )
    asked = [
        one.id for one in providers.payments.requests if one.metadata["registration"] == record.id
    ]
    paid = [one for one in providers.payments.payments if one.billing_request in asked]
    mandates = {one.mandate for one in paid}
    number = f"+44{parent.child.phone.removeprefix('0')}"
    texts = [one.text for one in providers.sms.inbox if one.to == number]
    return Ended(
        status=record.status,
        records=_count_records(tx, record),
        requests=len(asked),
        payments=len([one for one in paid if one.subscription is None]),
        subscriptions=len(
            [one for one in providers.payments.subscriptions if one.mandate in mandates]
        ),
        links=len([one for one in texts if PAYMENT_LINK.search(one) and _CONFIRMED not in one]),
        confirmations=len([one for one in texts if _CONFIRMED in one]),
        wrong=tuple(_find_wrong(record, parent)),
    )


class Jobs(Struct, frozen=True):
    """The jobs of the outbox: how many there were, how often one was tried again, how many are left."""

    count: int
    again: int
    left: int


def count_jobs(tx: Transaction) -> Jobs:
    """Return the numbers of jobs."""
    rows = tx.execute("SELECT state, attempts FROM outbox")
    return Jobs(
        count=len(rows),
        again=sum(max(row["attempts"] - 1, 0) for row in rows),
        left=sum(row["state"] in {"queued", "running"} for row in rows),
    )


def list_tasks(tx: Transaction) -> Sequence[str]:
    """Return the kinds of the office's open tasks."""
    rows = tx.execute("SELECT kind FROM office_tasks WHERE state = 'open' ORDER BY kind")
    return [str(row["kind"]) for row in rows]


def _count_records(tx: Transaction, record: Registration) -> int:
    rows = tx.execute(
        "SELECT id FROM registrations"
        " WHERE season = ? AND player_first = ? AND player_last = ? AND player_born = ?",
        *(record.season, record.player_first, record.player_last, record.player_born),
    )
    return len(rows)


def _find_wrong(record: Registration, parent: Parent) -> list[str]:
    child, answers = parent.child, record.answers
    expected: dict[str, tuple[object, object]] = {
        "name": (f"{record.player_first} {record.player_last}", child.name),
        "mobile": (answers.get("parent_phone"), child.phone),
        "payment day": (record.payment_day, int(child.answers[29])),
        "photo": (record.photo_file is not None, not child.identity),
        "shirt": (record.shirt_number is not None, bool(record.kit_required)),
    }
    if not child.identity:
        expected["e-mail"] = (answers.get("parent_email"), child.answers[9])
        expected["played"] = (answers.get("played_last_season"), False)
        expected["same address"] = (answers.get("same_address"), child.answers[16] == "yes")
    return [name for name, (found, wanted) in expected.items() if found != wanted]
