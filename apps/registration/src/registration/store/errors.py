"""The errors of the store. No message contains a value of a row: rows hold personal data."""

from __future__ import annotations

from typing import Literal

Landed = Literal["no", "unknown"]


class StoreError(Exception):
    """The parent of every error of the store."""


class DatabaseUnavailable(StoreError):
    """The database is busy, full, read-only or cannot be reached. The same request may succeed later.

    Args:
        reason: the problem, in plain words, without data.
        landed: `no` if nothing of the transaction was saved; `unknown` if the connection was lost
            while it was committed, so that it was saved whole or not at all.
    """

    retryable = True
    retry_after = 5.0  # seconds

    def __init__(self, reason: str, *, landed: Landed = "no") -> None:
        super().__init__(f"the database is not available: {reason}")
        self.reason = reason
        self.landed = landed


class SchemaRefused(StoreError):
    """The database belongs to another version of this program, or its schema was edited."""


class ConstraintViolated(StoreError):
    """A row breaks a rule of the schema.

    Args:
        constraint: the name of the rule or of its columns.
    """

    def __init__(self, constraint: str) -> None:
        super().__init__(f"a row breaks the rule {constraint}")
        self.constraint = constraint


class StatementFailed(StoreError):
    """A statement is wrong: a mistake of this program.

    Args:
        code: the database's code of the error.
    """

    def __init__(self, code: str) -> None:
        super().__init__(f"the database refused a statement ({code})")
        self.code = code


class ProgressChanged(StoreError):
    """Somebody else saved the progress of this session since it was read: read it again."""


class TransactionConflict(StoreError):
    """The database asks to repeat the transaction. `Database` does that; nobody else sees this."""


class ConnectionLost(StoreError):
    """The connection was lost before the commit. `Database` repeats the transaction on another."""
