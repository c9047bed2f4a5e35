"""Databases of a test of the outbox: SQLite files, and PostgreSQL through psycopg."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

from holdfast.outbox import DbapiOutboxStore, JobHandler, Outbox, OutboxWorker


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def connect(address: str) -> Any:
    """Open a connection to a SQLite file, or to PostgreSQL."""
    if not address.startswith("postgresql:"):
        return sqlite3.connect(address)
    import psycopg  # REASON: an extra

    return psycopg.connect(address)


class Shop:
    """A program with a table of its own, an outbox beside it, and workers.

    Args:
        address: of its database.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.clock = Clock()
        driver = "psycopg" if address.startswith("postgresql:") else "sqlite3"
        self.outbox = Outbox(driver, clock=self.clock)  # type: ignore[arg-type]
        self.stores: list[DbapiOutboxStore[Any]] = []

    def make_tables(self) -> None:
        self.change("CREATE TABLE orders (name TEXT)", *self.outbox.schema())

    def change(self, *statements: str | tuple[str, tuple[object, ...]]) -> list[Any]:
        """Execute statements in one transaction; return the rows of the last."""
        with closing(connect(self.address)) as connection:
            cursor = connection.cursor()
            for one in statements:
                cursor.execute(*((one,) if isinstance(one, str) else one))
            rows = cursor.fetchall() if cursor.description else []
            connection.commit()
            return [tuple(row) for row in rows]

    def put(self, *keys: str, due_at: float | None = None) -> None:
        self.change(
            *(self.outbox.insert(key, "mail", {"order": key}, due_at=due_at) for key in keys)
        )

    def states(self) -> dict[str, tuple[str, int, str | None]]:
        """Return the state, the attempts and the reason of each job."""
        rows = self.change("SELECT key, state, attempts, reason FROM holdfast_outbox ORDER BY key")
        return {row[0]: tuple(row[1:]) for row in rows}

    def worker(self, handler: JobHandler[Any, Any], **options: Any) -> OutboxWorker[Any, Any]:
        store = DbapiOutboxStore(self.outbox, lambda: connect(self.address))
        self.stores.append(store)
        return OutboxWorker(store, {"mail": handler}, clock=self.clock, **options)

    async def close(self) -> None:
        for store in self.stores:
            await store.close()


class Script:
    """A handler's function that gives one outcome after the other."""

    def __init__(self, *outcomes: Any, otherwise: Callable[[], Any]) -> None:
        self.outcomes = list(outcomes)
        self.otherwise = otherwise
        self.seen: list[str] = []

    async def __call__(self, job: Any) -> Any:
        self.seen.append(job.key)
        outcome = self.outcomes.pop(0) if self.outcomes else self.otherwise()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome
