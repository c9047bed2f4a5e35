"""One transaction, as the functions of the store see it."""

from __future__ import annotations

import re

from registration.store.connection import Connection, Parameter, Row

# The characters that no database stores as text: the null character, and halves of characters.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class Transaction:
    """One transaction: all of it is saved, or nothing.

    A transaction on PostgreSQL sees the commits of others meanwhile. One that decides by rows which
    others may change takes these rows with `lock_row` first, or writes with a condition.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.skip_locked = connection.skip_locked  # ends a SELECT in an UPDATE that takes one row

    def execute(self, sql: str, *parameters: Parameter) -> list[Row]:
        """Run one statement with `?` parameters, and return its rows by the names of the columns.

        Raises:
            ConstraintViolated: a row breaks a rule of the schema.
            StatementFailed: the statement is wrong.
        """
        return self._connection.execute(sql, tuple(map(_make_storable, parameters)))

    def lock_row(self, table: str, column: str, value: str) -> None:
        """Let no other transaction change the rows whose column has this value until this one ends.

        Args:
            table: the name of the table, as the program writes it.
            column: the name of the column, likewise.
            value: the value.
        """
        self._connection.lock_row(table, column, value)

    def lock_schema(self) -> None:
        """Let no other process change the schema until this transaction ends."""
        self._connection.lock_schema()


def _make_storable(value: Parameter) -> Parameter:
    """Return a value that both databases take: an id from outside may hold any character."""
    if isinstance(value, str):
        return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", value)
    return int(value) if isinstance(value, bool) else value
