"""Queries of a PostgreSQL journal that list, search, restore and open sessions.

A run is restored completely or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import asdict

from holdfast.core.acts import Act
from holdfast.core.effects import is_nested_run
from holdfast.core.errors import ConflictError
from holdfast.core.events import TurnOpened
from holdfast.journal.journal_names import check_name, digest_name
from holdfast.journal.media_store import extract_media
from holdfast.journal.port import Record
from holdfast.journal.postgres import postgres_statements as sql
from holdfast.journal.postgres.postgres_acts import insert_act, make_act_values
from holdfast.journal.postgres.postgres_media import extract_snapshot_media, save_media
from holdfast.journal.postgres.postgres_pool import Connection, Work
from holdfast.journal.rows import SAID, encode_row, number_checksum
from holdfast.journal.run_summary import summarize_run


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


def make_restore(
    tenant: str,
    runs: Mapping[str, Sequence[Record]],
    act: Act | None = None,
) -> Work[None]:
    """Make the work that adds whole runs in one transaction. The work raises ConflictError.

    Args:
        tenant: the tenant of the runs.
        runs: the runs by name, each with at least one record.
        act: the act that adds them.

    Raises:
        ConfigurationError: a record cannot be stored.
    """
    # Encoded here and not in the work, which runs in the thread of the journal, perhaps twice.
    wanted = [_encode_run(tenant, run, records) for run, records in runs.items()]
    done = make_act_values(tenant, act) if act is not None else None

    tries = 0

    async def work(connection: Connection) -> None:
        nonlocal tries
        tries += 1
        async with connection.transaction():
            for run in wanted:
                row = await _fetch_first(connection, sql.RESTORE_RUN, run.values)
                if row is None:
                    first = {**run.values, "key": run.records[0]["key"]}
                    saved = await _fetch_first(connection, sql.SAVED, first)
                    if tries > 1 and saved == (run.checksum,):
                        return  # it was committed before the connection was lost
                    raise ConflictError(f"the journal already has a run {run.values['run']!r}")
                async with connection.cursor() as cursor:
                    for statement, rows in (
                        (sql.RESTORE_RECORD, run.records),
                        (sql.RESTORE_REQUEST, run.requests),
                    ):
                        values = [{**one, "id": row[0]} for one in rows]
                        await cursor.executemany(statement, values)
                await save_media(connection, run.values, run.media)
            await insert_act(connection, done)

    return work


class _RunValues(NamedTuple):
    """The values of the statements that add one run."""

    values: dict[str, object]
    checksum: int
    media: dict[str, bytes]
    records: list[dict[str, object]]
    requests: list[dict[str, object]]


def _encode_run(tenant: str, run: str, records: Sequence[Record]) -> _RunValues:
    summary = summarize_run(records)
    values: dict[str, object] = {
        "tenant": tenant,
        "name": digest_name(run),
        "run": run,
        "nested": is_nested_run(run),
        "records": summary.records,
        "opened_at": summary.opened_at,
        "changed_at": summary.changed_at,
        **asdict(summary.state),
        "agent": summary.agent.replace("\x00", ""),
    }
    media: dict[str, bytes] = {}
    rows = [
        _record_values(tenant, run, seq, record, media) for seq, record in enumerate(records, 1)
    ]
    checksum = encode_row(tenant, run, 1, records[0]).checksum
    texts = sum(len(str(row["event"]).encode()) for row in rows)
    values["bytes"] = texts + sum(map(len, media.values()))
    events = [record.event for record in records]
    requests: list[dict[str, object]] = [
        {"tenant": tenant, "request": check_name("request", event.request), "key": event.key}
        for event in events
        if isinstance(event, TurnOpened) and event.request
    ]
    return _RunValues(values, checksum, media, rows, requests)


def _record_values(
    tenant: str, run: str, seq: int, record: Record, media: dict[str, bytes]
) -> dict[str, object]:
    line, event, checksum = encode_row(tenant, run, seq, record)
    return {
        "seq": seq,
        "key": line.key,
        "digest": line.digest,
        "type": line.type,
        "at": line.at,
        "schema": line.schema,
        "event": extract_media(event, media.__setitem__),
        "checksum": number_checksum(checksum, seq),
    }


def make_save_snapshot(names: Mapping[str, object], records: int, state: bytes) -> Work[None]:
    """Make the work that replaces the snapshot of a run, unless the run was deleted meanwhile.

    Args:
        names: the values by which statements name the run.
        records: the number of records in the snapshot.
        state: the snapshot.
    """
    small, media = extract_snapshot_media(state)

    async def work(connection: Connection) -> None:
        values = {**names, "records": records, "state": small}
        async with connection.transaction():
            saved = await connection.execute(sql.KEEP_SNAPSHOT, values)
            if saved.rowcount:
                await save_media(connection, names, media)

    return work


async def _fetch_first(
    connection: Connection, statement: str, values: dict[str, object]
) -> tuple[object, ...] | None:
    return await (await connection.execute(statement.encode(), values)).fetchone()
