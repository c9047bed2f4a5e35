"""Files of JSON lines to which several processes append. A line is on disk when `append_line` returns.

A crash can leave a part of a line at the end; the next line begins on a line of its own, and a reader
skips the part. This module must never change a line that is there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from adh.storage.private_files import FILE_MODE, make_private_folder, sync_folder
from adh.storage.storage_errors import StorageError, explain_os_error

_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def append_line(path: Path, line: bytes) -> None:
    """Append one line with a single write, and wait until it is on disk.

    Args:
        path: the file; it is created, with its folder.
        line: the line, without an end of line in it.

    Raises:
        StorageError: the line is not on disk; a part of it may be.
    """
    make_private_folder(path.parent)
    try:
        is_new = not path.exists()
        descriptor = os.open(path, _APPEND, FILE_MODE)
        try:
            _append(descriptor, path, line)
        finally:
            os.close(descriptor)
        if is_new:
            sync_folder(path.parent)
    except OSError as error:
        raise StorageError(path, *explain_os_error(error)) from error


def _append(descriptor: int, path: Path, line: bytes) -> None:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise StorageError(path, "is not a regular file", "Move it away")
    if stat.S_IMODE(found.st_mode) & 0o077:
        os.fchmod(descriptor, FILE_MODE)
    is_torn = found.st_size > 0 and os.pread(descriptor, 1, found.st_size - 1) != b"\n"
    whole = (b"\n" if is_torn else b"") + line + b"\n"
    written = os.write(descriptor, whole)
    if written < len(whole):
        # The rest says why it did not fit; it is not part of a line if it does fit now.
        os.write(descriptor, b"\n")
        raise StorageError(path, "took only a part of a line", "Free some space and try again")
    os.fsync(descriptor)


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield each line that is not empty, with its number from 1; nothing if there is no file.

    Raises:
        StorageError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(path, *explain_os_error(error)) from error
