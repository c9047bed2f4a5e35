"""Outbox: the work outside of a turn, written in the transaction of its cause.

A worker takes a row for some seconds (a lease). If it dies, the lease ends, and another takes it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

from msgspec import Struct

from holdfast.outbox import OutboxJob
from registration.store.rows import describe, read_row, write_json
from registration.store.transaction import Transaction

JobState = Literal["queued", "running", "sent", "delivered", "failed"]


class NewJob(Struct, frozen=True):
    """A job for the outbox.

    Args:
        key: names the job for good; the provider gets it as its idempotency key.
        kind: which handler does it.
        payload: the input of the handler. Prefer ids to personal data.
        registration_id: whose it is, so that it is deleted with the registration.
        session_id: likewise, for a job before there is a registration.
    """

    key: str
    kind: str
    payload: Mapping[str, object]
    registration_id: str | None = None
    session_id: str | None = None

    def __repr__(self) -> str:
        return describe(self, ("key", "kind"))


class Job(OutboxJob, frozen=True, kw_only=True):
    """A row of the outbox."""

    state: JobState
    due_at: float
    created_at: float
    updated_at: float
    registration_id: str | None = None
    session_id: str | None = None
    lease_until: float | None = None
    result: dict[str, Any] | None = None
    reason: str | None = None

    def __repr__(self) -> str:
        return describe(self, ("key", "kind", "state", "attempts"))


def enqueue(tx: Transaction, new: NewJob, now: float, due_at: float | None = None) -> bool:
    """Write a job, due at once or at a time; whether it is new.

    A job whose key is known is not written again, after any outcome.
    """
    due = now if due_at is None else due_at
    row = (new.key, new.kind, new.registration_id, new.session_id, write_json(new.payload))
    written = tx.execute(
        "INSERT INTO outbox (key, kind, registration_id, session_id, payload_json, state, due_at,"
        " created_at, updated_at) VALUES (?, ?, ?, ?, ?, 'queued', ?, ?, ?)"
        " ON CONFLICT (key) DO NOTHING RETURNING key",
        *(*row, due, now, now),
    )
    return bool(written)


def find_job(tx: Transaction, key: str) -> Job | None:
    """Return a job, or None."""
    rows = tx.execute("SELECT * FROM outbox WHERE key = ?", key)
    return read_row(rows[0], Job) if rows else None


def claim_job(
    tx: Transaction, kinds: Collection[str], lease: str, now: float, lease_until: float
) -> Job | None:
    """Take the job that has been due longest, for these kinds, or None if none is due.

    Args:
        tx: the transaction.
        kinds: the kinds that the worker has handlers for.
        lease: a name that no other claim has, for example random.
        now: the time, in seconds since 1970.
        lease_until: when another worker may take the job.
    """
    _follow_clock(tx, now)
    marks = ", ".join("?" for _ in kinds)
    due = (
        f"SELECT key FROM outbox WHERE kind IN ({marks}) AND ((state = 'queued' AND due_at <= ?)"  # noqa: S608 -- only placeholders are inserted
        " OR (state = 'running' AND lease_until <= ?)) ORDER BY due_at, key LIMIT 1"
    )
    take = (
        "UPDATE outbox SET state = 'running', attempts = attempts + 1,"  # noqa: S608 -- as above
        " lease = ?, lease_until = ?, updated_at = ?"
        f" WHERE key = ({due} {tx.skip_locked}) RETURNING *"
    )
    rows = tx.execute(take, *(lease, lease_until, now), *kinds, *(now, now))
    return read_row(rows[0], Job) if rows else None


def _follow_clock(tx: Transaction, now: float) -> None:
    """Move the times of open jobs back if the clock was set back, so that none waits for the old time."""
    tx.execute(
        "UPDATE outbox SET due_at = due_at - (updated_at - ?),"  # noqa: S608 -- a constant is inserted
        " lease_until = lease_until - (updated_at - ?), updated_at = ? WHERE key IN"
        " (SELECT key FROM outbox WHERE state IN ('queued', 'running') AND updated_at > ?"
        f" {tx.skip_locked})",
        *(now, now, now, now),
    )


def renew_lease(tx: Transaction, job: Job, now: float, lease_until: float) -> bool:
    """Keep a job for longer; whether this worker still had it."""
    rows = tx.execute(
        "UPDATE outbox SET lease_until = ?, updated_at = ?"
        " WHERE key = ? AND lease = ? AND state = 'running' RETURNING key",
        *(lease_until, now, job.key, job.lease),
    )
    return bool(rows)


def record_success(
    tx: Transaction, job: Job, state: JobState, result: Mapping[str, object], now: float
) -> bool:
    """Save that a job was done; whether this worker still had it."""
    return _release(
        tx, job, "state = ?, result_json = ?, reason = NULL", (state, write_json(result)), now
    )


def record_retry(tx: Transaction, job: Job, reason: str, due_at: float, now: float) -> bool:
    """Save that a job is to be tried again at a time; whether this worker still had it."""
    return _release(tx, job, "state = 'queued', reason = ?, due_at = ?", (reason, due_at), now)


def record_failure(tx: Transaction, job: Job, reason: str, now: float) -> bool:
    """Save that a job is given up; whether this worker still had it."""
    return _release(tx, job, "state = 'failed', reason = ?", (reason,), now)


def hasten_job(tx: Transaction, key: str, now: float) -> None:
    """Let a job be done now that waits for its time."""
    tx.execute(
        "UPDATE outbox SET due_at = ?, updated_at = ?"
        " WHERE key = ? AND state = 'queued' AND due_at > ?",
        *(now, now, key, now),
    )


def requeue_job(tx: Transaction, key: str, now: float) -> bool:
    """Let a job that failed be tried again, with its key; whether it had failed."""
    rows = tx.execute(
        "UPDATE outbox SET state = 'queued', attempts = 0, due_at = ?, updated_at = ?"
        " WHERE key = ? AND state = 'failed' RETURNING key",
        *(now, now, key),
    )
    return bool(rows)


def list_jobs(tx: Transaction, registration: str) -> list[Job]:
    """Return the jobs of a registration, oldest first."""
    rows = tx.execute(
        "SELECT * FROM outbox WHERE registration_id = ? ORDER BY created_at, key", registration
    )
    return [read_row(row, Job) for row in rows]


def count_jobs(tx: Transaction) -> dict[tuple[str, str], int]:
    """Return how many jobs there are of each kind and state."""
    rows = tx.execute("SELECT kind, state, COUNT(*) AS number FROM outbox GROUP BY kind, state")
    return {(row["kind"], row["state"]): row["number"] for row in rows}


def find_oldest_due(tx: Transaction, now: float) -> float | None:
    """Return since when the job waits that has been due longest, or None if none is due."""
    rows = tx.execute(
        "SELECT MIN(due_at) AS since FROM outbox WHERE state = 'queued' AND due_at <= ?", now
    )
    since: float | None = rows[0]["since"]
    return since


def mark_delivered(tx: Transaction, key: str, now: float) -> None:
    """Save that the provider reported the delivery of a job's message."""
    tx.execute(
        "UPDATE outbox SET state = 'delivered', updated_at = ? WHERE key = ? AND state = 'sent'",
        *(now, key),
    )


def _release(
    tx: Transaction, job: Job, settings: str, values: tuple[str | float, ...], now: float
) -> bool:
    rows = tx.execute(
        f"UPDATE outbox SET {settings}, lease = NULL, lease_until = NULL, updated_at = ?"  # noqa: S608 -- settings of this module
        " WHERE key = ? AND lease = ? AND state = 'running' RETURNING key",
        *(*values, now, job.key, job.lease),
    )
    return bool(rows)
