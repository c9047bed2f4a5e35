"""Copies a SQLite journal while a process writes to it.

A copy is made under another name, verified, synchronised to the disk and then named. So a file with
the name of a backup is always whole, even if the process or the machine stops in between. Nothing
is ever overwritten.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from msgspec import Struct

from holdfast.core.errors import ConfigurationError
from holdfast.journal.files.file_check import check_database, connect_read_only
from holdfast.journal.files.file_lock import ENDING
from holdfast.journal.files.log_file import CLOSED, LOG, ROLLBACK
from holdfast.journal.journal_errors import JournalBusyError, JournalStorageError
from holdfast.journal.journal_names import resolve_path
from holdfast.journal.sqlite.file_reading import read_beside
from holdfast.journal.sqlite.opening import to_journal_error

if sys.platform != "win32":
    import fcntl

_MARK_CLOSED = "UPDATE identity SET base = log, log = ? || lower(hex(randomblob(16)))"
_COUNTS = "SELECT (SELECT COUNT(*) FROM runs), (SELECT COUNT(*) FROM records)"


class JournalCopy(Struct, frozen=True):
    """A verified copy of a journal.

    Args:
        path: the new file.
        runs: the number of its runs.
        records: the number of its records.
        open_runs: the runs whose last turn had not ended when the copy was made.
    """

    path: str
    runs: int
    records: int
    open_runs: tuple[str, ...] = ()


def backup_file(path: str | os.PathLike[str], destination: str | os.PathLike[str]) -> JournalCopy:
    """Copy a journal, which any process may be writing to, to a new file and verify the copy.

    The copy contains every record that was acknowledged before the call. A turn does not wait.

    Args:
        path: the journal.
        destination: the new file.

    Raises:
        ConfigurationError: the destination exists.
        JournalError: the journal cannot be read, or the copy cannot be written.
    """
    source, target = resolve_path(path), resolve_path(destination)
    with new_file(target) as part:
        read_beside(source, partial(copy_pages, part, target))
        return verify_copy(part, target)


@contextmanager
def new_file(target: str) -> Iterator[str]:
    """Yield the name of an empty file beside the target; at the end give it the target's name.

    Raises:
        ConfigurationError: the target exists.
        JournalError: the target cannot be written.
    """
    for ending in ("", LOG, ROLLBACK):
        if os.path.lexists(target + ending):
            raise ConfigurationError(
                "destination", f"{target}{ending} already exists", fix="Name a new file"
            )
    part = Path(target).with_name(f".{Path(target).name}-part")
    try:
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _storage_error(target, error) from error
    try:
        _lock_part(descriptor, target)
        try:
            yield str(part)
            _publish(part, target)
        except OSError as error:
            raise _storage_error(target, error) from error
        finally:
            for ending in ("", LOG, ROLLBACK, "-shm", ENDING):
                Path(f"{part}{ending}").unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _lock_part(descriptor: int, target: str) -> None:
    if sys.platform != "win32":
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise JournalBusyError(
                target, "is being written by another process", fix="Wait for it"
            ) from None
    os.ftruncate(descriptor, 0)  # the copy of a killed process


def _publish(part: Path, target: str) -> None:
    """Give a finished file its name, unless another file has it. Both steps reach the disk."""
    _synchronise(part)
    try:
        os.link(part, target)
    except FileExistsError:
        raise ConfigurationError("destination", f"{target} already exists") from None
    except OSError:  # a file system without hard links
        part.rename(target)
    if sys.platform != "win32":
        _synchronise(part.parent)


def _synchronise(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def copy_pages(part: str, target: str, source: sqlite3.Connection) -> None:
    """Copy all pages of a journal to a file that is still a part; `target` names it in errors."""
    os.truncate(part, 0)  # a read may be repeated
    with closing(sqlite3.connect(part, isolation_level=None)) as copy:
        try:
            source.backup(copy)
            copy.execute(_MARK_CLOSED, (CLOSED,))
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                raise
            raise to_journal_error(error, target) from error


def verify_copy(part: str, target: str) -> JournalCopy:
    """Check a finished copy. Raises JournalCorruptError."""
    try:
        with closing(connect_read_only(part)) as copy:
            check_database(copy, target, all_pages=True)
            runs, records = copy.execute(_COUNTS).fetchone()
    except sqlite3.Error as error:
        raise to_journal_error(error, target) from error
    return JournalCopy(target, runs, records)


def _storage_error(target: str, error: OSError) -> JournalStorageError:
    if error.errno == errno.ENOSPC:
        return JournalStorageError(target, "the disk is full", fix="Free some space")
    return JournalStorageError(
        target, f"cannot be written: {error.strerror}", fix="Check that its folder can be written"
    )
