"""Events of the payment provider: each stored once, and found by the registration they belong to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from registration.store.payment_state import PaymentRecord, StoredEvent
from registration.store.rows import read_row
from registration.store.transaction import Transaction

APPLY_PAYMENT_EVENT: Final = "apply_payment_event"  # the kind of the job


def save_event(tx: Transaction, event: StoredEvent, now: float) -> bool:
    """Store an event; whether it is new."""
    written = tx.execute(
        "INSERT INTO webhook_events (event_id, kind, happened_at, registration_id, billing_request,"
        " mandate, payment, subscription, received_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (event_id) DO NOTHING RETURNING event_id",
        *(event.event_id, event.kind, event.happened_at, event.registration_id),
        *(event.billing_request, event.mandate, event.payment, event.subscription, now),
    )
    return bool(written)


def find_event(tx: Transaction, event_id: str) -> StoredEvent | None:
    """Return an event, or None."""
    rows = tx.execute("SELECT * FROM webhook_events WHERE event_id = ?", event_id)
    return read_row(rows[0], StoredEvent) if rows else None


def find_owner(tx: Transaction, event: StoredEvent) -> str | None:
    """Return the id of the registration that an event belongs to, or None if nobody knows yet.

    It is the one that the event names, else the one with its billing request, else the one of
    another event that names the same mandate, payment or subscription.
    """
    named = tx.execute(
        "SELECT id FROM registrations WHERE id = ? OR billing_request = ?"
        " ORDER BY CASE WHEN id = ? THEN 0 ELSE 1 END LIMIT 1",
        *(event.registration_id, event.billing_request, event.registration_id),
    )
    if named:
        return str(named[0]["id"])
    related = tx.execute(
        "SELECT registration_id FROM webhook_events JOIN registrations"
        " ON registrations.id = webhook_events.registration_id"
        " WHERE webhook_events.billing_request = ? OR webhook_events.mandate = ?"
        " OR payment = ? OR webhook_events.subscription = ? LIMIT 1",
        *(event.billing_request, event.mandate, event.payment, event.subscription),
    )
    return str(related[0]["registration_id"]) if related else None


def claim_events(tx: Transaction, owner: str, event: StoredEvent) -> list[StoredEvent]:
    """Give an event to a registration, with all that belong to it, and return all that it has.

    Call it with the registration's row locked.
    """
    tx.execute(
        "UPDATE webhook_events SET registration_id = ? WHERE event_id = ?", owner, event.event_id
    )
    found = load_events(tx, owner)
    before = 0
    while len(found) > before:
        before = len(found)
        for one in found:
            _claim_related(tx, owner, one)
        found = load_events(tx, owner)
    return found


def load_events(tx: Transaction, owner: str) -> list[StoredEvent]:
    """Return the events of a registration."""
    rows = tx.execute("SELECT * FROM webhook_events WHERE registration_id = ?", owner)
    return [read_row(row, StoredEvent) for row in rows]


def mark_applied(tx: Transaction, owner: str, now: float) -> None:
    """Remember that the events of a registration are applied."""
    tx.execute(
        "UPDATE webhook_events SET applied_at = ? WHERE registration_id = ? AND applied_at IS NULL",
        *(now, owner),
    )


def wake_events(tx: Transaction, billing_request: str, now: float) -> None:
    """Let the events be applied that came before the answer with their billing request."""
    tx.execute(
        "UPDATE outbox SET due_at = ? WHERE kind = ? AND state = 'queued' AND due_at > ? AND key IN"
        " (SELECT 'webhook/' || event_id FROM webhook_events"
        " WHERE billing_request = ? AND applied_at IS NULL)",
        *(now, APPLY_PAYMENT_EVENT, now, billing_request),
    )


def save_payments(tx: Transaction, owner: str, payments: Iterable[PaymentRecord]) -> None:
    """Store the state of each payment of a registration."""
    for one in payments:
        tx.execute(
            "INSERT INTO payments (id, registration_id, kind, month, status, updated_at)"
            " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET kind = excluded.kind,"
            " month = excluded.month, status = excluded.status, updated_at = excluded.updated_at",
            *(one.id, owner, one.kind, one.month, one.status, one.updated_at),
        )


def load_payments(tx: Transaction, owner: str) -> list[PaymentRecord]:
    """Return the payments of a registration, the oldest month first."""
    rows = tx.execute("SELECT * FROM payments WHERE registration_id = ? ORDER BY month, id", owner)
    return [read_row(row, PaymentRecord) for row in rows]


def _claim_related(tx: Transaction, owner: str, event: StoredEvent) -> None:
    tx.execute(
        "UPDATE webhook_events SET registration_id = ? WHERE registration_id IS NULL"
        " AND (billing_request = ? OR mandate = ? OR payment = ? OR subscription = ?)",
        *(owner, event.billing_request, event.mandate, event.payment, event.subscription),
    )
