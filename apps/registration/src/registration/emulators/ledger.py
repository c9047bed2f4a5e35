"""The records of an emulated provider: a SQLite file, or memory.

A provider goes on existing when the service that uses it is killed. With a file, so does an
emulated one when the whole demo is killed: each change is one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

SCHEMA = """
CREATE TABLE IF NOT EXISTS things (
    number INTEGER PRIMARY KEY, kind TEXT NOT NULL, id TEXT NOT NULL, key TEXT, digest TEXT,
    body BLOB NOT NULL, UNIQUE (kind, id), UNIQUE (kind, key)
);
CREATE TABLE IF NOT EXISTS deliveries (
    number INTEGER PRIMARY KEY, event TEXT NOT NULL, body BLOB NOT NULL, due REAL NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0, delivered INTEGER NOT NULL DEFAULT 0
);
"""


class HasId(Protocol):
    """Something that a provider made."""

    @property
    def id(self) -> str:
        """Its id, unique for its type."""


Thing = TypeVar("Thing", bound=HasId)


class KeyReused(Exception):
    """An idempotency key came again with another body."""


class IdempotencyKey(Struct, frozen=True):
    """The key of a request, and the digest of its body."""

    key: str
    digest: str


class Delivery(Struct, frozen=True):
    """A webhook that was not accepted yet; `due` is in seconds since the epoch."""

    number: int
    body: bytes
    due: float
    attempts: int


class Ledger:
    """The things of one emulated provider.

    Args:
        file: where it is saved; None for memory.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._lock = RLock()
        self._connection = sqlite3.connect(
            file or ":memory:", isolation_level=None, check_same_thread=False
        )
        self._connection.execute("PRAGMA journal_mode = WAL")
        # Safe when the process is killed; only a power failure can lose the last changes.
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.executescript(SCHEMA)

    def close(self) -> None:
        """Close the file; a ledger in memory is gone."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def change(self) -> Iterator[None]:
        """Make all changes inside, or none of them."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def find_same(self, of: type[Thing], key: IdempotencyKey) -> Thing | None:
        """Return the object that was made with a key, or None.

        Raises:
            KeyReused: it was made from another body.
        """
        rows = self._select(
            "SELECT body, digest FROM things WHERE kind = ? AND key = ?", of, key.key
        )
        if rows and rows[0][1] != key.digest:
            raise KeyReused
        return msgspec.json.decode(rows[0][0], type=of) if rows else None

    def find(self, of: type[Thing], key: str) -> Thing | None:
        """Return the object that was made with a key, or None."""
        rows = self._select("SELECT body FROM things WHERE kind = ? AND key = ?", of, key)
        return msgspec.json.decode(rows[0][0], type=of) if rows else None

    def get(self, of: type[Thing], thing_id: str) -> Thing | None:
        """Return the thing with an id, or None."""
        rows = self._select("SELECT body FROM things WHERE kind = ? AND id = ?", of, thing_id)
        return msgspec.json.decode(rows[0][0], type=of) if rows else None

    def list_things(self, of: type[Thing]) -> list[Thing]:
        """Return all things of a type, oldest first."""
        rows = self._select("SELECT body FROM things WHERE kind = ? ORDER BY number", of)
        return [msgspec.json.decode(row[0], type=of) for row in rows]

    def add(self, thing: HasId, key: IdempotencyKey | None = None) -> None:
        """Add a thing, with the key it was made with."""
        self._connection.execute(
            "INSERT INTO things (kind, id, key, digest, body) VALUES (?, ?, ?, ?, ?)",
            (
                type(thing).__name__,
                thing.id,
                key and key.key,
                key and key.digest,
                msgspec.json.encode(thing),
            ),
        )

    def save(self, thing: HasId) -> None:
        """Replace the thing that has this id."""
        self._connection.execute(
            "UPDATE things SET body = ? WHERE kind = ? AND id = ?",
            (msgspec.json.encode(thing), type(thing).__name__, thing.id),
        )

    def schedule(self, event: str, body: bytes, due: float) -> int:
        """Add a webhook that is due at a time, and return its number."""
        rows = self._connection.execute(
            "INSERT INTO deliveries (event, body, due) VALUES (?, ?, ?) RETURNING number",
            (event, body, due),
        ).fetchall()
        return int(rows[0][0])

    def list_deliveries(self) -> list[Delivery]:
        """Return the webhooks that nobody accepted yet, the next one first."""
        with self._lock:
            rows = self._connection.execute(
                "SELECT number, body, due, attempts FROM deliveries WHERE NOT delivered"
                " ORDER BY due, number"
            ).fetchall()
        return [Delivery(*row) for row in rows]

    def mark_delivered(self, number: int) -> None:
        """Save that a webhook was accepted."""
        with self.change():
            self._connection.execute(
                "UPDATE deliveries SET delivered = 1, attempts = attempts + 1 WHERE number = ?",
                (number,),
            )

    def delay(self, number: int, due: float) -> None:
        """Save that a webhook was not accepted and is due again."""
        with self.change():
            self._connection.execute(
                "UPDATE deliveries SET due = ?, attempts = attempts + 1 WHERE number = ?",
                (due, number),
            )

    def _select(self, sql: str, of: type[Thing], *values: str) -> list[tuple[bytes, str]]:
        with self._lock:
            return self._connection.execute(sql, (of.__name__, *values)).fetchall()
