"""Remembers the heads of the runs that a connection wrote last, so that an append need not read them."""

from __future__ import annotations

import sqlite3
from typing import Any, NamedTuple

_MOST = 1000
_FIND_RUN = "SELECT id, records FROM runs WHERE tenant = ? AND name = ?"
_LAST_ID = "SELECT MAX(last_id, COALESCE((SELECT MAX(id) FROM records), 0)) FROM identity"


class KnownHead(NamedTuple):
    """The id of a run, and the number of its records."""

    id: int
    records: int


class WriterConnection(sqlite3.Connection):
    """The connection that writes to a journal. No other one changes the file while it is open.

    What it remembers is true until another statement changes a row, which `total_changes` tells, or
    a transaction is rolled back, which `roll_back` does.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._forget()

    def _forget(self) -> None:
        self._heads: dict[tuple[str, str], KnownHead] = {}
        self._last_id = -1
        self._known_changes = self.total_changes

    def find_head(self, tenant: str, run: str) -> KnownHead | None:
        """Return the head of a run; None if it is unknown."""
        if self.total_changes != self._known_changes:
            self._forget()
        head = self._heads.get((tenant, run))
        if head is None:
            found = self.execute(_FIND_RUN, (tenant, run)).fetchone()
            head = KnownHead(*found) if found else None
        return head

    def get_last_id(self) -> int:
        """Return the largest id of a record that there is or was; an id is given once."""
        if self._last_id < 0 or self.total_changes != self._known_changes:
            self._last_id = int(self.execute(_LAST_ID).fetchone()[0])
        return self._last_id

    def remember(self, tenant: str, run: str, head: KnownHead, last_id: int) -> None:
        """Remember what is true after an append, whose changes are the last ones."""
        if len(self._heads) >= _MOST:
            self._heads.clear()
        self._heads[tenant, run] = head
        self._last_id = last_id
        self._known_changes = self.total_changes

    def roll_back(self) -> None:
        """Roll a transaction back, unless SQLite has done so, for example when the disk was full."""
        self._forget()
        if self.in_transaction:
            self.execute("ROLLBACK")


def to_writer_connection(connection: sqlite3.Connection) -> WriterConnection:
    """Return a connection that a journal has opened to write."""
    if not isinstance(connection, WriterConnection):
        raise TypeError(f"not opened by a journal to write: {connection!r}")
    return connection
