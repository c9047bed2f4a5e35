"""The SQL of an outbox, for SQLite and PostgreSQL, as text and parameters. Nothing here executes a statement."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import NonEmptyText
from holdfast.core.errors import ConfigurationError
from holdfast.core.printable import escape_invisible
from holdfast.outbox.job_outcomes import JobDone, JobOutcome, JobRetry, OutboxJob

Driver: TypeAlias = Literal["sqlite3", "psycopg", "asyncpg"]

_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,40}", re.ASCII)
_NOT_DATED: Final = "(state = 'running' OR (state = 'queued' AND is_dated = 0))"
_CLAIMED: Final = "key, kind, payload, attempts, lease"


class OutboxStatement(NamedTuple):
    """A statement for the user's own connection: `connection.execute(*statement)`.

    asyncpg takes the parameters one by one: `connection.execute(statement.sql, *statement.parameters)`.
    """

    sql: str
    parameters: tuple[object, ...] = ()


class Outbox:
    """A table of jobs in the user's database, and the statements for it.

    A statement belongs into the user's own transaction: then the job is saved if its cause is saved.

    Args:
        driver: of the user's connection: "sqlite3", "psycopg" or "asyncpg". It decides how a parameter is written.
        table: the name of the table, in lower case.
        clock: returns the time in seconds since 1970.

    Raises:
        ConfigurationError: an argument is wrong.

    >>> import sqlite3
    >>> outbox = Outbox("sqlite3", clock=lambda: 0.0)
    >>> connection = sqlite3.connect(":memory:")
    >>> for statement in outbox.schema():
    ...     _ = connection.execute(*statement)
    >>> with connection:
    ...     _ = connection.execute(*outbox.insert("order/7/mail", "send_mail", {"order": 7}))
    >>> connection.execute(*outbox.count()).fetchall()
    [('send_mail', 'queued', 1)]
    """

    def __init__(
        self,
        driver: Driver,
        table: str = "holdfast_outbox",
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        check_value("driver", driver, Driver)
        check_value("table", table, str)
        if not _NAME.fullmatch(table):
            raise ConfigurationError(
                "table", "is not the name of a table", fix="Use a-z, 0-9 and _"
            )
        self.driver: Driver = driver
        self.table = table
        self._clock = clock

    def schema(self) -> list[OutboxStatement]:
        """Return the statements that make the table; they do nothing if it is there.

        `is_dated` is 1 for a job whose `due_at` is a time of day that the user gave.
        """
        table = (
            f"CREATE TABLE IF NOT EXISTS {self.table} (key TEXT PRIMARY KEY, kind TEXT NOT NULL,"
            " payload TEXT NOT NULL, state TEXT NOT NULL, attempts BIGINT NOT NULL DEFAULT 0,"
            " due_at DOUBLE PRECISION NOT NULL, created_at DOUBLE PRECISION NOT NULL,"
            " updated_at DOUBLE PRECISION NOT NULL, lease TEXT, lease_until DOUBLE PRECISION,"
            " result TEXT, reason TEXT, is_dated BIGINT NOT NULL DEFAULT 0)"
        )
        index = f"CREATE INDEX IF NOT EXISTS {self.table}_by_state ON {self.table} (state, due_at)"
        open_jobs = (
            f"CREATE INDEX IF NOT EXISTS {self.table}_by_update ON {self.table} (updated_at)"
            f" WHERE {_NOT_DATED}"
        )
        return [OutboxStatement(table), OutboxStatement(index), OutboxStatement(open_jobs)]

    def insert(
        self, key: str, kind: str, payload: Mapping[str, object], *, due_at: float | None = None
    ) -> OutboxStatement:
        """Return the statement that writes a job. A job whose key is known is not written again.

        Args:
            key: the name of the job for good, such as "order/7/mail".
            kind: which handler does it.
            payload: the arguments for the handler, of types that JSON has. Prefer ids to personal data.
            due_at: when it is to be done, in seconds since 1970; None for at once.

        Raises:
            ConfigurationError: an argument is wrong.
        """
        check_value("key", key, NonEmptyText)
        check_value("kind", kind, NonEmptyText)
        now = self._clock()
        due = now if due_at is None else due_at
        return self._write(
            f"INSERT INTO {self.table} (key, kind, payload, state, due_at, created_at, updated_at,"  # noqa: S608  # REASON: the name was checked
            " is_dated) VALUES (?, ?, ?, 'queued', ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING",
            *(key, kind, _encode("payload", payload), due, now, now, int(due_at is not None)),
        )

    def count(self) -> OutboxStatement:
        """Return the statement that counts the jobs: rows of kind, state and number.

        The states are queued, running, done and failed.
        """
        return self._write(
            f"SELECT kind, state, count(*) FROM {self.table} GROUP BY kind, state ORDER BY kind, state"  # noqa: S608  # REASON: as above
        )

    def list_dead_letters(self) -> OutboxStatement:
        """Return the statement that lists failed jobs: rows of key, kind, attempts and reason."""
        return self._write(
            f"SELECT key, kind, attempts, reason FROM {self.table} WHERE state = 'failed'"  # noqa: S608  # REASON: as above
            " ORDER BY updated_at, key"
        )

    def requeue(self, key: str) -> OutboxStatement:
        """Return the statement that lets a failed job be tried again, with its key and all its attempts."""
        now = self._clock()
        return self._write(
            f"UPDATE {self.table} SET state = 'queued', attempts = 0, due_at = ?, updated_at = ?,"  # noqa: S608  # REASON: as above
            " is_dated = 0 WHERE key = ? AND state = 'failed'",
            *(now, now, key),
        )

    def delete_done(self, before: float) -> OutboxStatement:
        """Return the statement that deletes jobs that were done before a time, in seconds since 1970.

        A key that is deleted can be written again.
        """
        return self._write(
            f"DELETE FROM {self.table} WHERE state = 'done' AND updated_at < ?",  # noqa: S608  # REASON: as above
            before,
        )

    def follow_clock(self, now: float) -> OutboxStatement:
        """Return the statement that moves the times of open jobs back if the clock was set back.

        A worker executes it before `claim`, in the same transaction. Otherwise a job that is to be done at once, or
        after some seconds, would wait until the clock shows the old time again, and so would the end of a lease.
        A job with a `due_at` of the user's keeps it.
        """
        lock = "" if self.driver == "sqlite3" else " FOR UPDATE SKIP LOCKED"
        return self._write(
            f"UPDATE {self.table} SET due_at = due_at - (updated_at - ?),"  # noqa: S608  # REASON: as above
            " lease_until = lease_until - (updated_at - ?), updated_at = ? WHERE key IN"
            f" (SELECT key FROM {self.table} WHERE {_NOT_DATED} AND updated_at > ?{lock})",
            *(now, now, now, now),
        )

    def claim(self, kinds: Sequence[str], lease: str, now: float, until: float) -> OutboxStatement:
        """Return the statement with which a worker takes the job that has been due longest.

        Its row is for `read_claimed`; there is none if no job is due.
        """
        marks = ", ".join("?" for _ in kinds)
        lock = "" if self.driver == "sqlite3" else " FOR UPDATE SKIP LOCKED"
        return self._write(
            f"UPDATE {self.table} SET state = 'running', attempts = attempts + 1, lease = ?,"  # noqa: S608  # REASON: as above
            f" lease_until = ?, updated_at = ? WHERE key = (SELECT key FROM {self.table}"
            f" WHERE kind IN ({marks}) AND ((state = 'queued' AND due_at <= ?)"
            " OR (state = 'running' AND lease_until <= ?))"
            f" ORDER BY due_at, key LIMIT 1{lock}) RETURNING {_CLAIMED}",
            *(lease, until, now, *kinds, now, now),
        )

    def renew(self, job: OutboxJob, now: float, until: float) -> OutboxStatement:
        """Return the statement that keeps a job for longer; no row if this worker lost it."""
        return self._write(
            f"UPDATE {self.table} SET lease_until = ?, updated_at = ?"  # noqa: S608  # REASON: as above
            " WHERE key = ? AND lease = ? AND state = 'running' RETURNING key",
            *(until, now, job.key, job.lease),
        )

    def record(self, job: OutboxJob, outcome: JobOutcome, now: float) -> OutboxStatement:
        """Return the statement that saves an outcome; no row if this worker lost the job."""
        result = None
        due = now
        if isinstance(outcome, JobDone):
            state, reason, result = "done", None, _encode("result", outcome.result)
        elif isinstance(outcome, JobRetry):
            state, due = "queued", now + outcome.after
            reason = escape_invisible(outcome.reason)
        else:
            state, reason = "failed", escape_invisible(outcome.reason)
        return self._write(
            f"UPDATE {self.table} SET state = ?, reason = ?, result = ?, due_at = ?, updated_at = ?,"  # noqa: S608  # REASON: as above
            " lease = NULL, lease_until = NULL, is_dated = 0"
            " WHERE key = ? AND lease = ? AND state = 'running' RETURNING key",
            *(state, reason, result, due, now, job.key, job.lease),
        )

    def _write(self, text: str, *parameters: object) -> OutboxStatement:
        return OutboxStatement(_number_marks(text, self.driver), parameters)


def read_claimed(row: Sequence[object] | Mapping[str, object]) -> OutboxJob:
    """Return the job of a row that `Outbox.claim` returned."""
    values = row.values() if isinstance(row, Mapping) else row
    fields = dict(zip(_CLAIMED.split(", "), values, strict=True))
    fields["payload"] = msgspec.json.decode(str(fields["payload"]))
    return msgspec.convert(fields, OutboxJob)


def _number_marks(text: str, driver: Driver) -> str:
    """Write the marks of parameters as a driver reads them.

    >>> _number_marks("a = ? AND b = ?", "asyncpg")
    'a = $1 AND b = $2'
    """
    if driver == "sqlite3":
        return text
    first, *rest = text.split("?")
    marks = ("%s" if driver == "psycopg" else f"${n}" for n in range(1, len(rest) + 1))
    return first + "".join(mark + part for mark, part in zip(marks, rest, strict=True))


def _encode(name: str, value: Mapping[str, object]) -> str:
    check_value(name, value, Mapping)
    try:
        return msgspec.json.encode(dict(value)).decode()
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        raise ConfigurationError(
            name,
            "holds a value that JSON has no type for",
            fix="Pass texts, numbers, lists and mappings",
        ) from None
