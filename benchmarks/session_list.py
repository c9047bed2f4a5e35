"""CPU time of a list of 100 of 100,000 sessions: `python -m benchmarks.session_list [URL [SESSIONS]]`.

It makes a SQLite file, and tables in the PostgreSQL database of the URL, whose rows are those of
100,000 sessions of five agents: most have ended, 2,000 wait for an answer and 1,000 are open. A tenth
has a title of its own. Then it asks the service for a page, with each filter and with several: the
first page, and one in the middle. It prints the milliseconds of CPU of this process for a page, with
its JSON, and for PostgreSQL those of the server too, if it runs on this machine. The goal is 5 ms.
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psycopg

from holdfast import Agent, PostgresJournal, SqliteJournal
from holdfast.hosting.tenant_service import ServiceOptions, TenantService
from holdfast.journal.journal_names import digest_name
from holdfast.models import Prices
from holdfast.server.api.request_bodies import SessionsQuery
from holdfast.server.api.session_pages import list_sessions_page
from holdfast.testing import ScriptedModel

SESSIONS, PAGE, ROUNDS = 100_000, 100, 20
GOAL = 5.0
TICK = 1e3 / os.sysconf("SC_CLK_TCK")
QUERIES = {
    "no filter": SessionsQuery(limit=PAGE),
    **{
        f"status={one}": SessionsQuery(limit=PAGE, status=one)
        for one in ("completed", "failed", "cancelled", "waiting", "open", "running", "queued")
    },
    "agent": SessionsQuery(limit=PAGE, agent="agent-1"),
    "agent, failed": SessionsQuery(limit=PAGE, agent="agent-1", status="failed"),
    **{
        f"min_cost={cost}": SessionsQuery(limit=PAGE, min_cost=cost)
        for cost in (0.0, 0.01, 0.1, 1.0)
    },
    "agent, min_cost=0.1": SessionsQuery(limit=PAGE, agent="agent-1", min_cost=0.1),
    "failed, min_cost=0.1": SessionsQuery(limit=PAGE, status="failed", min_cost=0.1),
}

Row = tuple[str, float, str, bool, str, float | None]


def make_rows(sessions: int) -> Iterator[Row]:
    """Yield name, time, agent, whether a turn is open, state and cost of each run."""
    rng = random.Random(1)
    for number in range(sessions):
        chance = rng.random()
        status = "completed"
        for share, other in (
            (0.01, "open"),
            (0.03, "waiting"),
            (0.1, "failed"),
            (0.15, "cancelled"),
        ):
            if chance < share:
                status = other
                break
        name, at = f"s{number * 7919 % sessions:07}", 1e9 + number
        agent, cost = f"agent-{rng.randrange(5)}", rng.lognormvariate(-4, 1.5)
        yield name, at, agent, status in ("open", "waiting"), status, cost
        if number % 10 == 0:
            yield f"{name}/:title", at, "", False, "idle", None


def fill_file(path: Path, sessions: int) -> None:
    """Insert the rows into a SQLite file."""
    SqliteJournal(path).close()
    connection = sqlite3.connect(path)
    connection.executemany(
        "INSERT INTO runs (tenant, name, changed_at, agent, turn_open, status, cost, records,"
        " bytes, opened_at, nested, title, turns, messages, turn)"
        " VALUES ('', ?, ?, ?, ?, ?, ?, 24, 9000, 1, 0, 'The weather in Porto', 8, 16, 8)",
        make_rows(sessions),
    )
    connection.commit()
    connection.close()


def fill_database(url: str, sessions: int) -> None:
    """Insert the rows into the tables of a PostgreSQL journal, unless it has runs."""
    with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        if cursor.execute("SELECT 1 FROM holdfast_runs LIMIT 1").fetchone():
            return
        with cursor.copy(
            "COPY holdfast_runs (tenant, name, run, changed_at, listed_at, agent, turn_open, status,"
            " cost, listed_cost, records, opened_at, nested, title, turns, messages, turn) FROM STDIN"
        ) as copy:
            for name, at, agent, is_open, status, cost in make_rows(sessions):
                fixed = (24, 1.0, False, "The weather in Porto", 8, 16, 8)
                digest = digest_name(name)
                copy.write_row(
                    ("", digest, name, at, at, agent, is_open, status, cost, cost, *fixed)
                )
        cursor.execute("VACUUM ANALYZE holdfast_runs")


def read_server_ticks(url: str) -> Callable[[], float]:
    """Return a function that reads the milliseconds of CPU of the server's processes."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchall()
    files = [Path(f"/proc/{pid}/stat") for (pid,) in found]

    def read() -> float:
        texts = [file.read_text().rpartition(")")[2].split() for file in files if file.exists()]
        return sum(int(one[11]) + int(one[12]) for one in texts) * TICK

    return read


async def measure(
    tenant: TenantService, query: SessionsQuery, read_server: Callable[[], float]
) -> tuple[float, int]:
    """Return the milliseconds of CPU of a page, and its number of sessions."""
    page = await list_sessions_page(tenant, query)
    before, took = read_server(), []
    for _ in range(ROUNDS):
        start = time.process_time()
        page = await list_sessions_page(tenant, query)
        msgspec.json.encode(page)
        took.append((time.process_time() - start) * 1e3)
    of_server = (read_server() - before) / ROUNDS
    return statistics.median(took) + of_server, len(page.sessions)


async def show(name: str, journal: SqliteJournal | PostgresJournal, url: str | None) -> bool:
    """Measure and print every filter; return whether all reach the goal."""
    agents = {f"agent-{n}": Agent(ScriptedModel(), name=f"agent-{n}") for n in range(5)}
    options = ServiceOptions(prices=Prices({"*": {"input": 1, "output": 1}}))
    tenant = TenantService("", agents, journal, options)
    first = await list_sessions_page(tenant, SessionsQuery(limit=PAGE))
    read_server = read_server_ticks(url) if url else (lambda: 0.0)
    middle = msgspec.structs.replace(QUERIES["no filter"], before=first.next)
    worst = 0.0
    for title, query in {**QUERIES, "second page": middle}.items():
        took, count = await measure(tenant, query, read_server)
        worst = max(worst, took)
        print(f"{name:12}{title:24}{count:6}{took:8.2f}", flush=True)
    print(f"{name:12}{'the most':24}{'':6}{worst:8.2f}  goal {GOAL}")
    return worst <= GOAL


async def main(url: str | None, sessions: int) -> int:
    """Measure both databases; return the exit status."""
    print(f"{'':12}{'':24}{'rows':>6}{'ms':>8}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "talk.db"
        fill_file(path, sessions)
        with SqliteJournal(path) as journal:
            is_reached = await show("SQLite", journal, None)
    if url is not None:
        with PostgresJournal(url) as shared:
            await shared.runs(turn_open=True)
            fill_database(url, sessions)
            is_reached = await show("PostgreSQL", shared, url) and is_reached
    return 0 if is_reached else 1


if __name__ == "__main__":
    wanted = int(sys.argv[2]) if len(sys.argv) > 2 else SESSIONS
    sys.exit(asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else None, wanted)))
