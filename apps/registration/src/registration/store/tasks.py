"""Tasks: cases that a person in the office has to look at."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from registration.store.rows import read_row
from registration.store.transaction import Transaction

TaskKind = Literal[
    "in_doubt", "refused", "duplicate", "payment", "suspended", "photo", "restored", "corrected"
]


class Task(Struct, frozen=True):
    """A task as it is stored. Its reason contains no personal data: it names the registration."""

    key: str
    kind: TaskKind
    reason: str
    state: Literal["open", "done"]
    created_at: float
    registration_id: str | None = None
    session_id: str | None = None
    done_at: float | None = None


class NewTask(Struct, frozen=True):
    """A task for the office.

    Args:
        key: names the cause, so that one cause opens one task.
        kind: the kind of task.
        reason: the event and the next step, without personal data.
        registration_id: which registration it is about.
        session_id: which session it is about, before there is a registration.
    """

    key: str
    kind: TaskKind
    reason: str
    registration_id: str | None = None
    session_id: str | None = None


def open_task(tx: Transaction, new: NewTask, now: float) -> bool:
    """Store a task; whether it is new. One that was done is not opened again."""
    written = tx.execute(
        "INSERT INTO office_tasks"
        " (key, kind, registration_id, session_id, reason, state, created_at)"
        " VALUES (?, ?, ?, ?, ?, 'open', ?) ON CONFLICT (key) DO NOTHING RETURNING key",
        *(new.key, new.kind, new.registration_id, new.session_id, new.reason, now),
    )
    return bool(written)


def record_act(tx: Transaction, new: NewTask, now: float) -> bool:
    """Store an act of a person in the office, as a task that is done; whether it is new."""
    return open_task(tx, new, now) and finish_task(tx, new.key, now)


def finish_task(tx: Transaction, key: str, now: float) -> bool:
    """Mark a task as done; whether it was open."""
    done = tx.execute(
        "UPDATE office_tasks SET state = 'done', done_at = ? WHERE key = ? AND state = 'open'"
        " RETURNING key",
        *(now, key),
    )
    return bool(done)


def has_task(tx: Transaction, key: str) -> bool:
    """Whether a task was opened, or an act recorded, with this key."""
    return bool(tx.execute("SELECT key FROM office_tasks WHERE key = ?", key))


def withdraw_task(tx: Transaction, key: str) -> None:
    """Remove a task whose cause is gone. If the cause comes back, it is opened again."""
    tx.execute("DELETE FROM office_tasks WHERE key = ?", key)


def list_tasks(tx: Transaction, state: Literal["open", "done"] = "open") -> list[Task]:
    """Return the tasks of a state, oldest first; at most 1,000."""
    rows = tx.execute(
        "SELECT * FROM office_tasks WHERE state = ? ORDER BY created_at, key LIMIT 1000", state
    )
    return [read_row(row, Task) for row in rows]


def list_tasks_of(tx: Transaction, registration: str) -> list[Task]:
    """Return the tasks of a registration and the acts of the office on it, newest first."""
    rows = tx.execute(
        "SELECT * FROM office_tasks WHERE registration_id = ? ORDER BY created_at DESC, key",
        registration,
    )
    return [read_row(row, Task) for row in rows]


def count_tasks(tx: Transaction) -> dict[str, int]:
    """Return how many open tasks there are of each kind."""
    rows = tx.execute(
        "SELECT kind, COUNT(*) AS number FROM office_tasks WHERE state = 'open' GROUP BY kind"
    )
    return {row["kind"]: row["number"] for row in rows}
