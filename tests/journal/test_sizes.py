"""What a record needs in a file or a database, beside the JSON of its event."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from tests.postgres_server import PostgresServer

from holdfast import MemoryJournal, PostgresJournal, SqliteJournal
from holdfast.core.effects import CallModel
from holdfast.core.events import (
    ModelReplied,
    Status,
    ToolFinished,
    ToolsBegun,
    TurnClosed,
    TurnOpened,
)
from holdfast.core.messages import Media, Message, Reply, Text, ToolResult
from holdfast.journal.encoding import encode_event
from holdfast.journal.inbox.entries import Submission
from holdfast.journal.inbox.opening_inbox import open_inbox
from holdfast.journal.port import CountsBytes, Journal, Record, RunLog, SharedJournal
from holdfast.testing.journal_conformance import make_turn_opened

TURNS = 4


async def talk(journal: RunLog, run: str) -> None:
    """Turns with one tool each, six records a turn."""
    for turn in range(1, TURNS + 1):
        first, last = f"t{turn}.i0.model", f"t{turn}.i1.model"
        tool, closed = f"t{turn}.i0.tool.0", f"t{turn}.closed"
        reply, result = Reply((Text("x" * 200),), model="m"), ToolResult("c", "n", (Text("r"),))
        await journal.append(run, make_turn_opened(turn))
        begun = ToolsBegun(f"t{turn}.i0.begun", 1.5)
        await journal.append(
            run, ModelReplied(first, 1.5, reply), CallModel(first, 0, 1), marker=begun
        )
        await journal.append(run, ToolFinished(tool, 1.5, result), CallModel(tool, 0, 1))
        await journal.append(run, ModelReplied(last, 1.5, reply), CallModel(last, 1, 3))
        end = TurnClosed(closed, 1.5, Status.COMPLETED)
        await journal.append(run, end, CallModel(closed, 0, 1))


async def test_a_record_needs_at_most_150_bytes_over_its_event(tmp_path: Path) -> None:
    """With its checksum, its share of the table of runs, and all indexes."""
    dice = random.Random(1)
    with SqliteJournal(tmp_path / "empty.db"):
        pass
    empty = (tmp_path / "empty.db").stat().st_size
    with SqliteJournal(tmp_path / "talk.db") as journal:
        await asyncio.gather(*(talk(journal, f"{dice.getrandbits(128):032x}") for _ in range(200)))
    with closing(sqlite3.connect(tmp_path / "talk.db")) as connection:
        query = "SELECT COUNT(*), SUM(LENGTH(CAST(event AS BLOB))) FROM records"
        records, events = connection.execute(query).fetchone()
    assert records == 200 * TURNS * 6
    assert ((tmp_path / "talk.db").stat().st_size - empty - events) / records <= 150


@pytest.mark.slow  # starts a program or a server
async def test_a_record_in_postgresql_needs_at_most_160_bytes_over_its_event(
    postgres: PostgresServer,
) -> None:
    """With its checksum, its share of the table of runs, and all indexes; over the whole event.

    A row of PostgreSQL has a header of 28 bytes, so type, key and time count for the event here.
    """
    url, dice = postgres.new_url(), random.Random(1)
    vacuum = "VACUUM holdfast_runs, holdfast_records"  # as a server does from time to time
    with PostgresJournal(url) as journal:
        await journal.claim("nothing")
        empty = measure_tables(postgres, url)
        for _ in range(10):
            names = [f"{dice.getrandbits(128):032x}" for _ in range(100)]
            leases = await asyncio.gather(*(journal.claim(name) for name in names))
            await asyncio.gather(*(talk(lease, lease.run) for lease in leases))
            await asyncio.gather(*(lease.release() for lease in leases))
            postgres.rows(url, vacuum)
        events = [record.event for record in await journal.read(names[0])]
    size = measure_tables(postgres, url) - empty
    written = sum(len(msgspec.json.encode(event)) for event in events) / len(events)
    assert len(events) == TURNS * 6
    assert size / (1000 * TURNS * 6) - written <= 160


def measure_tables(postgres: PostgresServer, url: str) -> int:
    """Return how many bytes the tables and indexes have."""
    ((size,),) = postgres.rows(
        url,
        "SELECT SUM(pg_relation_size(oid))::bigint FROM pg_class"
        " WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'i')",
    )
    return int(str(size))


def size_of(records: Sequence[Record]) -> int:
    return sum(len(encode_event(record.event).encode()) for record in records)


async def check_count_of_bytes(journal: Journal) -> None:
    """The count follows appends in groups, leases, whole runs, short and long, and deletions."""
    assert isinstance(journal, CountsBytes)
    other = journal.for_tenant("other")
    await other.append("s", make_turn_opened(1))
    assert isinstance(other, CountsBytes)
    foreign = await other.count_bytes()
    assert await journal.count_bytes() == 0
    await asyncio.gather(*(talk(journal, name) for name in ("a", "é")))
    if isinstance(journal, SharedJournal):
        leases = await asyncio.gather(*(journal.claim(name) for name in ("b", "c")))
        await asyncio.gather(*(talk(lease, lease.run) for lease in leases))
        await asyncio.gather(*(lease.release() for lease in leases))
    records = await journal.read("a")
    assert await journal.count_bytes() == size_of(
        [record for entry in await journal.runs() for record in await journal.read(entry.run)]
    )
    assert await journal.count_bytes("a") == size_of(records)
    assert await journal.count_bytes("unknown") == 0
    before = await journal.count_bytes()
    long = [
        Record(ModelReplied(f"t1.i{n}.model", 1.0, Reply((Text("é" * 50),), model="m")))
        for n in range(150)
    ]
    await journal.restore({"copy": records, "long": long})
    assert await journal.count_bytes() == before + size_of(records) + size_of(long)
    await journal.delete("copy", "long", "unknown")
    assert await journal.count_bytes() == before
    assert await other.count_bytes() == foreign


async def test_a_journal_in_memory_counts_its_bytes() -> None:
    await check_count_of_bytes(MemoryJournal())


async def test_a_file_counts_its_bytes_also_after_it_was_opened_again(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "talk.db") as journal:
        await check_count_of_bytes(journal)
        count = await journal.count_bytes()
    with SqliteJournal(tmp_path / "talk.db") as journal:
        assert await journal.count_bytes() == count


async def test_postgresql_counts_its_bytes(url: str) -> None:
    with PostgresJournal(url) as journal:
        await check_count_of_bytes(journal)


async def test_media_and_a_queued_message_count(tmp_path: Path, url: str) -> None:
    picture = Media(data=b"\x01" * 300_000, media_type="image/png")
    opened = TurnOpened("t1", 1.0, Message("user", (picture,)))
    for journal in (SqliteJournal(tmp_path / "talk.db"), PostgresJournal(url)):
        with journal:
            await journal.append("s", opened)
            count = await journal.count_bytes()
            assert 300_000 < count < 420_000
            await open_inbox(journal).submit(
                Submission(
                    tenant="", agent="a", session="q", request="r", body=b"x" * 1000, digest=""
                )
            )
            assert await journal.count_bytes() == count + 1000
