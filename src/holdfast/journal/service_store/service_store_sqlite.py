"""A service store in a SQLite file of its own, beside the file of the journal.

One process owns the journal's file; any number may use this one. So a key can be made or revoked
while the service runs. Statements are executed one after another in a thread of the store.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

from holdfast.journal.journal_errors import (
    JournalBusyError,
    JournalClosedError,
    JournalError,
    JournalStorageError,
    JournalVersionError,
)
from holdfast.journal.rows import Row
from holdfast.journal.service_statements import SQLITE_TABLES
from holdfast.journal.service_store.service_store_sql import SqlServiceStore, Step
from holdfast.journal.sqlite.opening import to_journal_error

ENDING = "-service.db"
"""Follows the name of the journal's file in the name of the store's file."""

APPLICATION_ID = 0x48465331
"""`HFS1`: marks a file as a service store of Holdfast."""

STEPS: tuple[tuple[str, ...], ...] = (SQLITE_TABLES,)
"""The statements that make each version of the tables of the one before."""

VERSION = len(STEPS)
"""The version of the tables; `PRAGMA user_version` of a file says which version it has."""

_SPACE = 64 * 1024  # bytes that must be free on the disk

_WAIT = 5.0  # seconds for which another process may be writing


class SqliteServiceStore(SqlServiceStore):
    """Stores keys, sign-ins, requests and uploads in `<path of the journal>-service.db`.

    Args:
        journal: the path of the journal's file, which need not exist.
        create: whether to create the store's file.

    Raises:
        JournalError: the file cannot be used, or does not exist and is not to be created.

    >>> import asyncio, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = SqliteServiceStore(f"{folder.name}/talk.db")
    >>> asyncio.run(store.has_keys())
    False
    >>> store.close()
    >>> folder.cleanup()
    """

    def __init__(self, journal: str | os.PathLike[str], *, create: bool = True) -> None:
        self.path = f"{os.fspath(journal)}{ENDING}"
        if not create and not Path(self.path).is_file():
            raise JournalStorageError(
                self.path, "does not exist", fix="`holdfast keys create` creates it"
            )
        connection = _open_connection(self.path)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="holdfast-service")
        self._connection = connection
        self._identity = _identify_file(self.path)
        self._lock = threading.Lock()
        self._finalizer = weakref.finalize(self, _close, self._thread, connection, self._lock)

    async def perform(self, *steps: Step) -> list[Row]:
        """Execute statements in one transaction, in the thread of the store.

        The transaction ends as a whole even if the caller is cancelled.
        """
        if not self._finalizer.alive:
            raise JournalClosedError(self.path, "is closed", fix="Open it again")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._execute, steps)

    async def probe(self, at: float) -> None:
        """Write one row, and a file beside the store: a row may fit into space that it has."""
        await super().probe(at)
        await asyncio.get_running_loop().run_in_executor(self._thread, _require_space, self.path)

    def _execute(self, steps: tuple[Step, ...]) -> list[Row]:
        run = self._connection.execute
        if _identify_file(self.path) != self._identity:
            # Otherwise a key could be revoked in the new file and be accepted from the old one.
            raise JournalStorageError(
                self.path,
                "was deleted or replaced while it was open",
                fix="Start the service again",
            )
        with self._lock:
            try:
                rows: list[Row] = []
                is_reading = len(steps) == 1 and steps[0][0].lstrip().startswith("SELECT")
                run("BEGIN" if is_reading else "BEGIN IMMEDIATE")  # a reading one blocks nobody
                _check_version(self._connection, self.path)  # a newer Holdfast may have migrated it
                for statement, values in steps:
                    rows = run(statement, values).fetchall()
                run("COMMIT")
            except (sqlite3.Error, ValueError) as error:
                raise _to_error(error, self.path) from error
            else:
                return rows
            finally:
                with suppress(sqlite3.Error):
                    if self._connection.in_transaction:
                        run("ROLLBACK")

    def close(self) -> None:
        """Close the file, after the statements that are being executed."""
        self._finalizer()


def _require_space(path: str) -> None:
    """Write a file that nobody sees, in the folder of another one. Raises JournalStorageError."""
    try:
        with TemporaryFile(dir=Path(path).parent) as file:
            file.write(os.urandom(_SPACE))  # no file system can compress it
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        problem = error.strerror or str(error)
        raise JournalStorageError(path, problem, fix="Make room on its disk") from error


def _identify_file(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116  # REASON: before each statement
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _close(
    thread: ThreadPoolExecutor, connection: sqlite3.Connection, lock: threading.Lock
) -> None:
    thread.shutdown(wait=False)
    with lock:
        connection.close()


def _open_connection(path: str) -> sqlite3.Connection:
    try:
        # Only this user may read it. SQLite gives the files of its log the same rights. A file that
        # exists is not opened: closing it would drop the locks of this process's connections.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        problem = error.strerror or str(error)
        raise JournalStorageError(path, problem, fix="Check the folder and its rights") from error
    connection = sqlite3.connect(path, timeout=_WAIT, isolation_level=None, check_same_thread=False)
    try:
        _prepare_connection(connection, path)
    except (sqlite3.Error, ValueError) as error:
        connection.close()
        raise _to_error(error, path) from error
    except JournalError:
        connection.close()
        raise
    return connection


def _prepare_connection(connection: sqlite3.Connection, path: str) -> None:
    run = connection.execute
    _check_version(connection, path)
    _set_write_ahead_log(connection)
    run("PRAGMA synchronous = FULL")
    run("PRAGMA secure_delete = ON")
    run("PRAGMA trusted_schema = OFF")
    if run("PRAGMA user_version").fetchone()[0] == VERSION:
        return
    run("BEGIN IMMEDIATE")
    version = _check_version(connection, path)  # another process may have migrated it meanwhile
    for step in STEPS[version:]:
        for statement in step:
            run(statement)
    run(f"PRAGMA application_id = {APPLICATION_ID}")
    run(f"PRAGMA user_version = {VERSION}")
    run("COMMIT")


def _set_write_ahead_log(connection: sqlite3.Connection) -> None:
    """SQLite does not wait by itself when two processes do this at the same time."""
    end = time.monotonic() + _WAIT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)
        else:
            return


# One statement sees the file at one time: another process may make the tables between two.
_READ_VERSION = (
    "SELECT (SELECT user_version FROM pragma_user_version),"
    " (SELECT application_id FROM pragma_application_id), (SELECT count(*) FROM sqlite_schema)"
)


def _check_version(connection: sqlite3.Connection, path: str) -> int:
    """Return the version of the tables; 0 if there are none. Raises JournalVersionError."""
    version, application, tables = connection.execute(_READ_VERSION).fetchone()
    if version == VERSION and application == APPLICATION_ID:
        return int(version)
    if version > VERSION and application == APPLICATION_ID:
        raise JournalVersionError(
            path,
            f"has version {version}, and this Holdfast knows up to {VERSION}",
            fix="Update Holdfast to the version that wrote it, or a newer one",
        )
    if application != APPLICATION_ID and (tables or version):
        raise JournalVersionError(
            path, "is a file of another program", fix="Move it away, or rename the journal"
        )
    return int(version)


def _to_error(error: Exception, path: str) -> JournalError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return JournalBusyError(
            path, f"another process was writing for {_WAIT:g} seconds", fix="Try again"
        )
    return to_journal_error(error, path, is_open=True)
