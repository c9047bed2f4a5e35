"""Remembers the heads of the runs that a connection wrote last, so that an append need not read them."""

from __future__ import annotations

import sqlite3
from typing import Any, TypeAlias

_MOST = 1000
_FIND_RUN = "SELECT id, records FROM runs WHERE tenant = ? AND name = ?"
_LAST_ID = "SELECT MAX(last_id, COALESCE((SELECT MAX(id) FROM records), 0)) FROM identity"

KnownHead: TypeAlias = tuple[int, int]
"""The id of a run, and the number of its records."""


class WriterConnection(sqlite3.Connection):
    """The connection that writes to a journal. No other one changes the file while it is open.

    Its memory is true until another statement changes a row, which `total_changes` shows, or
    a transaction is rolled back, which `roll_back` does.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._forget()

    def _forget(self) -> None:
        self._heads: dict[tuple[str, str], KnownHead] = {}
        self._last_id = -1
        self._known_changes = self.total_changes

    def begin_appends(self) -> int:
        """Forget the runs that may have changed; return the largest id of a record that there is or was."""
        if self.total_changes != self._known_changes:
            self._forget()
        elif len(self._heads) >= _MOST:
            # Never between the appends of a group: the rows of its runs are changed after all of them.
            self._heads.clear()
        if self._last_id < 0:
            self._last_id = self.get_last_id()
        return self._last_id

    def find_head(self, tenant: str, run: str) -> KnownHead | None:
        """Return the head of a run while appends are inserted; None if it is unknown."""
        head = self._heads.get((tenant, run))
        if head is None:
            head = self.execute(_FIND_RUN, (tenant, run)).fetchone()
        return head

    def remember(self, tenant: str, run: str, head: KnownHead) -> None:
        """Remember the head of a run after one of the appends."""
        self._heads[tenant, run] = head

    def end_appends(self, last_id: int) -> None:
        """Remember the state after the appends, whose changes are the last ones."""
        self._last_id = last_id
        self._known_changes = self.total_changes

    def get_last_id(self) -> int:
        """Read the largest id of a record that there is or was; an id is given once."""
        return int(self.execute(_LAST_ID).fetchone()[0])

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
