"""Webhooks of the payment provider: received once, applied in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from holdfast.outbox import JobDone, JobFailed, JobOutcome, JobRetry
from registration.club.time_zone import LONDON
from registration.outbox.kinds import CREATE_SUBSCRIPTION, SEND_SMS
from registration.outbox.outcomes import Done, Handler
from registration.providers import PaymentEvent
from registration.store import Database, Transaction
from registration.store.outbox import Job, NewJob, enqueue
from registration.store.payment_state import (
    LOST,
    RESOURCES,
    PaymentState,
    StoredEvent,
    fold_events,
)
from registration.store.registrations import Registration, save_payment_state
from registration.store.tasks import NewTask, open_task, withdraw_task
from registration.store.webhooks import (
    APPLY_PAYMENT_EVENT,
    claim_events,
    find_event,
    find_owner,
    mark_applied,
    save_event,
    save_payments,
)

# An event may come before the answer with its billing request, and that answer may be asked for
# again for some minutes. After the last wait the office is notified.
EVENT_WAITS: Final = (1.0, 10.0, 60.0, 600.0, 3600.0)


def receive_events(tx: Transaction, events: Iterable[PaymentEvent], now: float) -> int:
    """Store events and a job for each that applies it; return how many are new.

    Args:
        tx: the transaction. When it is saved, the webhook may be answered.
        events: the events of one or more webhooks.
        now: the time, in seconds since 1970.
    """
    count = 0
    for event in events:
        stored = read_event(event)
        if save_event(tx, stored, now):
            job = NewJob(
                f"webhook/{stored.event_id}", APPLY_PAYMENT_EVENT, {"event": stored.event_id}
            )
            enqueue(tx, job, now)
            count += 1
    return count


def read_event(event: PaymentEvent) -> StoredEvent:
    """Return the stored part of an event: ids, and nothing else."""
    links = event.links
    return StoredEvent(
        event_id=event.id,
        kind=f"{event.resource}.{event.action}",
        happened_at=event.created_at.timestamp(),
        registration_id=event.metadata.get("registration"),
        billing_request=links.get("billing_request"),
        mandate=links.get("mandate"),
        payment=links.get("payment"),
        subscription=links.get("subscription"),
    )


def make_event_handler(database: Database, clock: Callable[[], float]) -> Handler:
    """Return the handler that applies events."""

    async def apply(job: Job) -> JobOutcome:
        event, now = str(job.payload["event"]), clock()
        return await database.transact(lambda tx: apply_event(tx, event, now))

    return Handler(apply, finish=_explain_failure, waits=EVENT_WAITS)


def apply_event(tx: Transaction, event_id: str, now: float) -> JobOutcome:
    """Apply an event with all others of its registration."""
    event = find_event(tx, event_id)
    if event is None:
        return Done({"applied": False}, "delivered")  # it was deleted with its registration
    if event.resource not in RESOURCES:
        return Done({"applied": False}, "delivered")  # such as a payout to the club
    owner = find_owner(tx, event)
    if owner is None:
        return JobRetry("no registration is known for this event")
    tx.lock_row("registrations", "id", owner)
    state = fold_events(claim_events(tx, owner, event))
    registration = save_payment_state(tx, owner, state, now)
    if registration is None:
        return JobRetry("the registration was deleted meanwhile")
    save_payments(tx, owner, state.payments)
    mark_applied(tx, owner, now)
    _enqueue_consequences(tx, registration, state, now)
    _open_tasks(tx, registration, state, now)
    return Done({"applied": True}, "delivered")


def _enqueue_consequences(
    tx: Transaction, registration: Registration, state: PaymentState, now: float
) -> None:
    owner = registration.id
    if state.mandate_authorised and state.authorised_at is not None:
        day = datetime.fromtimestamp(state.authorised_at, LONDON).date()
        plan = {"mandate": state.mandate, "authorised_on": day.isoformat()}
        key = f"registration/{owner}/subscription"
        enqueue(tx, NewJob(key, CREATE_SUBSCRIPTION, plan, owner), now)
    if state.was_complete:
        job = NewJob(f"registration/{owner}/paid", SEND_SMS, {"template": "paid"}, owner)
        enqueue(tx, job, now)


def _open_tasks(
    tx: Transaction, registration: Registration, state: PaymentState, now: float
) -> None:
    for payment in state.payments:
        key = f"payment/{payment.id}/lost"
        paid_since = payment.kind == "fee" and registration.signing_fee_paid
        if payment.status not in LOST or paid_since:
            withdraw_task(tx, key)
            continue
        what = "signing-on fee" if payment.kind == "fee" else f"monthly fee of {payment.month}"
        reason = f"The {what} was not paid: {payment.status.replace('_', ' ')}."
        open_task(tx, NewTask(key, "payment", reason, registration.id), now)
    mandate = f"registration/{registration.id}/mandate"
    if state.mandate is not None and not state.mandate_authorised:
        reason = "The mandate has ended: no monthly fee can be taken."
        open_task(tx, NewTask(mandate, "payment", reason, registration.id), now)
    else:
        withdraw_task(tx, mandate)


def _explain_failure(tx: Transaction, job: Job, outcome: JobDone | JobFailed, now: float) -> None:
    event = find_event(tx, str(job.payload["event"]))
    if isinstance(outcome, JobDone) or event is None:
        return
    subject = event.billing_request or event.subject or event.event_id
    reason = (
        f"The payment provider reports {event.kind} for {subject}, which belongs to no registration"
        " here. Was the database restored from a backup?"
    )
    open_task(tx, NewTask(f"unknown/{subject}", "restored", reason), now)
