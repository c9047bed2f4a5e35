"""The world of the inbox explorer: the tables of an inbox, workers, an engine, and what the journal says.

A transaction is performed by the real code on real tables and is one move. What a worker knows between
two moves is lost when it crashes. The journal is the protocol that the other explorer proves: a lease for
a session, and one turn for a request.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import msgspec

from holdfast.journal.inbox.admitting import Admission, Offer, admit_turns
from holdfast.journal.inbox.driving import (
    EndedEntry,
    EntryOutcome,
    begin_entry,
    end_entries,
    isolate_entry,
    park_entry,
)
from holdfast.journal.inbox.entries import EntryState, Submission
from holdfast.journal.inbox.inbox_statements import HELD_BY
from holdfast.journal.inbox.sqlite_inbox import perform_all
from holdfast.journal.inbox.statements import Statement, Transaction
from holdfast.journal.inbox.steering import note_answer
from holdfast.journal.inbox.submitting import submit_turn
from holdfast.journal.inbox.sweeping import StalledEntry, find_stalled, promote_due, put_again
from holdfast.journal.inbox.worker_entries import WorkerInfo
from holdfast.journal.inbox_schema import MEMORY_TABLES

T = TypeVar("T")
NOW = 1_000_000.0
MOST_DEATHS = 2
"""How many workers may die of a turn in company, and how many then alone."""

Tables = tuple[tuple[tuple[object, ...], ...], ...]
"""The rows of the tables, as a value."""

_TABLES = ("holdfast_inbox", "holdfast_inbox_tenants", "holdfast_workers", "holdfast_inbox_limits")


@dataclass(frozen=True)
class Turn:
    """A turn of a story.

    Args:
        session: its session, whose first letter is its tenant.
        asks: whether it asks a question before it ends.
        kills: whether whoever drives it dies.
    """

    session: str
    asks: bool = False
    kills: bool = False


@dataclass(frozen=True)
class InboxStory:
    """What is submitted, who works, and what goes wrong.

    Args:
        name: names it.
        turns: the turns in order; the number of one is its request.
        workers: how many workers there are.
        crashes: how many of them die.
        pauses: how often a worker that lives counts as gone for a while.
        losses: how many jobs the engine loses.
        doubles: how many jobs it delivers twice.
        lost_answers: how often a worker does not hear what it has admitted.
        running: how many turns of a tenant may run at once.
    """

    name: str
    turns: tuple[Turn, ...]
    workers: int = 2
    crashes: int = 1
    pauses: int = 0
    losses: int = 0
    doubles: int = 0
    lost_answers: int = 0
    running: int | None = None


@dataclass
class InboxTables:
    """Performs transactions on tables that are a value before and after.

    Args:
        broken: a statement that breaks the schema.
    """

    broken: str = ""
    connection: sqlite3.Connection = field(init=False)
    known: dict[object, tuple[object, Tables]] = field(default_factory=dict)
    current: Tables = ()

    def __post_init__(self) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        for text in MEMORY_TABLES:
            self.connection.execute(text)
        self.connection.execute(self.broken)
        self.columns = {
            table: [row[1] for row in self.connection.execute(f"PRAGMA table_info({table})")]
            for table in _TABLES
        }

    def close(self) -> None:
        self.connection.close()

    def dump(self) -> Tables:
        return tuple(
            tuple(self.connection.execute(f"SELECT * FROM {table} ORDER BY 1")) for table in _TABLES
        )

    def load(self, tables: Tables) -> None:
        if tables == self.current:
            return
        for table, rows in zip(_TABLES, tables, strict=True):
            self.connection.execute(f"DELETE FROM {table}")
            marks = ", ".join("?" * len(self.columns[table]))
            self.connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        self.current = tables

    def perform(
        self, tables: Tables, name: object, make: Callable[[], Transaction[T]]
    ) -> tuple[T, Tables]:
        """Perform a transaction; the same one on the same tables is performed once."""
        found = self.known.get((tables, name))
        if found is None:
            self.load(tables)
            self.current = ()
            result, _ = perform_all(self.connection, make, lambda: NOW)
            # Only whether it was delivered at all is ever asked, and whether deaths are too many.
            self.connection.execute(
                "UPDATE holdfast_inbox SET deliveries = min(deliveries, 1),"
                f" deaths = min(deaths, {MOST_DEATHS}), deaths_alone = min(deaths_alone, {MOST_DEATHS})"
            )
            self.current = after = self.dump()
            found = self.known[tables, name] = result, after
        return cast("tuple[T, Tables]", found)

    def change(self, tables: Tables, text: str, *values: object) -> Tables:
        """Change the tables as time or a person does."""
        self.load(tables)
        self.connection.execute(text, values)
        self.current = self.dump()
        return self.current


def make_info(number: int) -> str:
    """What a worker with one slot says of itself."""
    info = WorkerInfo(
        id=f"w{number}",
        host="h",
        process=number,
        agents=("a",),
        slots=1,
        engine="e",
        started_at=0.0,
    )
    return msgspec.json.encode(info).decode()


class InboxActs:
    """The transactions of the inbox, as the explorer performs them. A mutant replaces one."""

    broken = ""
    """A statement that breaks the schema."""

    def submit(self, number: int, turn: Turn) -> Transaction[Any]:
        return submit_turn(
            Submission(
                tenant=turn.session[0],
                agent="a",
                session=turn.session,
                request=str(number),
                body=b"",
                digest="",
            )
        )

    def offer(self, worker: str, slots: int) -> Offer:
        return Offer(worker, ("a",), slots)

    def admit(self, worker: str, slots: int) -> Transaction[Admission]:
        return admit_turns(None, self.offer(worker, slots))

    def list_held(self, worker: str) -> Transaction[Sequence[Any]]:
        return (yield Statement(HELD_BY, {"worker": worker}))

    def begin(self, entry: int, worker: str) -> Transaction[Any]:
        return begin_entry(entry, worker)

    def end(self, entry: int, worker: str, state: EntryState, slots: int) -> Transaction[Admission]:
        due_at = NOW if state is EntryState.POSTPONED else 0.0
        outcome = EntryOutcome(state=state, turn=1, due_at=due_at)
        return end_entries([EndedEntry(entry, outcome)], worker, None, self.offer(worker, slots))

    def isolate(self, entry: int, worker: str) -> Transaction[Any]:
        return isolate_entry(entry, worker)

    def park(self, entry: int, worker: str) -> Transaction[bool]:
        return park_entry(entry, worker, 1, "workers died")

    def close(self, session: str) -> Transaction[None]:
        """What a database does in the transaction that closes a turn that is parked."""
        return note_answer(session[0], session, end="failed")

    def answer(self, session: str) -> Transaction[None]:
        return note_answer(session[0], session)

    def promote(self) -> Transaction[bool]:
        return promote_due()

    def find_stalled(self) -> Transaction[Sequence[StalledEntry]]:
        return find_stalled()

    def put_again(self, entries: Sequence[StalledEntry]) -> Transaction[Sequence[Any]]:
        return put_again(entries)
