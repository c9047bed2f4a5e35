"""Queries of a PostgreSQL journal that list, search, restore and open sessions.

A run is restored completely or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.core.errors import ConflictError
from holdfast.core.events import TurnClosed, TurnOpened
from holdfast.journal import postgres_statements as sql
from holdfast.journal.port import Record
from holdfast.journal.postgres_pool import Connection, Work
from holdfast.journal.rows import SAID, row_of


def make_word_values(words: Sequence[str]) -> dict[str, object]:
    """Make the values of the statement `HOLDING`.

    Args:
        words: the words to find. Words with non-ASCII letters are ignored, because JSON may escape
            them and the server may not know their upper case.
    """
    ascii_words = [word for word in words if word.isascii() and "\x00" not in word]
    return {"said": list(SAID), "patterns": [_make_pattern(word) for word in ascii_words]}


def _make_pattern(word: str) -> str:
    for special in "\\%_":
        word = word.replace(special, f"\\{special}")
    return f"%{word}%"


def make_restore(runs: Mapping[bytes, tuple[str, Sequence[Record]]], ticket: bytes) -> Work[None]:
    """Make the work that adds whole runs in one transaction. The work raises ConflictError.

    Args:
        runs: the runs by the digests of their names.
        ticket: a random value, by which repeated work recognises runs that it already added.

    Raises:
        ConfigurationError: a record cannot be stored.
    """
    # Encoded here and not in the work, which runs in the thread of the journal, perhaps twice.
    wanted = [
        (
            _run_values(name, run, records),
            [_record_values(run, seq, record) for seq, record in enumerate(records, 1)],
        )
        for name, (run, records) in runs.items()
    ]

    async def work(connection: Connection) -> None:
        async with connection.transaction():
            for run, records in wanted:
                row = await _fetch_first(connection, sql.RESTORE_RUN, run)
                if row is None:
                    first = {"name": run["name"], "key": records[0]["key"]}
                    if await _fetch_first(connection, sql.TICKET, first) == (ticket,):
                        return  # it was committed before the connection was lost
                    raise ConflictError(f"the journal already has a run {run['run']!r}")
                values = [{**record, "id": row[0], "ticket": ticket} for record in records]
                async with connection.cursor() as cursor:
                    await cursor.executemany(sql.RESTORE_RECORD, values)

    return work


def _run_values(name: bytes, run: str, records: Sequence[Record]) -> dict[str, object]:
    times = [record.event.at for record in records]
    events = [record.event for record in records]
    turns = [event for event in events if isinstance(event, TurnOpened | TurnClosed)]
    agents = [event.agent for event in turns if isinstance(event, TurnOpened)]
    return {
        "name": name,
        "run": run,
        "records": len(records),
        "opened_at": min(times),
        "changed_at": max(times),
        "open": bool(turns) and isinstance(turns[-1], TurnOpened),
        "agent": agents[-1].replace("\x00", "") if agents else "",
    }


def _record_values(run: str, seq: int, record: Record) -> dict[str, object]:
    line, event = row_of(run, seq, record)
    return {
        "seq": seq,
        "key": line.key,
        "digest": line.digest,
        "type": line.type,
        "at": line.at,
        "schema": line.schema,
        "event": event,
    }


def make_save_snapshot(name: bytes, records: int, state: bytes) -> Work[None]:
    """Make the work that replaces the snapshot of a run, unless the run was deleted meanwhile.

    Args:
        name: the digest of the run's name.
        records: the number of records in the snapshot.
        state: the snapshot.
    """

    async def work(connection: Connection) -> None:
        values = {"name": name, "records": records, "state": state}
        await connection.execute(sql.KEEP_SNAPSHOT, values)

    return work


async def _fetch_first(
    connection: Connection, statement: str, values: dict[str, object]
) -> tuple[object, ...] | None:
    return await (await connection.execute(statement.encode(), values)).fetchone()
