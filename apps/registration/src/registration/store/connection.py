"""The port to a database: one connection, of any kind."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

Row: TypeAlias = dict[str, Any]
Parameter: TypeAlias = str | int | float | bytes | None


class Connection(Protocol):
    """One connection. Every method may raise an error of `registration.store.errors`, no other."""

    skip_locked: str  # ends a SELECT that takes rows and leaves out those that others have

    def begin(self, *, write: bool) -> None:
        """Begin a transaction; one that writes waits for the writer before it."""

    def execute(self, sql: str, parameters: tuple[Parameter, ...]) -> list[Row]:
        """Run one statement with `?` parameters and return its rows."""

    def lock_row(self, table: str, column: str, value: str) -> None:
        """Let no other transaction change this row until the end of this one."""

    def lock_schema(self) -> None:
        """Let no other process change the schema until the end of this transaction."""

    def commit(self) -> None:
        """Save the transaction; return when it survives a crash."""

    def rollback(self) -> None:
        """Forget the transaction. Never raises."""

    def compact(self) -> None:
        """Remove deleted rows from the files."""

    def abort(self) -> None:
        """End the present wait of the connection; called from another thread."""

    def close(self) -> None:
        """Close the connection. Never raises."""

    @property
    def is_usable(self) -> bool:
        """Whether another transaction can run on this connection."""


class Opener(Protocol):
    """Opens connections to one database."""

    writers: int  # transactions that may write at the same time
    readers: int  # 0: the connections that write also read

    def open(self, *, write: bool) -> Connection:
        """Open a connection, or raise DatabaseUnavailable."""
