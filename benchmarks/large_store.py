"""Makes a journal with many sessions for `benchmarks.large_journal`, as quickly as SQLite can.

The rows are those that the journal itself writes, with their checksums. They are inserted without
indexes, and the indexes are made at the end. The turns of a hundred sessions are interleaved, as
agents write them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import astuple

from holdfast import ModelReplied, Reply, Status, Text, Usage, user
from holdfast.core.messages import Media
from holdfast.events import TurnClosed, TurnOpened
from holdfast.journal import Record, SqliteJournal
from holdfast.journal.files.log_file import CLOSED
from holdfast.journal.files.sqlite_schema import SCHEMA, VERSION
from holdfast.journal.rows import compute_checksum, count_bytes, encode_row, number_checksum
from holdfast.journal.run_summary import fold_run
from holdfast.journal.sqlite.sqlite_changes import RUN_COLUMNS

SAID = "It will be sunny in Porto, with a light wind from the north. " * 2
TURNS = 8  # of three records
AT_ONCE = 100  # sessions whose turns are interleaved
PICTURES, PICTURE = 300, 500_000
LONG = "long-with-pictures"

_NUMBER = "4711"  # stands in the texts for the number of a session
_INSERT_RUNS = (
    f"INSERT INTO runs (id, bytes, {RUN_COLUMNS})"  # REASON: names of our own
    f" VALUES (?, ?, '', ?, 0, ?, ?, ?, '', {', '.join('?' * 12)})"
)
_INSERT_RECORDS = (
    "INSERT INTO records (run, seq, key, digest, type, at, schema, event, checksum)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def make_turn(turn: int, at: float, said: str) -> tuple[TurnOpened, ModelReplied, TurnClosed]:
    """The three records of one turn."""
    reply = Reply((Text(SAID),), usage=Usage(900, 120), model="bench")
    return (
        TurnOpened(f"t{turn}", at, user(said)),
        ModelReplied(f"t{turn}.i0.model", at, reply),
        TurnClosed(f"t{turn}.closed", at, Status.COMPLETED),
    )


def make_large_store(path: Path, sessions: int) -> None:
    """Make a journal with so many sessions of 24 records."""
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    connection = sqlite3.connect(part, isolation_level=None)
    for pragma in ("auto_vacuum = INCREMENTAL", "journal_mode = OFF", "synchronous = OFF"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("PRAGMA cache_size = -500000")
    indexes = [text for text in SCHEMA if "INDEX" in text.partition(" ON ")[0]]
    connection.execute("BEGIN")
    for statement in SCHEMA:
        if statement not in indexes:
            connection.execute(statement)
    for first in range(0, sessions, AT_ONCE):
        _insert_sessions(connection, range(first, min(first + AT_ONCE, sessions)))
    for statement in indexes:
        connection.execute(statement)
    connection.execute("UPDATE identity SET log = ? || log", (CLOSED,))
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")
    connection.close()
    part.replace(path)


def _insert_sessions(connection: sqlite3.Connection, numbers: Sequence[int]) -> None:
    count = TURNS * 3
    turns = [make_turn(turn, 0.0, SAID) for turn in range(1, TURNS + 1)]
    records = [Record(event) for turn in turns for event in turn]
    columns = astuple(fold_run(records))
    size = count_bytes([encode_row("", "", 0, record) for record in records])
    connection.executemany(
        _INSERT_RUNS,
        (
            (n + 1, size, f"s{n:07}", count, n * 10.0 + 1, n * 10.0 + TURNS, *columns)
            for n in numbers
        ),
    )
    connection.executemany(_INSERT_RECORDS, _make_rows(numbers))


def _make_rows(numbers: Sequence[int]) -> Iterator[tuple[object, ...]]:
    """The columns of the records of some sessions, in the order in which agents write them."""
    for turn in range(1, TURNS + 1):
        seq = 3 * turn - 2
        said = f"{SAID} {_NUMBER}"
        rows = [encode_row("", "", 0, Record(event)) for event in make_turn(turn, 0.0, said)]
        for n in numbers:
            at, name = n * 10.0 + turn, f"s{n:07}"
            for number, (line, text, _) in enumerate(rows, seq):
                event = text.replace(_NUMBER, str(n))
                own = msgspec.structs.replace(line, run=name, at=at)
                checksum = number_checksum(compute_checksum("", own, event), number)
                yield (n + 1, number, own.key, "", own.type, at, own.schema, event, checksum)


async def add_long_run(journal: SqliteJournal) -> None:
    """Add a session with many turns, each with its own picture."""
    records = []
    for turn in range(1, PICTURES + 1):
        opened, replied, closed = make_turn(turn, 1.0, SAID)
        data = turn.to_bytes(4, "big") * (PICTURE // 4)
        message = user(SAID, Media("image/png", data))
        records.append(Record(msgspec.structs.replace(opened, message=message)))
        records += [Record(replied), Record(closed)]
    await journal.restore({LONG: records})
