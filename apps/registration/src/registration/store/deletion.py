"""Deletion: every row of a person, and the names of the files to remove.

`Database.compact` then removes the rows' bytes from the database's files.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from registration.store.tasks import NewTask, open_task
from registration.store.transaction import Transaction

DAY: Final = 86_400.0
# The tables with rows of a session, and those with rows of a registration.
_OF_SESSION: Final = ("messages", "effects", "outbox", "photo_jobs", "office_tasks")
_OF_REGISTRATION: Final = (
    *("shirt_numbers", "effects", "outbox", "webhook_events"),
    *("payments", "photo_jobs", "office_tasks"),
)


class Deleted(Struct, frozen=True):
    """The work that a deletion leaves.

    Args:
        existed: whether there was anything to delete.
        files: the names of the files to remove from the object store.
    """

    existed: bool
    files: tuple[str, ...] = ()


def delete_session(tx: Transaction, session_id: str, now: float) -> Deleted:
    """Delete a session with its registrations: all that is known of the person."""
    rows = tx.execute("SELECT id FROM registrations WHERE session_id = ?", session_id)
    deleted = [delete_registration(tx, row["id"], now) for row in rows]
    deleted.append(_delete_rows_of_session(tx, session_id))
    return _join(deleted)


def forget_session(tx: Transaction, session_id: str, now: float) -> Deleted:
    """Delete an expired session. The club keeps the registration if it got as far as the payment."""
    rows = tx.execute(
        "SELECT id FROM registrations WHERE session_id = ? AND status = 'incomplete'", session_id
    )
    deleted = [delete_registration(tx, row["id"], now) for row in rows]
    tx.execute("UPDATE registrations SET session_id = NULL WHERE session_id = ?", session_id)
    # The rows of a registration that stays are kept with it.
    for table in set(_OF_SESSION) & set(_OF_REGISTRATION):
        tx.execute(
            f"UPDATE {table} SET session_id = NULL WHERE session_id = ?"  # noqa: S608 -- names of this module
            " AND registration_id IS NOT NULL",
            session_id,
        )
    deleted.append(_delete_rows_of_session(tx, session_id))
    return _join(deleted)


def list_files_to_forget(tx: Transaction, session_id: str) -> tuple[str, ...]:
    """Return the names of the files that `forget_session` leaves to remove."""
    rows = tx.execute(
        "SELECT upload_file, stored_file FROM photo_jobs LEFT JOIN registrations"
        " ON registrations.id = photo_jobs.registration_id WHERE photo_jobs.session_id = ?"
        " AND (registrations.id IS NULL OR registrations.status = 'incomplete')",
        session_id,
    )
    return tuple(sorted({name for row in rows for name in row.values() if name}))


def delete_registration(tx: Transaction, registration: str, now: float) -> Deleted:
    """Delete a registration. If the provider still takes money for it, the office is notified."""
    rows = tx.execute(
        "DELETE FROM registrations WHERE id = ? RETURNING photo_file, subscription,"
        " subscription_activated",
        registration,
    )
    files = {row["photo_file"] for row in rows}
    photos = tx.execute(
        "SELECT upload_file, stored_file FROM photo_jobs WHERE registration_id = ?", registration
    )
    files |= {name for photo in photos for name in photo.values()}
    tx.execute(
        "DELETE FROM outbox WHERE key IN"
        " (SELECT 'webhook/' || event_id FROM webhook_events WHERE registration_id = ?)",
        registration,
    )
    for table in _OF_REGISTRATION:
        tx.execute(f"DELETE FROM {table} WHERE registration_id = ?", registration)  # noqa: S608 -- names of this module
    for row in rows:
        if row["subscription_activated"]:
            _report_subscription(tx, row["subscription"], now)
    return Deleted(bool(rows), tuple(sorted(name for name in files if name)))


def expired(
    tx: Transaction, now: float, *, open_days: int = 30, finished_days: int = 90
) -> list[str]:
    """Return the ids of the sessions that are too old, oldest first, at most 1,000.

    Args:
        tx: the transaction.
        now: the time, in seconds since 1970.
        open_days: days after the last change of one that was not finished.
        finished_days: days after the end of one that was.
    """
    rows = tx.execute(
        "SELECT id FROM sessions WHERE (finished_at IS NULL AND updated_at <= ?)"
        " OR finished_at <= ? ORDER BY updated_at, id LIMIT 1000",
        *(now - open_days * DAY, now - finished_days * DAY),
    )
    return [row["id"] for row in rows]


def expired_registrations(tx: Transaction, now: float, *, days: int) -> list[str]:
    """Return the ids of the registrations in which nothing changed for so many days, at most 1,000."""
    rows = tx.execute(
        "SELECT id FROM registrations WHERE updated_at <= ? ORDER BY updated_at, id LIMIT 1000",
        now - days * DAY,
    )
    return [row["id"] for row in rows]


def delete_empty_sessions(tx: Transaction, now: float) -> int:
    """Delete the sessions in which nobody wrote anything for a day; return how many there were."""
    rows = tx.execute(
        "DELETE FROM sessions WHERE version = 0 AND updated_at <= ? AND NOT EXISTS"
        " (SELECT 1 FROM messages WHERE messages.session_id = sessions.id) RETURNING id",
        now - DAY,
    )
    return len(rows)


def _delete_rows_of_session(tx: Transaction, session_id: str) -> Deleted:
    photos = tx.execute(
        "SELECT upload_file, stored_file FROM photo_jobs WHERE session_id = ?", session_id
    )
    for table in _OF_SESSION:
        tx.execute(f"DELETE FROM {table} WHERE session_id = ?", session_id)  # noqa: S608 -- names of this module
    sessions = tx.execute("DELETE FROM sessions WHERE id = ? RETURNING id", session_id)
    files = {name for photo in photos for name in photo.values() if name}
    return Deleted(bool(sessions), tuple(sorted(files)))


def _report_subscription(tx: Transaction, subscription: str, now: float) -> None:
    reason = (
        f"A registration was deleted, and its subscription {subscription} goes on: cancel it at the"
        " payment provider."
    )
    open_task(tx, NewTask(f"deleted/{subscription}", "payment", reason), now)


def _join(deleted: list[Deleted]) -> Deleted:
    files = {name for one in deleted for name in one.files}
    return Deleted(any(one.existed for one in deleted), tuple(sorted(files)))
