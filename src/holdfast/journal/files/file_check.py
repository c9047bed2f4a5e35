"""Checks whether a SQLite database is a journal of this Holdfast: its header, schema and pages.

It never writes to the journal: the database is opened read-only, or is a copy.
"""

from __future__ import annotations

import sqlite3
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec

from holdfast.journal.files.log_file import CLOSED
from holdfast.journal.files.sqlite_schema import APPLICATION_ID, STEPS, VERSION
from holdfast.journal.journal_errors import JournalCorruptError, JournalVersionError

RESTORE = "Keep the file as it is for an attempt to recover it, and restore a backup elsewhere"

SchemaEntry: TypeAlias = tuple[str, str, str, str | None]

_MAGIC = b"SQLite format 3\0"
_VERSION_AT, _MARK_AT = 60, 68
_OF_ANALYZE: frozenset[SchemaEntry] = frozenset(
    ("table", name, name, f"CREATE TABLE {name}({columns})")
    for name, columns in (
        ("sqlite_stat1", "tbl,idx,stat"),
        ("sqlite_stat4", "tbl,idx,neq,nlt,ndlt,sample"),
    )
)
"""The tables that ANALYZE creates; they do not change the journal."""


class JournalIdentity(NamedTuple):
    """The row of the table `identity`; the schema describes the columns."""

    journal: str
    log: str
    base: str
    last_id: int
    deletions: int


def connect_read_only(path: str) -> sqlite3.Connection:
    """Connect to the main file alone: SQLite locks nothing, and reads and creates no other file."""
    return _harden(
        sqlite3.connect(
            Path(path).as_uri() + "?immutable=1&mode=ro", uri=True, isolation_level=None
        )
    )


def connect_copy(path: str) -> sqlite3.Connection:
    """Connect to a copy of the file with copies of its logs."""
    connection = _harden(sqlite3.connect(path, isolation_level=None))
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA synchronous = OFF")  # the copy is deleted soon
    return connection


def _harden(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Prepare a connection to a file that may be damaged or malicious."""
    connection.text_factory = lambda data: data.decode(errors="replace")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def check_header(path: str) -> None:
    """Refuse a file whose header is not that of a journal.

    Args:
        path: a file that is not empty.

    Raises:
        JournalError: another program or a newer Holdfast wrote it, or it is damaged.
    """
    with Path(path).open("rb") as file:
        header = file.read(100)
    if len(header) < 100 or not header.startswith(_MAGIC):
        raise JournalCorruptError(path, "is damaged: file is not a database", fix=RESTORE)
    version = int.from_bytes(header[_VERSION_AT : _VERSION_AT + 4], "big", signed=True)
    mark = int.from_bytes(header[_MARK_AT : _MARK_AT + 4], "big", signed=True)
    _check_mark(path, mark, version, may_be_empty=True)


def _check_mark(path: str, mark: int, version: int, *, may_be_empty: bool) -> None:
    if mark != APPLICATION_ID and not (may_be_empty and version == 0 and mark == 0):
        raise JournalVersionError(
            path, "is a database of another program", fix="Choose another path"
        )
    if version > VERSION:
        raise JournalVersionError(
            path,
            f"has version {version}, and this Holdfast reads up to {VERSION}",
            fix="Update Holdfast to the version that wrote it, or a newer one",
        )
    if version < 0:
        raise JournalCorruptError(path, f"is damaged: it has version {version}", fix=RESTORE)


def check_database(connection: sqlite3.Connection, path: str, *, all_pages: bool) -> None:
    """Refuse a database that is not a journal of a known version.

    Args:
        connection: a read-only connection to the file, or a connection to a copy.
        path: the file, for errors.
        all_pages: whether every page must be intact. Otherwise a damaged page is found when it is
            read, and other pages can be used.

    Raises:
        JournalError: it is not a journal of a known version, or a page is damaged.
        sqlite3.Error: it is damaged.
    """
    check_schema(connection, path)
    check = connection.execute("PRAGMA integrity_check(3)").fetchall() if all_pages else []
    problems = [str(row[0]) for row in check if row[0] != "ok"]
    if problems:
        raise JournalCorruptError(path, "is damaged: " + "; ".join(problems), fix=RESTORE)
    check_identity(connection, path)


def check_schema(connection: sqlite3.Connection, path: str) -> int:
    """Return the version of a journal after comparing its tables; 0 for a database without tables.

    Raises:
        JournalError: another program or a newer Holdfast wrote it.
    """
    version = check_owner(connection, path)
    differences = sorted(_read_schema(connection) ^ expected_schema(version), key=repr)
    if differences:
        kind, name = differences[0][:2]
        raise JournalVersionError(
            path,
            f"does not have the schema of a journal: see {kind} {name[:60]!r}",
            fix="Choose another path, or restore a backup",
        )
    return version


def check_owner(connection: sqlite3.Connection, path: str) -> int:
    """Return the version of a journal; 0 for a database without tables.

    Raises:
        JournalError: another program or a newer Holdfast wrote it.
    """
    version = read_number(connection, "PRAGMA user_version")
    mark = read_number(connection, "PRAGMA application_id")
    _check_mark(path, mark, version, may_be_empty=is_empty(connection))
    return version


@cache
def expected_schema(version: int) -> frozenset[SchemaEntry]:
    """The tables and indexes of a version; none of version 0, a file that is new."""
    connection = sqlite3.connect(":memory:")
    try:
        for step in STEPS[:version]:
            for statement in step:
                connection.execute(statement)
        return _read_schema(connection)
    finally:
        connection.close()


def _read_schema(connection: sqlite3.Connection) -> frozenset[SchemaEntry]:
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
    return frozenset(rows.fetchall()) - _OF_ANALYZE


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether a database has no tables yet."""
    return not _read_schema(connection)


def read_number(connection: sqlite3.Connection, query: str) -> int:
    """Return the number that a statement selects."""
    return int(connection.execute(query).fetchone()[0])


def read_identity(connection: sqlite3.Connection) -> JournalIdentity | None:
    """Return the identity of the journal; None if its version has none yet.

    Raises:
        sqlite3.Error: it cannot be read.
        msgspec.ValidationError: the table does not contain one row of these types.
    """
    if ("table", "identity") not in {entry[:2] for entry in _read_schema(connection)}:
        return None
    rows = connection.execute(
        "SELECT journal, log, base, MAX(last_id, COALESCE((SELECT MAX(id) FROM records), 0)), deletions"
        " FROM identity"
    ).fetchall()
    return msgspec.convert(rows, tuple[JournalIdentity])[0]


def check_identity(connection: sqlite3.Connection, path: str) -> None:
    """Raise JournalCorruptError if the table `identity` is not as the schema describes it."""
    try:
        read_identity(connection)
    except msgspec.ValidationError as error:
        raise JournalCorruptError(path, f"is damaged: identity: {error}", fix=RESTORE) from error


def check_log_exists(connection: sqlite3.Connection, path: str, log: str) -> None:
    """Refuse a file that was not closed and has no log beside it: its last records are missing.

    Args:
        connection: a connection to the file.
        path: the file.
        log: the path of the log.

    Raises:
        JournalCorruptError: the log is missing.
    """
    identity = read_identity(connection)
    if identity is not None and not identity.log.startswith(CLOSED) and not Path(log).exists():
        raise JournalCorruptError(
            path,
            f"its log, {log}, is missing, and the last records with it",
            fix="Restore that file or a backup; `holdfast journal restore` saves the rest",
        )
