"""Transactions that wait for the same writer are saved by one commit, each of them whole or not at all.

A commit waits for the disk, and a file has one writer. This module must never save a part of a transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final

from msgspec import Struct

from registration.store.connection import Connection
from registration.store.errors import (
    ConnectionLost,
    DatabaseUnavailable,
    StoreError,
    TransactionConflict,
)
from registration.store.transaction import Transaction

MOST: Final = 32  # transactions in one commit
_OF_ALL: Final = (DatabaseUnavailable, TransactionConflict, ConnectionLost)


class Waiting(Struct, eq=False):
    """A transaction that waits for the writer.

    Args:
        work: as of `Database.transact`.
        running: names the connection while the work is done.
        future: takes the result.
    """

    work: Callable[[Transaction], Any]
    running: list[Connection]
    future: Future[Any]


def perform_together(connection: Connection, group: Sequence[Waiting]) -> bool:
    """Do some transactions in one commit; whether that was possible.

    If it was not, nothing is saved, and each is to be done by itself.

    Args:
        connection: of the writer.
        group: the transactions. Those that were done have their results.
    """
    outcomes: list[Any] = []
    for one in group:
        one.running[:] = [connection]
    try:
        connection.begin(write=True)
        outcomes += [_perform_one(connection, one) for one in group]
        connection.commit()
    except StoreError as error:
        connection.rollback()
        if getattr(error, "landed", "no") == "no":
            return False
        outcomes = [error] * len(group)
    finally:
        for one in group:
            one.running.clear()
    for one, outcome in zip(group, outcomes, strict=True):
        if isinstance(outcome, Exception):
            one.future.set_exception(outcome)
        else:
            one.future.set_result(outcome)
    return True


def _perform_one(connection: Connection, one: Waiting) -> object:
    """Return the result of a transaction, or the exception that undid it."""
    connection.execute("SAVEPOINT one", ())
    try:
        result: object = one.work(Transaction(connection))
    except _OF_ALL:
        raise
    except Exception as error:  # noqa: BLE001 -- whoever asked for this transaction gets it
        result = error
        connection.execute("ROLLBACK TO one", ())
    connection.execute("RELEASE one", ())
    return result
