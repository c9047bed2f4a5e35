"""Rests in the middle of a transaction of an inbox, to be stopped there: `ADDRESS lock`, `sent` or `row`.

It prints "before" when it has locked what it is to lock, waits for a line, and prints "after" when its
transaction is committed.
"""

from __future__ import annotations

import asyncio
import sys

from holdfast import PostgresJournal
from holdfast.journal.inbox import inbox_statements as sql
from holdfast.journal.inbox.opening_inbox import open_inbox
from holdfast.journal.inbox.statements import Statement, Transaction

FIND = Statement("SELECT id FROM holdfast_inbox ORDER BY id LIMIT 1")


class RestingTransaction:
    """A transaction that rests once.

    Args:
        kind: "lock" to lock the inbox, "sent" to do so and not wait for the server, "row" to lock the
            first entry.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._is_done = False

    def make(self) -> Transaction[None]:
        """Make it; what is made again does not rest."""
        if self._kind == "row":
            ((entry_id,),) = yield FIND
            yield Statement(sql.BEGIN, {"id": entry_id, "worker": "stopped"})
        else:
            yield sql.LOCK
        if self._kind == "lock":
            yield FIND
        if not self._is_done:
            self._is_done = True
            print("before", flush=True)
            sys.stdin.readline()
        yield FIND


async def main(address: str, kind: str) -> None:
    with PostgresJournal(address) as journal:
        await open_inbox(journal)._store.perform(RestingTransaction(kind).make)
        print("after", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
