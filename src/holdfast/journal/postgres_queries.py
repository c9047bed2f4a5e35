"""Acts of a PostgreSQL journal for whoever lists, searches, copies or opens long sessions.

It must never change a record, and a run that is restored is there whole or not at all.
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
    """The values of the statement `HOLDING`.

    Args:
        words: what the text is to hold. A word with other letters than those of ASCII is left out:
            JSON may have written it with escapes, and the server may not know its capitals.
    """
    plain = [word for word in words if word.isascii() and "\x00" not in word]
    return {"said": list(SAID), "patterns": [_make_pattern(word) for word in plain]}


def _make_pattern(word: str) -> str:
    for special in "\\%_":
        word = word.replace(special, f"\\{special}")
    return f"%{word}%"


def make_restore(runs: Mapping[bytes, tuple[str, Sequence[Record]]], ticket: bytes) -> Work[None]:
    """Adds whole runs, in one transaction. The work raises ConflictError.

    Args:
        runs: by the digests of their names.
        ticket: of this act alone, so that it knows its own runs when an answer was lost.

    Raises:
        ConfigurationError: a record cannot be kept.
    """
    # Here and not in the work, which runs where all acts of the journal run, and may run twice.
    wanted = [
        (
            _run_values(name, run, records),
            [_record_values(run, *one) for one in enumerate(records, 1)],
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
                        return  # all of it was committed before its connection was lost
                    raise ConflictError(f"the journal has a run {run['run']!r} already")
                values = [{**record, "id": row[0], "ticket": ticket} for record in records]
                async with connection.cursor() as cursor:
                    await cursor.executemany(sql.RESTORE_RECORD, values)

    return work


def _run_values(name: bytes, run: str, records: Sequence[Record]) -> dict[str, object]:
    times = [record.event.at for record in records]
    turns = [one.event for one in records if isinstance(one.event, TurnOpened | TurnClosed)]
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
    """Keeps a snapshot in place of the one before, unless the run was deleted meanwhile.

    Args:
        name: the digest of the run's name.
        records: of how many records it is.
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
