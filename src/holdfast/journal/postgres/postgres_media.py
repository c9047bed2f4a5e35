"""Keeps the bytes of pictures and files once in a PostgreSQL database; see `journal.media_store`.

The statements of an append, a snapshot or a deletion run in its transaction. They lock the bytes
after the run, so that an append never refers to bytes that a deletion deletes at the same time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from holdfast.journal.media_store import extract_media, find_media, restore_media
from holdfast.journal.postgres import postgres_statements as sql
from holdfast.journal.postgres.postgres_pool import Connection
from holdfast.journal.rows import Row

EVENT = 7
"""The position of the event in a row."""

Fetch: TypeAlias = Callable[[str, Mapping[str, object]], Awaitable[list[Row]]]


async def save_media(
    connection: Connection, names: Mapping[str, object], media: Mapping[str, bytes]
) -> None:
    """Save bytes that the journal does not have, and note that a run uses them.

    Args:
        connection: a connection in a transaction that has locked the run.
        names: the values by which statements name the run.
        media: the bytes by digest.
    """
    if not media:
        return
    digests = [bytes.fromhex(digest) for digest in sorted(media)]
    known = await (await connection.execute(sql.KNOWN_MEDIA, {"digests": digests})).fetchall()
    for digest in digests:
        if (digest,) not in known:
            values = {"digest": digest, "data": media[digest.hex()]}
            await connection.execute(sql.SAVE_MEDIUM, values)
    row = await (await connection.execute(sql.RUN_ID, names)).fetchone()
    if row is not None:
        await connection.execute(sql.USE_MEDIA, {"id": row[0], "digests": digests})


async def delete_media(connection: Connection, run_id: int) -> None:
    """Delete the bytes that only this run uses."""
    locked = await connection.execute(sql.LOCK_MEDIA, {"id": run_id})
    if await locked.fetchone():
        await connection.execute(sql.DELETE_MEDIA, {"id": run_id})


async def fetch_events(fetch_rows: Callable[[], Awaitable[list[Row]]], fetch: Fetch) -> list[Row]:
    """Return rows of records with their bytes.

    Bytes that are missing belong to a run that was deleted meanwhile, so that the rows are read once
    more, or they were damaged: the checksum of the record then does not match.

    Args:
        fetch_rows: fetches rows with the columns of a record.
        fetch: performs a statement.
    """
    rows = await fetch_rows()
    found: Mapping[str, object] = {}
    for _ in range(2):
        wanted = {digest for row in rows for digest in find_media(str(row[EVENT]))}
        if not wanted:
            return rows
        found = await _fetch_media(wanted, fetch)
        if found.keys() == wanted:
            break
        rows = await fetch_rows()
    return [
        (*row[:EVENT], restore_media(str(row[EVENT]), found.get), *row[EVENT + 1 :])
        if row[EVENT] is not None
        else row
        for row in rows
    ]


async def fetch_snapshot(state: bytes, fetch: Fetch) -> bytes:
    """Put the bytes back into a snapshot."""
    text = state.decode(errors="surrogateescape")
    wanted = set(find_media(text))
    if not wanted:
        return state
    found = await _fetch_media(wanted, fetch)
    return restore_media(text, found.get).encode(errors="surrogateescape")


def extract_snapshot_media(state: bytes) -> tuple[bytes, dict[str, bytes]]:
    """Return a snapshot with references in place of its bytes, and the bytes by digest."""
    media: dict[str, bytes] = {}
    text = extract_media(state.decode(errors="surrogateescape"), media.__setitem__)
    return text.encode(errors="surrogateescape"), media


async def _fetch_media(digests: set[str], fetch: Fetch) -> dict[str, object]:
    values = {"digests": [bytes.fromhex(digest) for digest in digests]}
    return {str(digest): data for digest, data in await fetch(sql.MEDIA, values)}
