"""The write-ahead log (WAL) of a SQLite journal: reads its header, and knows which log is its own.

After SQLite has copied the whole log into the file, it restarts the log with new salts (random
numbers in its header). The first transaction of each log writes a new name for the log into the
table `identity`, together with the name of the log before it, which the file then contains
completely. When the journal is closed, the name in the file begins with `closed-`: without a log
beside it, a file with another name has lost its last records. A small file, `<journal>-wal.json`, notes the salts of the log and the state of the
file, so that the log need not be read to identify it. The note only saves time: without a current
note, the log is applied to a copy.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import struct
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
from msgspec import Struct

LOG = "-wal"
NOTE = "-wal.json"
ROLLBACK = "-journal"
FRAMES_TO_FOLD = 1000
"""The length of a log, in pages, at which it is copied into the file; the default of SQLite."""

CLOSED = "closed-"
"""How the name of the log in a file begins while the file needs no log: after it was closed."""

_HEADER = 32
_FRAME = 24
_FORMAT = 3007000
_MAGIC = (0x377F0682, 0x377F0683)
_MOST_OF_NOTE = 4096
_LENGTH_OF_NOTE = (
    256  # bytes, filled up with spaces; a note is shorter, so each replaces all of the last
)


class LogHeader(NamedTuple):
    """The page size and the salts in the header of a log."""

    page_size: int
    salts: bytes


class LogNote(Struct, frozen=True):
    """The note about a log, in the small file beside it."""

    journal: str
    salts: str
    file: tuple[int, int, int]
    """Inode, size and modification time of the main file; it does not change while the log grows."""


def size_of(path: str) -> int:
    """Return the size of a file; 0 if it does not exist."""
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def parse_header(data: bytes) -> LogHeader | None:
    """Parse the header from the first bytes of a log; return None if it is invalid."""
    if len(data) < _HEADER:
        return None
    magic, version, page_size = struct.unpack(">III", data[:12])
    if magic not in _MAGIC or version != _FORMAT:
        return None
    if not 512 <= page_size <= 65536 or page_size & (page_size - 1):
        return None
    words = struct.unpack((">" if magic & 1 else "<") + "6I", data[:24])
    first = second = 0
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    if struct.pack(">II", first, second) != data[24:32]:
        return None
    return LogHeader(page_size, data[16:24])


def read_header(path: str) -> LogHeader | None:
    """Read the header of the log at a path; return None if it is missing or invalid."""
    try:
        with Path(path).open("rb") as file:
            return parse_header(file.read(_HEADER))
    except OSError:
        return None


def find_commits(path: str, header: LogHeader) -> list[int]:
    """Return the numbers, from 1, of the frames that end a transaction.

    Frames are recognised by their salts; their checksums are not verified.

    Args:
        path: the log.
        header: its header.
    """
    commits = []
    with Path(path).open("rb", buffering=0) as file:
        offset, number = _HEADER, 0
        while len(frame := _read_at(file, offset, _FRAME)) == _FRAME:
            number += 1
            if frame[8:16] == header.salts and any(frame[4:8]):
                commits.append(number)
            offset += _FRAME + header.page_size
    return commits


def is_blank(path: str) -> bool:
    """Whether a log is empty: shorter than a header, or only zeros, as after a power failure."""
    if size_of(path) < _HEADER:
        return True
    with Path(path).open("rb") as file:
        return not any(any(block) for block in iter(lambda: file.read(1 << 16), b""))


def is_noted(path: str) -> bool:
    """Whether the note confirms that the log belongs to the file in its current state.

    Args:
        path: the journal.
    """
    note, header = read_note(path), read_header(path + LOG)
    if note is None or header is None or note.salts != header.salts.hex():
        return False
    return note.file == _state_of(path)


def read_note(path: str) -> LogNote | None:
    """Read the note of a journal; return None if it is missing or invalid."""
    place = Path(path + NOTE)
    try:
        if not stat.S_ISREG(place.lstat().st_mode):
            return None
        with place.open("rb") as file:
            return msgspec.json.decode(file.read(_MOST_OF_NOTE), type=LogNote)
    except (OSError, msgspec.DecodeError, ValueError, RecursionError):
        return None


def _state_of(path: str) -> tuple[int, int, int]:
    found = Path(path).stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _read_at(file: BinaryIO, offset: int, count: int) -> bytes:
    file.seek(offset)
    return file.read(count)


class LogKeeper:
    """Names each log of an open journal, notes it, and copies it into the file when it is long.

    Create it before the file is opened. An error here never fails a committed transaction: without a
    note, the next opening only takes longer.

    Args:
        path: the journal.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._journal = ""
        self._found_log = size_of(path + LOG) > 0
        self._log: BinaryIO | None = None
        self._header = b""
        self._note_file: int | None = None
        self._is_folded = False
        self._begins_log = False
        self._is_marked = False

    def start(self, connection: sqlite3.Connection) -> None:
        """Start after the file was opened: copy the log of a killed process into the file."""
        try:
            statement = "SELECT journal, log FROM identity"
            self._journal, log = connection.execute(statement).fetchone()
            self._is_marked = not log.startswith(CLOSED)
            if self._found_log:
                self._is_folded = _fold(connection, "TRUNCATE")
            elif size_of(self._path + LOG):  # the statements of the schema wrote it
                self._is_folded = _fold(connection, "PASSIVE")
        except (OSError, sqlite3.Error):
            return

    def mark_open(self, connection: sqlite3.Connection) -> bool:
        """Before the first transaction, note in the file itself that it needs its log from now on.

        So a copy of the file without the log is recognised.

        Returns:
            Whether the file may have been written to.
        """
        if self._is_marked:
            return False
        self._rename_log(connection, "")
        self._is_marked = True
        with suppress(sqlite3.Error):
            self._is_folded = _fold(connection, "PASSIVE")
        return True

    def mark_closed(self, connection: sqlite3.Connection) -> None:
        """Note that the file needs no log; SQLite copies the log into the file afterwards."""
        if self._is_marked:
            with suppress(sqlite3.Error):
                self._rename_log(connection, CLOSED)

    def _rename_log(self, connection: sqlite3.Connection, beginning: str) -> None:
        connection.execute(
            "UPDATE identity SET base = log, log = ? || lower(hex(randomblob(16)))", (beginning,)
        )

    def begin(self, connection: sqlite3.Connection) -> None:
        """Name the log, if this transaction begins a new one."""
        self._begins_log = self._is_folded or self._is_empty()
        if self._begins_log:
            self._rename_log(connection, "")

    def finish(self, connection: sqlite3.Connection) -> bool:
        """After a commit, note a new log and copy a long one into the file.

        Returns:
            Whether the file may have been written to.
        """
        begins, self._begins_log = self._begins_log, False
        if begins:
            self._is_folded = False
            self._header = b""
        try:
            if begins:
                self._note()
            is_long = self._is_long()
        except OSError:
            return False
        if is_long:
            with suppress(sqlite3.Error):
                self._is_folded = _fold(connection, "PASSIVE")
        return is_long

    def truncate(self, connection: sqlite3.Connection) -> bool:
        """Copy the log into the file and empty it, unless a process that reads needs it.

        Nobody waits for that process: the caller tries again later.
        """
        (timeout,) = connection.execute("PRAGMA busy_timeout").fetchone()
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            statement = "PRAGMA wal_checkpoint(TRUNCATE)"
            busy, frames, copied = connection.execute(statement).fetchone()
        finally:
            connection.execute(f"PRAGMA busy_timeout = {timeout}")
        self._header = b""
        # Also if the log was only copied: the next transaction then begins a new log.
        self._is_folded = self._is_folded or frames == copied
        return not busy

    def close(self) -> None:
        """Close the log, before SQLite deletes it, and the note."""
        if self._log is not None:
            self._log.close()
        if self._note_file is not None:
            os.close(self._note_file)

    def remove_old_note(self) -> None:
        """Remove the note if SQLite has deleted the log; a process that reads keeps the log."""
        if size_of(self._path + LOG):
            return
        for name in (NOTE, NOTE + ".new"):
            try:
                Path(self._path + name).unlink(missing_ok=True)
            except OSError:
                continue

    def _is_empty(self) -> bool:
        if self._header:
            return False
        if self._log is None:
            return not size_of(self._path + LOG)
        return os.fstat(self._log.fileno()).st_size == 0

    def _read_header(self) -> bytes:
        """Return the beginning of the log; it is read once for each log."""
        if self._log is None:
            self._log = Path(self._path + LOG).open("rb", buffering=0)  # noqa: SIM115  # REASON: it stays open
        if len(self._header) < _HEADER:
            self._header = _read_at(self._log, 0, _HEADER)
        return self._header

    def _is_long(self) -> bool:
        header = self._read_header()
        if self._log is None or len(header) < _HEADER:
            return False
        page_size = int.from_bytes(header[8:12], "big")
        offset = _HEADER + (FRAMES_TO_FOLD - 1) * (_FRAME + page_size)
        # The bytes after the end of this log are of an older log with other salts.
        return _read_at(self._log, offset, _FRAME)[8:16] == header[16:24]

    def _note(self) -> None:
        header = parse_header(self._read_header())
        if header is None:
            return
        note = LogNote(self._journal, header.salts.hex(), _state_of(self._path))
        text = msgspec.json.encode(note).ljust(_LENGTH_OF_NOTE)
        if self._note_file is None:
            self._note_file = self._create_note(text)
        else:
            # In place, because a changed folder costs `FileWatch` more at each commit. If a process
            # is killed meanwhile, the note is invalid at worst, which costs time only.
            os.lseek(self._note_file, 0, os.SEEK_SET)
            os.write(self._note_file, text)

    def _create_note(self, text: bytes) -> int:
        flags = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
        place = self._path + NOTE + ".new"
        descriptor = os.open(place, flags | os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(descriptor, text)
        finally:
            os.close(descriptor)
        Path(place).replace(self._path + NOTE)
        return os.open(self._path + NOTE, flags | os.O_WRONLY)


def _fold(connection: sqlite3.Connection, mode: str) -> bool:
    """Copy the log into the file; return whether all of it was copied."""
    busy, frames, copied = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
    return bool(busy == 0 and frames == copied)
