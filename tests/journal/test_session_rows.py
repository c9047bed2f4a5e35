"""A journal saves what a list of sessions shows, and every journal saves the same."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from decimal import Decimal
from pathlib import Path

import msgspec
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.postgres_server import PostgresServer

from holdfast import SqliteJournal
from holdfast.core.cost import Cost
from holdfast.core.errors import ConflictError
from holdfast.core.events import (
    Event,
    HistoryCompacted,
    ModelReplied,
    QuestionAnswered,
    QuestionAsked,
    QuestionUnanswered,
    SessionRewound,
    SessionTitled,
    Status,
    ToolFinished,
    ToolsBegun,
    TurnClosed,
    TurnInterrupted,
    TurnOpened,
)
from holdfast.core.messages import Reply, Text, ToolResult, Usage, user
from holdfast.core.run_fold import COUNTS, RunChange, RunState
from holdfast.journal import MemoryJournal, ReadOnlySqliteJournal
from holdfast.journal.files.sqlite_schema import SCHEMA
from holdfast.journal.port import SharedJournal
from holdfast.journal.postgres import postgres_schema, postgres_sessions
from holdfast.journal.postgres.postgres_journal import PostgresJournal
from holdfast.journal.postgres.postgres_statements import CHANGE_DEFAULTS, CHANGE_TYPES
from holdfast.journal.run_summary import fold_run
from holdfast.journal.session_rows import SessionQuery, SessionRow, make_row, select_sessions
from holdfast.journal.sqlite import sqlite_sessions
from holdfast.sessions.session_index import SessionIndex

RUNS = ("ada", "bob", "ada/:title", "eve/:title", "ada/t1.i0.tool.0")
PRICES = {"small": Decimal("0.001"), "large": Decimal("0.5")}


def price(model: str, usage: Usage) -> Cost | None:
    """Two models have a price, and tokens of subagents have none."""
    if model not in PRICES:
        return Cost(Decimal(0), known=False) if model else None
    return Cost(usage.total * PRICES[model])


class History:
    """Makes the next event of a run, as a driver could write it; sometimes a strange one.

    Args:
        rng: chooses.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._turn = self._step = 0
        self._asked: list[str] = []
        self._is_open = False

    def make_append(self, run: str) -> tuple[Event, Event | None]:
        """Return an event, and perhaps its marker."""
        rng, at = self._rng, float(self._rng.randrange(8))
        self._step += 1
        if run.endswith(":title"):
            return SessionTitled(f"t{self._step}", at, f"Title {self._step}\x00\ud800"), None
        if not self._is_open and rng.random() < 0.8:
            return self._open(at), self._close(at) if rng.random() < 0.1 else None
        head = f"t{self._turn}.i{self._step}"
        match rng.randrange(10):
            case 0:
                return self._close(at), None
            case 1:
                return self._change(at), None
            case 2:
                key = f"{head}.tool.0.ask.0"
                self._asked.append(key)
                return QuestionAsked(f"{key}.asked", at, "permission", {}), None
            case 3 if self._asked:
                key = self._asked.pop(rng.randrange(len(self._asked)))
                if rng.random() < 0.5:
                    return QuestionUnanswered(key, at, "expired"), None
                return QuestionAnswered(key, at, True), None
            case 4 | 5:
                result = ToolResult("c", "pay", (Text("?"),), in_doubt=rng.random() < 0.3)
                usage = Usage(5, 5) if rng.random() < 0.2 else Usage()
                finished = ToolFinished(f"{head}.tool.0", at, result, usage=usage)
                return finished, self._close(at) if rng.random() < 0.3 else None
            case 6:
                return TurnInterrupted(f"{head}.interrupted", at, "cancelled", ("x.tool.1",)), None
            case _:
                usage = Usage(rng.randrange(9), 2**53 if rng.random() < 0.05 else 3, cached_input=1)
                model = rng.choice(("small", "large", "large", "unknown"))
                reply = Reply((Text("Hi"),), usage=usage, model=model)
                marker = ToolsBegun(f"{head}.begun", at) if rng.random() < 0.3 else None
                cost = price(model, usage)
                return ModelReplied(f"{head}.model", at, reply, cost=cost), marker

    def _open(self, at: float) -> TurnOpened:
        self._turn += 1
        self._is_open = True
        message = None if self._rng.random() < 0.1 else user(f"Message {self._turn}\n\x00.")
        return TurnOpened(f"t{self._turn}", at, message, agent=self._rng.choice(("one", "two")))

    def _close(self, at: float) -> TurnClosed:
        self._is_open = False
        ends = (Status.COMPLETED, Status.FAILED, Status.CANCELLED)
        return TurnClosed(f"t{self._turn}.closed.{self._step}", at, self._rng.choice(ends))

    def _change(self, at: float) -> Event:
        self._turn += 1
        key = f"t{self._turn}"
        if self._rng.random() < 0.3:
            return HistoryCompacted(key, at)
        return SessionRewound(key, at, self._rng.randrange(self._turn))


FILTERS = (
    SessionQuery(limit=100),
    SessionQuery(limit=2),
    SessionQuery(limit=2, before=(4.0, "ada")),
    SessionQuery(limit=9, before=(7.0, "bob"), min_cost=0.0),
    *(SessionQuery(limit=9, status=one) for one in ("idle", "open", "waiting", "completed")),
    SessionQuery(limit=9, status="open", driven=("ada",)),
    SessionQuery(limit=9, status="waiting", driven=("ada", "bob")),
    SessionQuery(limit=9, status="running", driven=("ada", "eve")),
    SessionQuery(limit=9, agent="one"),
    SessionQuery(limit=9, agent="one", status="failed"),
    *(SessionQuery(limit=9, min_cost=cost) for cost in (0.0, 0.004, 1.0, 5.0)),
    SessionQuery(limit=9, min_cost=0.004, agent="two"),
    SessionQuery(limit=9, min_cost=0.004, status="completed"),
    SessionQuery(limit=9, names=("bob", "eve", "eve/:title")),
    SessionQuery(limit=9, names=("ada", "ada/:title"), status="waiting"),
)


async def check_rows(journal: SessionIndex, *filters: SessionQuery) -> None:
    """Compare what a journal has saved with the fold of all its records, for each filter."""
    rows = {
        entry.run: make_row(entry, fold_run(await journal.read(entry.run)))
        for entry in await journal.runs()
    }
    for wanted in filters:
        folded = select_sessions(
            rows.values(), wanted, lambda run: rows[run].title if run in rows else None
        )
        assert to_values(await journal.list_sessions(wanted)) == to_values(folded), wanted


def to_values(rows: Sequence[SessionRow]) -> list[object]:
    """Return what rows say; a cost as it is shown."""
    return [
        {name: getattr(row, name) for name in row.__struct_fields__}
        | {"cost": None if row.cost is None else pytest.approx(row.cost)}
        for row in rows
    ]


async def append(
    journal: SessionIndex, run: str, event: Event, marker: Event | None, *, is_leased: bool
) -> None:
    """Append, if it can be with a lease: one that begins before it or with it."""
    if not is_leased or not isinstance(journal, SharedJournal):
        await journal.append(run, event, marker=marker)
        return
    is_new = not await journal.read(run)
    lease = journal.prepare_lease(run, (0, 0)) if is_new else await journal.claim(run)
    await lease.append(run, event, marker=marker)
    await lease.release()


async def play(journal: SessionIndex, rng: random.Random, steps: int) -> AsyncIterator[None]:
    """Change a journal at random, and stop after each change."""
    histories = {run: History(rng) for run in RUNS}
    for _ in range(steps):
        run = rng.choice(RUNS)
        chance = rng.random()
        if chance < 0.03:
            await journal.delete(run)
            histories[run] = History(rng)
        elif chance < 0.06 and await journal.read(run):
            records = await journal.read(run)
            await journal.delete("copy")
            await journal.restore({"copy": records[: rng.randrange(1, len(records) + 1)]})
        else:
            event, marker = histories[run].make_append(run)
            await append(journal, run, event, marker, is_leased=rng.random() < 0.7)
        yield


@given(seed=st.integers(0, 2**32), steps=st.integers(1, 60))
@settings(max_examples=40, deadline=None)
async def test_the_rows_of_a_memory_journal_are_the_fold_of_its_records(
    seed: int, steps: int
) -> None:
    journal = MemoryJournal()
    async for _ in play(journal, random.Random(seed), steps):
        pass
    await check_rows(journal, *FILTERS)


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("seed", range(3))
async def test_the_rows_of_a_file_are_the_fold_of_its_records_after_every_change(
    tmp_path: Path, seed: int
) -> None:
    path = tmp_path / "talk.db"
    with SqliteJournal(path) as journal:
        async for _ in play(journal, random.Random(seed), 40):
            # In the state that a crash would leave.
            with ReadOnlySqliteJournal(path) as reader:
                await check_rows(reader, FILTERS[0])
        await check_rows(journal, *FILTERS)


@pytest.mark.parametrize("seed", range(6))
async def test_the_rows_of_appends_that_are_committed_together_are_their_fold(
    tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    history = History(rng)
    with SqliteJournal(tmp_path / "talk.db") as journal:
        for _ in range(12):
            events = [history.make_append("ada") for _ in range(rng.randrange(1, 9))]
            await asyncio.gather(
                *(journal.append("ada", event, marker=marker) for event, marker in events)
            )
            await check_rows(journal, FILTERS[0])


@pytest.fixture
def shared(postgres: PostgresServer) -> Iterator[PostgresJournal]:
    with PostgresJournal(postgres.new_url()) as journal:
        yield journal


@pytest.mark.slow  # takes half a second or more
async def test_the_rows_of_a_database_are_the_fold_of_its_records_after_every_change(
    shared: PostgresJournal,
) -> None:
    async for _ in play(shared, random.Random(1), 80):
        await check_rows(shared, FILTERS[0])
    await check_rows(shared, *FILTERS)


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize("seed", range(3))
async def test_the_rows_of_two_processes_are_the_fold_of_their_records(
    postgres: PostgresServer, seed: int
) -> None:
    """Both append at once, also to the same run, and some records are refused."""
    rng, url = random.Random(seed), postgres.new_url()
    histories = {run: History(rng) for run in RUNS}
    appended: list[tuple[str, Event, Event | None]] = []
    with PostgresJournal(url) as one, PostgresJournal(url) as other:
        for _ in range(12):
            for _ in range(rng.randrange(1, 12)):
                run = rng.choice((*RUNS, "ada", "ada", "ada"))
                appended.append((run, *histories[run].make_append(run)))
            again = rng.choices(appended, k=3)
            results = await asyncio.gather(
                *(
                    rng.choice((one, other)).append(run, event, marker=marker)
                    for run, event, marker in (*appended[-12:], *again)
                ),
                return_exceptions=True,
            )
            assert {type(result) for result in results} <= {type(None), ConflictError}
            await check_rows(one, *rng.sample(FILTERS, 6))


@pytest.mark.parametrize("wanted", FILTERS)
def test_a_list_of_a_file_is_one_statement_over_indexes(wanted: SessionQuery) -> None:
    connection = sqlite3.connect(":memory:")
    for statement in SCHEMA:
        connection.execute(statement)
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    sqlite_sessions.select_sessions("", wanted, connection)
    connection.set_trace_callback(None)
    assert len(statements) == 1
    names = ("tenant", "limit", "at", "name", "agent", "status", "min_cost", "names", "driven")
    statement = f"EXPLAIN QUERY PLAN {sqlite_sessions.make_statement(wanted)}"
    plan = [str(row[3]) for row in connection.execute(statement, dict.fromkeys(names))]
    assert any(step.startswith("SEARCH r USING") for step in plan)
    for table in ("r", "s", "t", "found", "runs"):
        is_table = f"CO-ROUTINE {table}" not in plan
        assert not (is_table and any(f"{one} ".startswith(f"SCAN {table} ") for one in plan)), plan


async def test_a_list_of_a_database_is_one_statement_over_indexes(url: str) -> None:
    with PostgresJournal(url) as journal:
        await journal.append("ada", TurnOpened("t1", 1.0, user("Hi")))
    with psycopg.connect(url) as connection:
        connection.execute("SET enable_seqscan = off")
        for wanted in FILTERS:
            statement, values = postgres_sessions.make_list("", wanted)
            found = connection.execute(f"EXPLAIN {statement}".encode(), values).fetchall()
            plan = "\n".join(str(line) for (line,) in found)
            assert "Seq Scan" not in plan, plan


async def test_running_sessions_of_a_database_are_found_without_those_that_wait(url: str) -> None:
    with PostgresJournal(url) as journal:
        for number in range(3):
            await journal.append(f"waiting-{number}", TurnOpened("t1", 1.0, user("Hi")))
        lease = await journal.claim("ada")
        await lease.append("ada", TurnOpened("t1", 1.0, user("Hi")))
        wanted = SessionQuery(limit=9, status="running", driven=("waiting-1", "ada"))
        found = await journal.list_sessions(wanted)
        await lease.release()
    assert [row.run for row in found] == ["ada", "waiting-1"]
    statement, values = postgres_sessions.make_list("", wanted)
    with psycopg.connect(url) as connection:
        connection.execute("SET enable_seqscan = off")
        plan = connection.execute(f"EXPLAIN {statement}".encode(), values).fetchall()
    assert any("Index Cond" in line and "token IS NOT NULL" in line for (line,) in plan), plan


@pytest.mark.parametrize("name", COUNTS)
def test_a_count_of_a_turn_is_a_field_of_every_row_and_a_column_of_both_databases(
    name: str,
) -> None:
    kinds = (RunChange, RunState, SessionRow)
    assert all(name in kind.__struct_fields__ for kind in kinds)
    assert any(f" {name} INTEGER NOT NULL DEFAULT 0," in step for step in SCHEMA)
    assert any(f" {name} bigint NOT NULL DEFAULT 0," in step for step in postgres_schema.SCHEMA)


def test_the_values_of_an_append_to_a_database_are_the_fields_of_its_change() -> None:
    *fields, rewind, agent = RunChange.__struct_fields__
    assert (rewind, agent) == ("is_rewind", "agent")
    words = {"is_open": "open", "in_doubt": "new_doubt"}
    names = list(CHANGE_TYPES)
    assert names[names.index("new_turn") :] == [words.get(one, f"new_{one}") for one in fields]
    changed = dict(zip(names[-len(fields) :], msgspec.structs.astuple(RunChange()), strict=False))
    assert {name: changed[name] for name in CHANGE_DEFAULTS} == CHANGE_DEFAULTS
