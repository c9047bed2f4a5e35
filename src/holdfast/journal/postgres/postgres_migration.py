"""Makes the tables of a PostgreSQL journal, and keeps processes of another version away from them.

Two processes that start at the same time must never both change the tables: an advisory lock of the
database is held meanwhile, and a process that was stopped loses it. Every connection that uses the
tables holds a shared lock of the journal, and reads the version once it has that lock. A migration
ends these connections and takes the lock for itself. So no older process writes to the tables of a
newer version.
"""

from __future__ import annotations

from typing import Any, Final, LiteralString

import psycopg
from psycopg import errors

from holdfast.journal.journal_errors import (
    JournalError,
    JournalStorageError,
    JournalVersionError,
)
from holdfast.journal.postgres.postgres_schema import STEPS, VERSION

LOCK: Final = 0x48464A31
"""`HFJ1`: the advisory lock."""

LONGEST_SILENCE = 15.0
"""Seconds after which a process that holds a lock for the tables, and says nothing to the server, loses it."""

_TRIES = 20
_KEY: Final = f"({LOCK}::bigint << 32 | 'holdfast_journal'::regclass::oid::bigint)"
"""The lock of one journal: a database may have several, in schemas of their own."""

_KEEP: Final = f"SELECT pg_advisory_lock_shared({_KEY})"
_TAKE: Final = f"SELECT pg_advisory_lock({_KEY})"
FIND_CONNECTIONS: Final = f"""
SELECT pid FROM pg_locks
WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid() AND objsubid = 1
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND classid::bigint << 32 | objid::bigint = {_KEY}
"""  # noqa: S608  # REASON: made of constants
"""The other connections of this journal."""

_END_OTHERS: Final = f"SELECT count(pg_terminate_backend(pid)) FROM ({FIND_CONNECTIONS}) AS other"  # noqa: S608  # REASON: made of constants

_END_SILENT: Final = """
SELECT count(pg_terminate_backend(holder.pid)) FROM pg_stat_activity AS holder JOIN pg_locks AS held USING (pid)
WHERE held.locktype = 'advisory' AND held.granted AND held.objsubid = 1 AND held.database = holder.datid
  AND held.classid = 0 AND held.objid::bigint = %(key)s AND holder.datname = current_database()
  AND holder.usename = current_user AND holder.wait_event = 'ClientRead'
  AND holder.state_change < clock_timestamp() - make_interval(secs => %(silence)s)
"""
"""Whoever makes tables sends one statement after the other, unless it was stopped."""


async def take_lock(connection: psycopg.AsyncConnection[Any], key: int) -> None:
    """Wait for a lock of the session; end those who hold it and have said nothing for `LONGEST_SILENCE`.

    Args:
        connection: a connection without a transaction.
        key: the advisory lock, below 2**32.
    """
    silence = LONGEST_SILENCE
    before = await _change_setting(connection, "lock_timeout", f"{round(silence * 1000)}ms")
    try:
        while True:
            try:
                await connection.execute("SELECT pg_advisory_lock(%s::bigint)", (key,))
            except errors.LockNotAvailable:
                await connection.execute(_END_SILENT, {"key": key, "silence": silence})
            else:
                return
    finally:
        await _change_setting(connection, "lock_timeout", before)


async def prepare_schema(
    connection: psycopg.AsyncConnection[Any],
    location: str,
    steps: tuple[tuple[LiteralString, ...], ...] = STEPS,
    *,
    create: bool = True,
) -> None:
    """Make the tables, or bring those of an older version to this one, if that is wanted.

    Raises:
        JournalVersionError: a newer Holdfast made them, or an older one and they are to be left.
        JournalStorageError: there are none and they are not to be made, or older processes cannot be
            kept away.
        psycopg.Error: the server refused.
    """
    version = await _read_version(connection, location)
    if version == len(steps):
        return
    if not create:
        raise _unprepared_error(location, version, len(steps))
    # Others may hold the lock for as long as they make the tables. It is the session's and not the
    # transaction's, since a transaction that waits for it might not see the tables of the other.
    limit = await _change_setting(connection, "statement_timeout", "0")
    await take_lock(connection, LOCK)
    try:
        version = await _read_version(connection, location)
        if 0 < version < len(steps):
            await _end_older_connections(connection, location)
        if version < len(steps):
            await _take_steps(connection, steps, version)
    finally:
        await connection.execute("SELECT pg_advisory_unlock_all()")
        await _change_setting(connection, "statement_timeout", limit)


async def _take_steps(
    connection: psycopg.AsyncConnection[Any],
    steps: tuple[tuple[LiteralString, ...], ...],
    version: int,
) -> None:
    async with connection.transaction():
        for step in steps[version:]:
            await connection.execute(";\n".join(step))  # one round trip and not twenty
        await connection.execute("UPDATE holdfast_journal SET version = %s", (len(steps),))


async def _end_older_connections(connection: psycopg.AsyncConnection[Any], location: str) -> None:
    """End the connections that use the tables, and hold the lock that new ones wait for."""
    before = await _change_setting(connection, "lock_timeout", "500ms")
    try:
        for _ in range(_TRIES):
            await connection.execute(_END_OTHERS)
            try:
                await connection.execute(_TAKE)
            except errors.LockNotAvailable:
                continue  # another connection was faster than the request for the lock
            return
    finally:
        await _change_setting(connection, "lock_timeout", before)
    raise JournalStorageError(
        location, "is used by an older Holdfast that does not let go of it", fix="Stop it first"
    )


async def keep_version(connection: psycopg.AsyncConnection[Any], location: str) -> None:
    """Make sure that the tables have this version for as long as a connection is open.

    Raises:
        JournalVersionError: they have another one.
        psycopg.Error: the server refused.
    """
    await connection.execute(_KEEP)  # waits for a migration
    version = await _read_version(connection, location)
    if version != VERSION:
        raise _unprepared_error(location, version, VERSION)


def _unprepared_error(location: str, version: int, wanted: int) -> JournalError:
    if version:
        return JournalVersionError(
            location,
            f"has version {version}, and this Holdfast reads version {wanted}",
            fix="Start a process that writes to it, for instance `holdfast serve`: that migrates it",
        )
    return JournalStorageError(
        location, "holds no journal", fix="Check the database and its search path"
    )


async def _change_setting(
    connection: psycopg.AsyncConnection[Any], name: LiteralString, value: str
) -> str:
    """Change a setting of a connection; returns its value before."""
    cursor = await connection.execute("SELECT current_setting(%s)", (name,))
    before = str((await cursor.fetchone() or ["0"])[0])
    await connection.execute("SELECT set_config(%s, %s, false)", (name, value))
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
