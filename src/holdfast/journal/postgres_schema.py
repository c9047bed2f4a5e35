"""The tables of a PostgreSQL journal; `holdfast_journal.version` says which version they have.

Rules for editing: a version that was released is never changed, and there is no way back. Two
processes that start at the same time must never both make the tables: an advisory lock of the
database is held meanwhile.
"""

from __future__ import annotations

from typing import Any, LiteralString

import psycopg

from holdfast.journal.journal_errors import JournalStorageError, JournalVersionError
from holdfast.journal.service_statements import POSTGRES_TABLES

LOCK = 0x48464A31
"""`HFJ1`: the advisory lock."""

VERSION = 1
"""The version of the schema below."""

# `name` is the SHA-256 of `run`: an index takes no text of any length. `journal.rows` computes
# `checksum`. `nested` says whether it is the run of a subagent. `listed_at` is `changed_at` without the
# records inside an open turn, so that these change no column of an index. A request is the idempotency key of a turn's caller.
SCHEMA: tuple[LiteralString, ...] = (
    "CREATE TABLE holdfast_journal (version integer NOT NULL)",
    "INSERT INTO holdfast_journal (version) VALUES (1)",
    "CREATE SEQUENCE holdfast_tokens AS bigint",
    (
        "CREATE TABLE holdfast_runs ("
        " id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
        ' tenant text COLLATE "C" NOT NULL,'
        " name bytea NOT NULL,"
        " run text NOT NULL,"
        " records bigint NOT NULL DEFAULT 0,"
        " opened_at double precision,"
        " changed_at double precision,"
        " turn_open boolean NOT NULL DEFAULT false,"
        " agent text NOT NULL DEFAULT '',"
        " nested boolean NOT NULL,"
        " listed_at double precision,"
        " token bigint,"
        " owner bytea,"
        " expires timestamptz,"
        " UNIQUE (tenant, name)"
        ") WITH (fillfactor = 80)"
    ),
    "CREATE INDEX holdfast_runs_open ON holdfast_runs (tenant) WHERE turn_open",
    (
        "CREATE INDEX holdfast_runs_recent ON holdfast_runs (tenant, listed_at DESC)"
        " WHERE NOT turn_open AND NOT nested AND listed_at IS NOT NULL"
    ),
    ('CREATE INDEX holdfast_runs_by_name ON holdfast_runs (tenant, (left(run, 200)) COLLATE "C")'),
    (
        "CREATE TABLE holdfast_records ("
        " run_id bigint NOT NULL,"
        " at double precision NOT NULL,"
        " checksum bigint NOT NULL,"
        " seq integer NOT NULL,"
        " schema smallint NOT NULL,"
        ' key text COLLATE "C" NOT NULL,'
        ' type text COLLATE "C" NOT NULL,'
        ' digest text COLLATE "C" NOT NULL,'
        " event text NOT NULL"
        ")"
    ),
    # Of 64-bit hashes, since most of a record's bytes beside its event would be its key in an index.
    (
        "CREATE UNIQUE INDEX holdfast_records_by_key"
        " ON holdfast_records (run_id, hashtextextended(key, 0))"
    ),
    # Equal entries of an index take six bytes each. An append locks its run, so numbers are unique.
    "CREATE INDEX holdfast_records_by_seq ON holdfast_records (run_id, (seq >> 5))",
    (
        "CREATE TABLE holdfast_requests ("
        ' tenant text COLLATE "C" NOT NULL,'
        ' request text COLLATE "C" NOT NULL,'
        " run_id bigint NOT NULL,"
        " key text NOT NULL,"
        " PRIMARY KEY (tenant, request)"
        ")"
    ),
    "CREATE INDEX holdfast_requests_by_run ON holdfast_requests (run_id)",
    "CREATE TABLE holdfast_snapshots (run_id bigint PRIMARY KEY, state bytea NOT NULL)",
    # Large bytes of pictures and files, once each, and which runs use them; see `journal.media_store`.
    "CREATE TABLE holdfast_media (digest bytea PRIMARY KEY, data bytea NOT NULL)",
    (
        "CREATE TABLE holdfast_media_uses ("
        " run_id bigint NOT NULL,"
        " digest bytea NOT NULL,"
        " PRIMARY KEY (run_id, digest)"
        ")"
    ),
    "CREATE INDEX holdfast_media_uses_by_digest ON holdfast_media_uses (digest)",
    # What a service stores besides runs; see `journal.service_store`.
    *POSTGRES_TABLES,
    # Acts for the processes that drive runs, until their results were read; see `journal.live_link`.
    (
        "CREATE TABLE holdfast_driver_acts ("
        " id text PRIMARY KEY,"
        ' tenant text COLLATE "C" NOT NULL,'
        " session text NOT NULL,"
        " act text NOT NULL,"
        " body text NOT NULL,"
        " result text,"
        " at timestamptz NOT NULL DEFAULT now()"
        ")"
    ),
)


async def prepare_schema(
    connection: psycopg.AsyncConnection[Any],
    location: str,
    schema: tuple[LiteralString, ...] = SCHEMA,
    *,
    create: bool = True,
) -> None:
    """Make the tables when they are missing, if that is wanted.

    Raises:
        JournalVersionError: a newer Holdfast made them.
        JournalStorageError: there are none, and they are not to be made.
        psycopg.Error: the server refused.
    """
    if await _read_version(connection, location):
        return
    if not create:
        raise JournalStorageError(
            location, "holds no journal", fix="Check the database and its search path"
        )
    # Others may hold the lock for as long as they make the tables. It is the session's and not the
    # transaction's, since a transaction that waits for it might not see the tables of the other.
    limit = await _set_timeout(connection, "0")
    await connection.execute("SELECT pg_advisory_lock(%s)", (LOCK,))
    try:
        async with connection.transaction():
            if not await _read_version(connection, location):
                for statement in schema:
                    await connection.execute(statement)
    finally:
        await connection.execute("SELECT pg_advisory_unlock(%s)", (LOCK,))
        await _set_timeout(connection, limit)


async def _set_timeout(connection: psycopg.AsyncConnection[Any], limit: str) -> str:
    """Set the time that a statement may take; returns what it was."""
    cursor = await connection.execute("SHOW statement_timeout")
    before = str((await cursor.fetchone() or ["0"])[0])
    await connection.execute("SELECT set_config('statement_timeout', %s, false)", (limit,))
    return before


async def _read_version(connection: psycopg.AsyncConnection[Any], place: str) -> int:
    """The version of the tables; 0 when there are none."""
    cursor = await connection.execute("SELECT to_regclass('holdfast_journal') IS NOT NULL")
    if (await cursor.fetchone() or [False])[0] is not True:
        return 0
    cursor = await connection.execute("SELECT version FROM holdfast_journal")
    row = await cursor.fetchone()
    version = row[0] if row else None
    if not isinstance(version, int):
        raise JournalVersionError(
            place, "has tables of another program", fix="Choose another schema or database"
        )
    if version > VERSION:
        raise JournalVersionError(
            place,
            f"has version {version}, and this Holdfast knows up to {VERSION}",
            fix="Update Holdfast to the version that wrote it, or a newer one",
        )
    return version
