"""An inbox with many queued turns: `python -m benchmarks.large_inbox URL [QUEUED]`.

It compares submitting, admitting and beginning, and ending a turn with 100 queued turns and with 1,000,000, in
turn, in two schemas of one database. The added turns are those of 1,000 tenants: half of them ready, the others
behind these, and some for tomorrow. It also prints which statements read a whole table.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from statistics import quantiles

import psycopg

from holdfast import PostgresJournal
from holdfast.journal.inbox.admitting import admit_turns
from holdfast.journal.inbox.driving import EndedEntry, EntryOutcome, begin_entry, end_entries
from holdfast.journal.inbox.entries import EntryState, Submission
from holdfast.journal.inbox.inbox import Inbox
from holdfast.journal.inbox.inbox_statements import LOCK, NOTIFY
from holdfast.journal.inbox.opening_inbox import open_inbox
from holdfast.journal.inbox.postgres_inbox import PostgresInboxStore, translate
from holdfast.journal.inbox.statements import Statement, Transaction
from holdfast.journal.inbox.submitting import submit_turn
from holdfast.journal.inbox.sweeping import find_stalled, promote_due
from holdfast.journal.inbox.worker_entries import WorkerInfo

FEW = 100
ROUNDS = 150
TENANTS = 1000

_ENTRIES = """
INSERT INTO holdfast_inbox (tenant, agent, session, session_name, request, digest, body, state,
  priority, due_at, created_at, changed_at, made_by)
SELECT 't' || n / 2 %% {tenants}, 'writer', 's' || n / 2, sha256(('s' || n / 2)::bytea), 'r' || n, '', '',
  CASE WHEN n %% 20 = 19 THEN 'scheduled' WHEN n %% 2 = 0 THEN 'ready' ELSE 'scheduled' END,
  n %% 3, 4e9, n, n, ''
FROM generate_series(0, %s - 1) AS n
"""
_BLOCKED = """
UPDATE holdfast_inbox AS i SET state = 'blocked' WHERE state = 'scheduled' AND id %% 10 <> 0
  AND EXISTS (SELECT 1 FROM holdfast_inbox AS r WHERE r.tenant = i.tenant
    AND r.session_name = i.session_name AND r.state = 'ready')
"""
_COUNTS = """
INSERT INTO holdfast_inbox_tenants (tenant, queued, served)
SELECT tenant, count(*), 0 FROM holdfast_inbox GROUP BY tenant
"""


def fill(url: str, queued: int) -> None:
    """Add turns, as so many submissions leave them."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_ENTRIES.format(tenants=TENANTS).encode(), (queued,))
        connection.execute(_BLOCKED.replace("%%", "%").encode())
        connection.execute(_COUNTS.encode())
        connection.execute("VACUUM ANALYZE holdfast_inbox, holdfast_inbox_tenants")
        connection.execute("CHECKPOINT")


class Times:
    """How long each operation took, in milliseconds."""

    def __init__(self, inbox: Inbox, name: str) -> None:
        self.inbox = inbox
        self.name = name
        self.number = 0
        self.of: dict[str, list[float]] = {"submit": [], "admit and begin": [], "end": []}

    async def run_turn(self) -> None:
        """Submit a turn, admit and begin one, and end it."""
        self.number += 1
        start = time.perf_counter()
        await self.inbox.submit(make_submission(f"{self.name}.{self.number}"))
        submitted = time.perf_counter()
        admission = await self.inbox.admit()
        entry = await self.inbox.begin(admission.jobs[0].id, "w")
        begun = time.perf_counter()
        if entry is None:
            raise RuntimeError("an admitted entry did not begin")
        await self.inbox.note_worker(make_worker(slots=0))  # so that the end admits nothing
        stopped = time.perf_counter()
        await self.inbox.end(
            [EndedEntry(entry.id, EntryOutcome(state=EntryState.DONE, turn=1))], "w"
        )
        ended = time.perf_counter()
        await self.inbox.note_worker(make_worker(slots=1))
        for what, seconds in zip(
            self.of, (submitted - start, begun - submitted, ended - stopped), strict=True
        ):
            self.of[what].append(seconds * 1000)


def make_submission(request: str) -> Submission:
    """A turn of one of the tenants."""
    tenant = f"t{hash(request) % TENANTS}"
    return Submission(
        tenant=tenant, agent="writer", session=request, request=request, body=b"{}", digest=""
    )


def make_worker(slots: int) -> WorkerInfo:
    """A worker with some slots."""
    return WorkerInfo(
        id="w",
        host="here",
        process=1,
        agents=("writer",),
        slots=slots,
        engine="none",
        started_at=0.0,
    )


async def explain(url: str, store: PostgresInboxStore) -> list[str]:
    """Return the statements that read the whole table of entries."""
    found: list[str] = []

    def record(make: Callable[[], Transaction[object]]) -> Transaction[object]:
        transaction = make()
        statement = next(transaction)
        while True:
            if statement is not LOCK and statement is not NOTIFY:
                found.extend(_explain_one(url, statement))
            rows = yield statement
            try:
                statement = transaction.send(rows)
            except StopIteration as end:
                return end.value

    await store.perform(partial(record, partial(submit_turn, make_submission("explained"))))
    admission = await store.perform(partial(record, admit_turns))
    entry = admission.jobs[0].id  # type: ignore[attr-defined]  # of this transaction
    outcome = EntryOutcome(state=EntryState.DONE, turn=1)
    for make in (
        partial(begin_entry, entry, "w"),
        partial(end_entries, [EndedEntry(entry, outcome)], "w"),
        promote_due,
        find_stalled,
    ):
        await store.perform(partial(record, make))
    return found


def _explain_one(url: str, statement: Statement) -> list[str]:
    values: Mapping[str, object] = statement.values
    with psycopg.connect(url) as connection:
        text = f"EXPLAIN {translate(statement)}"
        lines = [str(row[0]) for row in connection.execute(text.encode(), values)]
        connection.rollback()
    return [
        f"{' '.join(statement.text.split())[:90]}\n    {line.strip()}"
        for line in lines
        if "Seq Scan on holdfast_inbox " in line
    ]


async def compare(url: str, queued: int) -> int:
    """Print the times, and return 1 if one of them is not flat."""
    schemas = {
        "few": f"{url}?options=-csearch_path%3Dfew",
        "many": f"{url}?options=-csearch_path%3Dmany",
    }
    with psycopg.connect(url, autocommit=True) as connection:
        for name in schemas:
            connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())
            connection.execute(f"CREATE SCHEMA {name}".encode())
    journals = {name: PostgresJournal(address) for name, address in schemas.items()}
    times = {name: Times(open_inbox(journal), name) for name, journal in journals.items()}
    for name, count in (("few", FEW), ("many", queued)):
        await times[name].inbox.read_limits()  # so that the tables are there
        fill(schemas[name], count)
    for one in times.values():
        await one.inbox.note_worker(make_worker(slots=1))
    for number in range(ROUNDS):
        for one in sorted(times.values(), key=lambda one: one.name, reverse=bool(number % 2)):
            await one.run_turn()
    is_flat = True
    for what in times["few"].of:
        # The fast half of both: what other programs delay says nothing about the inbox.
        few, many = (quantiles(times[name].of[what])[0] for name in ("few", "many"))
        is_flat = is_flat and many <= 1.5 * few
        print(
            f"{what:16} {few:7.2f} ms with {FEW}, {many:7.2f} ms with {queued:,}: {many / few:.2f}"
        )
    for line in await explain(schemas["many"], PostgresInboxStore(journals["many"])):
        is_flat = False
        print("reads all entries:", line)
    for journal in journals.values():
        journal.close()
    return 0 if is_flat else 1


if __name__ == "__main__":
    sys.exit(
        asyncio.run(compare(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000))
    )
