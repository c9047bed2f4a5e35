"""Reads and writes the program's own files, which only their person may read.

A file is replaced whole or not at all. This module must never write into a project.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from adh.storage.storage_errors import StorageError, explain_os_error

FILE_MODE = 0o600
FOLDER_MODE = 0o700


def make_private_folder(folder: Path) -> None:
    """Create a folder and its parents, unless they exist. Only the person may enter the new ones.

    Raises:
        StorageError: it cannot be created.
    """
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        for place in reversed(missing):
            place.mkdir(mode=FOLDER_MODE, exist_ok=True)
    except OSError as error:
        raise StorageError(folder, *explain_os_error(error)) from error
    if not folder.is_dir():
        raise StorageError(folder, "is not a folder", "Move it away")


def replace_private_file(path: Path, content: bytes, *, mode: int = FILE_MODE) -> None:
    """Write a file so that a reader, and a crash, see the old content or the new one, never a part.

    Args:
        path: the file. If it is a symbolic link, as in managed dotfiles, its target is replaced.
        content: the new content.
        mode: its permission bits.

    Raises:
        StorageError: it cannot be written; the old content is still there.
    """
    target = Path(os.path.realpath(path))
    make_private_folder(target.parent)
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.new")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            write_all(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        beside.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise StorageError(path, *explain_os_error(error)) from error


def read_private_file(path: Path, most_bytes: int) -> bytes | None:
    """Return the content of a file; None if it does not exist.

    Args:
        path: the file.
        most_bytes: how long it may be.

    Raises:
        StorageError: it cannot be read, is not a regular file, or is too long.
    """
    try:
        # Without O_NONBLOCK a named pipe would be waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(path, *explain_os_error(error)) from error
    with os.fdopen(descriptor, "rb") as file:
        if not path.is_file():
            raise StorageError(path, "is not a regular file", "Move it away")
        try:
            content = file.read(most_bytes + 1)
        except OSError as error:
            raise StorageError(path, *explain_os_error(error)) from error
    if len(content) > most_bytes:
        raise StorageError(path, f"is longer than {most_bytes:,} bytes", "Shorten it")
    return content


def write_all(descriptor: int, content: bytes) -> None:
    """Write a whole content. Raises OSError."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a loss of power. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
