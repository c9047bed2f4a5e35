"""The lock of a SQLite journal: only one process has the file open.

SQLite's own POSIX record locks are not sufficient, because the system drops them when the process
closes any descriptor of the file, for example after a copy. Therefore the process locks a file
beside the journal, `<journal>.lock`, with a lock that belongs to one open descriptor: `flock` on
Linux and macOS, `msvcrt.locking` on Windows. On Linux it also locks one byte of the journal itself
that SQLite does not use, so that the lock also holds for hard links and renamed files. Linux is
tested; macOS and Windows are not. Other systems are refused.

The lock file is never deleted: a process that waits for a deleted file would lock a file that no
other process finds. It contains the id and start time of the owner. A forked child does not share
the lock.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from holdfast.journal.journal_errors import JournalBusyError, JournalError, JournalStorageError
from holdfast.journal.lock_owner import (
    LockOwner,
    decode_owner,
    encode_owner,
    is_lock_file,
    this_process,
)

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

ENDING = ".lock"

Identity = tuple[int, int]

_PAUSE = 0.01  # seconds between two attempts
_ATTEMPTS = 100  # to lock a lock file that is deleted again and again
_FREE_BYTE = 1 << 62  # SQLite locks bytes at 1 << 30
_TAKEN = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)
_MOST_OF_RECORD = 4096

# Acquired while descriptors are opened, locked or closed, and while the process forks.
_guard = threading.Lock()
_descriptors: set[int] = set()
_open_here: set[Identity] = set()
_open_before_fork: set[Identity] = set()


class FileLock:
    """The lock of this process on a journal file, until `release`.

    Args:
        path: the journal, without symbolic links.
        journal: the descriptor of the journal.
        lock: the descriptor of its lock file.

    Attributes:
        descriptor: the descriptor of the journal.
        identity: device and inode of the journal.
        lock_identity: device and inode of the lock file.
    """

    def __init__(self, path: str, journal: int, lock: int) -> None:
        self.path = path
        self.identity = identity_of(os.fstat(journal))
        self.lock_identity = identity_of(os.fstat(lock))
        self.descriptor = journal
        self._lock = lock
        self._process = os.getpid()

    def release(self) -> None:
        """Unlock the file. Close its connection first: this call also drops SQLite's locks."""
        if os.getpid() != self._process:
            return
        with _guard:
            _open_here.discard(self.identity)
            with suppress(OSError):
                os.ftruncate(self._lock, 0)  # remove the record of the owner
            # Unlock before closing: a forked child may still have the descriptors open.
            _unlock_journal(self.descriptor)
            _unlock_file(self._lock)
            _close(self.descriptor)
            _close(self._lock)


def take_lock(path: str, wait: float) -> FileLock:
    """Lock a journal for this process; create the file if it does not exist.

    Args:
        path: the journal, without symbolic links.
        wait: seconds to wait for another process.

    Raises:
        JournalError: another process has it open, or it cannot be locked.
        OSError: the journal or its lock file cannot be opened.
    """
    _check_system(path)
    deadline = time.monotonic() + wait
    while True:
        with _guard:
            _check_own(path)
            lock = _try_lock(path)
        if isinstance(lock, FileLock):
            return lock
        left = deadline - time.monotonic()
        if left <= 0:
            raise lock
        time.sleep(min(_PAUSE, left))


def identity_of(found: os.stat_result) -> Identity:
    """Return the device and inode of a file, which do not depend on its name."""
    return found.st_dev, found.st_ino


def _check_system(path: str) -> None:
    if sys.platform not in ("linux", "darwin", "win32"):
        raise JournalStorageError(
            path,
            f"cannot be locked on {sys.platform}",
            fix="Use Linux, macOS or Windows, or a PostgresJournal",
        )


def _check_own(path: str) -> None:
    """Refuse a file that this process has open, or had open before it was forked."""
    try:
        found = Path(path).stat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        # Refused here, before a lock file is created beside it.
        problem = "is a folder" if stat.S_ISDIR(found.st_mode) else "is not a regular file"
        raise JournalStorageError(path, problem, fix="Name a file")
    if identity_of(found) in _open_here:
        raise _busy_here(path)
    if identity_of(found) in _open_before_fork:
        raise JournalBusyError(
            path,
            "was open in the parent process before the fork",
            fix="Open it in one of the two processes only, after the fork",
        )


def _busy_here(path: str) -> JournalBusyError:
    return JournalBusyError(path, "is already open in this process", fix="Share one SqliteJournal")


def busy_error(path: str, owner: object = "another process") -> JournalBusyError:
    """Return the error of a file that another process has open.

    Args:
        path: the journal.
        owner: which process it is, in words.
    """
    fix = "Stop that process, use another file, or share a PostgreSQL journal"
    return JournalBusyError(path, f"is open in {owner}", fix=fix)


def _try_lock(path: str) -> FileLock | JournalBusyError:
    lock = _open_lock_file(path)
    if isinstance(lock, JournalBusyError):
        return lock
    journal = -1
    try:
        journal = _open(path)
        if not _lock_journal(journal):
            return busy_error(path, "another process, by another name or without its lock file")
        file_lock = FileLock(path, journal, lock)
        _write_record(lock)
        _open_here.add(file_lock.identity)
        lock = journal = -1
        return file_lock
    finally:
        for descriptor in (journal, lock):
            if descriptor >= 0:
                _close(descriptor)


def _open_lock_file(path: str) -> int | JournalBusyError:
    """Open and lock the lock file; return its descriptor."""
    for _ in range(_ATTEMPTS):
        lock = _open(path + ENDING)
        try:
            record = _read_record(path, lock)
            if not _lock_file(path, lock):
                return _busy_by(path, decode_owner(record))
            # If the file was deleted meanwhile, other processes would not find this lock.
            if _is_at(lock, path + ENDING):
                opened, lock = lock, -1
                return opened
        finally:
            if lock >= 0:
                _close(lock)
    return busy_error(path)


def _busy_by(path: str, owner: LockOwner | None) -> JournalBusyError:
    if owner is None:
        return busy_error(path)
    if owner.is_this_process():
        raise _busy_here(path)  # `_check_own` did not find it, because the journal was deleted
    return busy_error(path, owner)


def _open(path: str) -> int:
    # Mode 0600: conversations are private. O_NOFOLLOW: a symbolic link in place of the lock file
    # could make any file be overwritten. O_CLOEXEC: programs started by this process inherit nothing.
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0), 0o600)
    _descriptors.add(descriptor)
    return descriptor


def _close(descriptor: int) -> None:
    _descriptors.discard(descriptor)
    os.close(descriptor)


def _is_at(descriptor: int, path: str) -> bool:
    """Whether the path still leads to the open file."""
    try:
        return identity_of(os.lstat(path)) == identity_of(os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _read_record(path: str, lock: int) -> bytes:
    if not stat.S_ISREG(os.fstat(lock).st_mode):
        raise _not_ours(path)
    os.lseek(lock, 0, os.SEEK_SET)
    record = os.read(lock, _MOST_OF_RECORD)
    if not is_lock_file(record):
        raise _not_ours(path)
    return record


def _write_record(lock: int) -> None:
    with suppress(OSError):  # such as a full disk; the lock does not need the record
        os.ftruncate(lock, 0)
        os.lseek(lock, 0, os.SEEK_SET)
        os.write(lock, encode_owner(this_process()))


def _not_ours(path: str) -> JournalError:
    return JournalStorageError(
        path, f"its lock file {path}{ENDING} is another kind of file", fix="Move that file away"
    )


def _lock_file(path: str, lock: int) -> bool:
    """Lock a lock file; return False if another process has locked it."""
    try:
        if sys.platform == "win32":
            os.lseek(lock, _MOST_OF_RECORD, os.SEEK_SET)  # a locked byte cannot be read
            msvcrt.locking(lock, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise JournalStorageError(
            path,
            f"cannot be locked on its file system: {error}",
            fix="Put it on a local disk, or use a PostgresJournal",
        ) from error
    return True


def _unlock_file(lock: int) -> None:
    if sys.platform == "win32":
        os.lseek(lock, _MOST_OF_RECORD, os.SEEK_SET)
        msvcrt.locking(lock, msvcrt.LK_UNLCK, 1)
    else:
        fcntl.flock(lock, fcntl.LOCK_UN)


def _lock_journal(journal: int) -> bool:
    """Lock the journal itself under any name; return False if another process has locked it."""
    if sys.platform == "linux":
        try:
            fcntl.fcntl(journal, fcntl.F_OFD_SETLK, _request(fcntl.F_WRLCK))
        except OSError as error:
            # On a file system without these locks, the lock file must be sufficient.
            return error.errno not in _TAKEN
    return True


def _unlock_journal(journal: int) -> None:
    if sys.platform == "linux":
        with suppress(OSError):
            fcntl.fcntl(journal, fcntl.F_OFD_SETLK, _request(fcntl.F_UNLCK))


def _request(kind: int) -> bytes:
    """Return the `struct flock` of Linux for the one byte."""
    return struct.pack("hhqqi", kind, os.SEEK_SET, _FREE_BYTE, 1, 0)


def _leave_to_parent() -> None:
    """Close the descriptors in a forked child; this does not change the locks of the parent."""
    for descriptor in _descriptors:
        with suppress(OSError):
            os.close(descriptor)
    _descriptors.clear()
    _open_before_fork.update(_open_here)
    _open_here.clear()
    _guard.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_leave_to_parent
    )
