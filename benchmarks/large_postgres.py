"""A PostgreSQL journal with many sessions: `python -m benchmarks.large_postgres URL [SESSIONS]`.

It measures turns a second before and after sessions of 24 records are added, the lists that a server
needs, and the recovery of 10,000 open turns. The database should be empty. The added sessions are
copies of one, made by the server, so they count and cannot be read.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

import psycopg

from benchmarks.large_store import make_turn
from benchmarks.postgres_turns import PAYLOAD, Cashier, pay, run_holdfast
from holdfast import Agent, PostgresJournal, Sessions, user
from holdfast.events import TurnOpened
from holdfast.journal import Record

OPEN_TURNS = 10_000
PARALLEL = 100
ROUNDS = 7

_RUNS = """
INSERT INTO holdfast_runs
  (tenant, name, run, nested, records, opened_at, changed_at, listed_at)
SELECT '', sha256(('copy-' || n)::bytea), 'copy-' || n, false, 24, n, n + 8, n + 8
FROM generate_series(1, %s) AS n
"""
_RECORDS = """
INSERT INTO holdfast_records
SELECT r.id, s.at, s.checksum, s.seq, s.schema, s.key, s.type, s.digest, s.event
FROM holdfast_runs AS r, holdfast_records AS s
WHERE r.run LIKE 'copy-%' AND s.run_id = (SELECT id FROM holdfast_runs WHERE run = 'first')
"""


def add_sessions(url: str, sessions: int) -> None:
    """Copy the session `first`."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_RUNS, (sessions,))
        connection.execute(_RECORDS)
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


async def measure(act: Callable[[], Awaitable[object]]) -> float:
    """Milliseconds, the middle of some rounds."""
    took = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        await act()
        took.append(time.perf_counter() - start)
    return sorted(took)[ROUNDS // 2] * 1e3


async def open_turns(journal: PostgresJournal) -> None:
    """Leave turns open as processes do that were killed."""

    async def open_turn(number: int) -> None:
        lease = journal.prepare_lease(f"open-{number}", (0, 0))
        await lease.append(lease.run, TurnOpened("t1", 1.0, user(PAYLOAD), agent="cashier"))
        await lease.release()

    for first in range(0, OPEN_TURNS, 500):
        await asyncio.gather(*(open_turn(n) for n in range(first, first + 500)))


async def main(url: str, sessions: int) -> None:
    """Measure, and print."""
    before = await run_holdfast(url)
    with PostgresJournal(url) as journal:
        events = [event for turn in range(1, 9) for event in make_turn(turn, turn, PAYLOAD)]
        await journal.restore({"first": [Record(event) for event in events]})
        add_sessions(url, sessions)
        after = await run_holdfast(url)
        print(f"turns a second, empty {before:.0f}; with {sessions} sessions {after:.0f}")
        nothing = await measure(lambda: journal.runs(turn_open=True))
        listed = await measure(lambda: Sessions(journal).list(limit=20))
        shown = await measure(lambda: Sessions(journal).info("first"))
        print(
            f"milliseconds: open runs, none {nothing:.1f}; list(20) {listed:.1f}; info {shown:.1f}"
        )
        await open_turns(journal)
        many = await measure(lambda: journal.runs(turn_open=True))
        agent = Agent(Cashier(), name="cashier", tools=[pay], journal=journal)
        start = time.perf_counter()
        found = await agent.recover(parallel=PARALLEL)
        took = time.perf_counter() - start
        whole = sum(one.error is None for one in found)
        print(
            f"{OPEN_TURNS} open turns: listed in {many:.0f} ms, {whole} recovered in {took:.1f} s"
        )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20_000))
