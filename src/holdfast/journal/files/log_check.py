"""Checks all files of a SQLite journal before it is opened, without changing them.

When SQLite opens or closes a file, it copies the log beside it into the file, even if the log
belongs to another file. Therefore no file is opened for writing before this check. A file without a
log is opened read-only, and a log that may belong to another file is applied to a copy: in a folder
beside the journal, which only the owner can read and which is always removed afterwards.
"""

from __future__ import annotations

import errno
import shutil
import sqlite3
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import msgspec

from holdfast.journal.files.file_check import (
    RESTORE,
    check_database,
    check_header,
    check_owner,
    connect_copy,
    connect_read_only,
    is_empty,
    read_identity,
    read_number,
)
from holdfast.journal.files.file_lock import busy_error
from holdfast.journal.files.log_file import (
    LOG,
    ROLLBACK,
    find_commits,
    is_blank,
    is_noted,
    read_header,
    read_note,
    size_of,
)
from holdfast.journal.files.sqlite_schema import APPLICATION_ID
from holdfast.journal.journal_errors import (
    JournalCorruptError,
    JournalError,
    JournalStorageError,
    JournalVersionError,
)

if sys.platform != "win32":
    import fcntl

_PAUSE = 0.01  # seconds between two checks whether another process has the file open
_SQLITE_LOCKS = (0x40000000, 512)  # the bytes that SQLite locks


def check_left_alone(path: str) -> None:
    """Refuse a missing or empty file with a log beside it: SQLite would delete the log.

    Raises:
        JournalCorruptError: there is such a log.
    """
    if size_of(path):
        return
    for ending in (LOG, ROLLBACK):
        if size_of(path + ending) and not (ending == ROLLBACK and _is_of_new_file(path)):
            problem = "is empty" if Path(path).exists() else "is missing"
            raise JournalCorruptError(path, f"{problem}, but its {ending} file is not", fix=RESTORE)


def _is_of_new_file(path: str) -> bool:
    # The header contains the number of pages: 0 if the creation of the file was interrupted.
    with Path(path + ROLLBACK).open("rb") as file:
        return not any(file.read(20)[16:])


def check_files(path: str, wait: float) -> None:
    """Check that a journal may be opened for writing; change nothing.

    Args:
        path: a file that this process has locked.
        wait: seconds to wait for another program that has it open.

    Raises:
        JournalError: it must not be opened for writing.
        sqlite3.Error: it is damaged.
    """
    _wait_for_others(path, wait)
    remove_leftover(path)
    if not size_of(path):
        return
    check_header(path)
    if size_of(path + LOG) == size_of(path + ROLLBACK) == 0:
        _check_alone(path)
        return
    if not size_of(path + ROLLBACK) and is_noted(path) and _is_sound_alone(path):
        with suppress(sqlite3.DatabaseError):  # a part of the schema is not at the beginning
            with copied_files(path, pages=False) as copy, closing(connect_copy(copy)) as connection:
                _check_log_is_whole(connection, path)
            return
    with copied_files(path, pages=True) as copy:
        _check_copy(copy, path)


def _wait_for_others(path: str, wait: float) -> None:
    """Wait until no other program writes to the file with SQLite; journals use `FileLock`.

    A program that only reads is no obstacle.
    """
    if sys.platform == "win32":
        return
    deadline = time.monotonic() + wait
    start, length = _SQLITE_LOCKS
    while True:
        with Path(path).open("r+b", buffering=0) as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB, length, start)
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EAGAIN):
                    return  # locks are not supported there; SQLite reports the error
            else:
                return
        left = deadline - time.monotonic()
        if left <= 0:
            raise busy_error(path)
        time.sleep(min(_PAUSE, left))


def _check_alone(path: str) -> None:
    """Check the main file alone; a record is checked when it is read."""
    with closing(connect_read_only(path)) as connection:
        check_database(connection, path, all_pages=False)


def _is_sound_alone(path: str) -> bool:
    try:
        _check_alone(path)
    except (JournalError, sqlite3.Error):
        return False
    return True


def _check_copy(copy: str, path: str) -> None:
    with closing(connect_copy(copy)) as connection:
        try:
            check_database(connection, path, all_pages=True)
        except (JournalError, sqlite3.DatabaseError) as error:
            # If the file is intact without the log, the log belongs to another file, unless a newer
            # Holdfast wrote both.
            if _is_damage(error, connection) and _is_sound_alone(path):
                raise _foreign_log(path) from error
            raise
        _check_log_is_whole(connection, path)
        with closing(connect_read_only(path)) as alone:
            if not _descends(connection, alone, path):
                raise _foreign_log(path)


def _is_damage(error: Exception, connection: sqlite3.Connection) -> bool:
    if isinstance(error, JournalVersionError):
        return read_number(connection, "PRAGMA application_id") != APPLICATION_ID
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _check_log_is_whole(connection: sqlite3.Connection, path: str) -> None:
    """Refuse a log that SQLite would read only in part; it would then overwrite the rest.

    Args:
        connection: a connection to a copy with the log.
        path: the journal.
    """
    header = read_header(path + LOG)
    if header is None:
        if is_blank(path + LOG):
            return
        raise _damaged_log(path)
    _, frames, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    # A killed process leaves at most one incomplete transaction, the last one.
    if sum(number > frames for number in find_commits(path + LOG, header)) > 1:
        raise _damaged_log(path)


def _descends(after: sqlite3.Connection, before: sqlite3.Connection, path: str) -> bool:
    """Whether the state with the log is a later state than that of the main file alone.

    Args:
        after: a connection to a copy with the log, which is intact.
        before: a connection to the main file alone. It may be damaged if a process was killed while
            it copied the log into the file. Then the readable part is of an earlier state.
        path: the journal.

    Raises:
        JournalError: the main file is of another program.
    """
    now = read_identity(after)
    try:
        check_owner(before, path)
        if is_empty(before):
            return True
        then = read_identity(before)
    except (sqlite3.DatabaseError, msgspec.ValidationError):
        note = read_note(path)
        return note is None or now is None or note.journal == now.journal
    return (
        now is not None
        and then is not None
        and now.journal == then.journal
        and then.log in (now.log, now.base)
        and now.last_id >= then.last_id
        and now.deletions >= then.deletions
    )


def _foreign_log(path: str) -> JournalCorruptError:
    return JournalCorruptError(
        path,
        f"has a log, {path}{LOG}, that belongs to another database or another state of this one",
        fix="Restore the right log, or move that file away to open the journal without a log",
    )


def _damaged_log(path: str) -> JournalCorruptError:
    return JournalCorruptError(path, f"is damaged: part of {path}{LOG} cannot be read", fix=RESTORE)


_BEGINNING = 1_000_000
"""The first bytes of a journal: SQLite needs the pages of the schema, which lie there in a new file."""

_COPY = "copy"
_COPIES = (_COPY, _COPY + LOG, _COPY + ROLLBACK, _COPY + "-shm")


@contextmanager
def copied_files(path: str, *, pages: bool) -> Iterator[str]:
    """Copy a journal and its logs to a folder beside it; remove the folder at the end.

    Args:
        path: the journal.
        pages: whether to copy all pages; otherwise only those at the beginning.

    Raises:
        JournalStorageError: the copy cannot be made, such as on a full disk.
    """
    folder = _folder_of(path)
    logs = [ending for ending in (LOG, ROLLBACK) if size_of(path + ending)]
    needed = (size_of(path) if pages else 0) + 2 * sum(size_of(path + ending) for ending in logs)
    try:
        if shutil.disk_usage(folder.parent).free < needed:
            raise OSError(errno.ENOSPC, "no room")
        folder.mkdir(0o700)
        try:
            copy = folder / _COPY
            _copy_file(path, copy, pages=pages)
            for ending in logs:
                shutil.copyfile(path + ending, str(copy) + ending)
            yield str(copy)
        finally:
            _remove_folder(folder)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            problem = (
                f"has a log, and the disk has no room for a copy of {needed} bytes to check it"
            )
            raise JournalStorageError(
                path, problem, fix="Free some space, and open it again"
            ) from error
        problem = f"has a log that cannot be checked on a copy in {folder}: {error.strerror}"
        raise JournalStorageError(
            path, problem, fix="Check that this user can create that folder"
        ) from error


def _copy_file(path: str, copy: Path, *, pages: bool) -> None:
    if pages:
        shutil.copyfile(path, copy)
        return
    with Path(path).open("rb") as file, copy.open("xb") as target:
        target.write(file.read(_BEGINNING))
        target.truncate(size_of(path))  # a sparse file: it needs no space


def _folder_of(path: str) -> Path:
    return Path(path).with_name(f".{Path(path).name}-check")


def remove_leftover(path: str) -> None:
    """Remove the copies that a killed process left, and nothing else.

    Args:
        path: the journal.
    """
    folder = _folder_of(path)
    try:
        if stat.S_ISDIR(folder.lstat().st_mode):
            _remove_folder(folder)
    except OSError:
        return


def _remove_folder(folder: Path) -> None:
    for name in _COPIES:
        (folder / name).unlink(missing_ok=True)
    folder.rmdir()
