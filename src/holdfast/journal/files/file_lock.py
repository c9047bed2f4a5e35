"""The lock of a SQLite journal: only one process has the file open.

SQLite's own POSIX record locks are not sufficient, because the system drops them when the process
closes any descriptor of the file, for example after a copy. Therefore the process locks a file
beside the journal, `<journal>.lock`, with a lock that belongs to one open descriptor: `flock` on
Linux and macOS, `msvcrt.locking` on Windows. On Linux it also locks one byte of the journal itself
that SQLite does not use, so that the lock also holds for hard links and renamed files. Linux is
tested; macOS and Windows are not. Other systems are refused.

The lock file is never deleted: a process that waits for a deleted file would lock a file that no
other process finds. It contains the id and start time of the owner, for error messages alone: the
record is not the lock, and is used only if a process with that id and start time is running. A forked
child does not share the lock.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
import sys
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from holdfast.journal.journal_errors import JournalBusyError, JournalError, JournalStorageError

_MARK = "holdfast-journal-lock"
_BEGINNING = b'{"type":"' + _MARK.encode()


class LockOwner(msgspec.Struct, frozen=True, tag=_MARK):
    """A process that has a journal open.

    Args:
        pid: its id.
        host: the machine or container that it runs on.
        started: its start time in UTC; empty on systems other than Linux.
        ticks: its start time in clock ticks since the system started, independent of the clock.
    """

    pid: int
    host: str = ""
    started: str = ""
    ticks: int = 0

    def __str__(self) -> str:
        place = f" on {self.host}" if self.host != socket.gethostname() else ""
        return f"process {self.pid}{place}" + (f", started {self.started}" if self.started else "")

    def is_this_process(self) -> bool:
        """Whether this is the calling process."""
        return self.pid == os.getpid() and self.host == socket.gethostname() and self.may_run()

    def may_run(self) -> bool:
        """Whether the process may still be running."""
        if self.host != socket.gethostname() or not self.ticks:
            return True
        return _start_ticks(self.pid) == self.ticks


def this_process() -> LockOwner:
    """Return the record of the calling process."""
    pid = os.getpid()
    ticks = _start_ticks(pid)
    started = ""
    if ticks and sys.platform == "linux":
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
        started = f"{datetime.fromtimestamp(time.time() - age, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return LockOwner(pid, socket.gethostname(), started, ticks)


def encode_owner(owner: LockOwner) -> bytes:
    """Encode the record as a line of text."""
    return msgspec.json.encode(owner) + b"\n"


def decode_owner(data: bytes) -> LockOwner | None:
    """Decode the owner in a lock file; None if there is none or its process has ended."""
    try:
        owner = msgspec.json.decode(data, type=LockOwner)
    except (msgspec.MsgspecError, ValueError):
        return None  # empty, or partly written
    return owner if owner.may_run() else None


def is_lock_file(data: bytes) -> bool:
    """Whether a file with this content may be overwritten as a lock file."""
    # A crash may leave a partial record, or zeros.
    return _BEGINNING.startswith(data[: len(_BEGINNING)]) or not data.strip(b"\0")


def _start_ticks(pid: int) -> int:
    """Return the start time of a process in clock ticks since the system started; 0 if unknown."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        return int(line.rpartition(")")[2].split()[19])  # the name before it may contain anything
    except (OSError, ValueError, IndexError):
        return 0


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
