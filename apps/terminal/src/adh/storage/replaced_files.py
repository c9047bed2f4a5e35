"""Replaces and removes files of a project, whole or not at all, and only if they are as they were judged.

It must never follow a symbolic link, and must never write before the change is recorded.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress

from msgspec import Struct

from adh.storage.content_digest import ABSENT, digest_entry
from adh.storage.private_files import write_all
from adh.storage.storage_errors import ChangedContentError

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Entry(Struct, frozen=True, kw_only=True):
    """An entry of an open folder.

    Args:
        folder: a descriptor of the folder.
        name: its name there.
        path: its whole path, for errors.
    """

    folder: int
    name: str
    path: str


def check_content(entry: Entry, expected: str | None) -> None:
    """Check that a file is as it was when the change was planned.

    Args:
        entry: the file.
        expected: its digest, or "absent"; None for any content.

    Raises:
        ChangedContentError: it is not.
    """
    if expected is not None and digest_entry(entry.folder, entry.name, entry.path) != expected:
        problem = (
            "exists now" if expected == ABSENT else "has changed since this change was planned"
        )
        raise ChangedContentError(entry.path, problem, "Read it again, then decide anew")


def replace_file(
    entry: Entry, content: Iterable[bytes], temporary: str, *, expected: str | None, mode: int
) -> None:
    """Write a file under a temporary name and give it its name: a reader sees all of it or the old one.

    Args:
        entry: the file, which may exist.
        content: its new content, in blocks.
        temporary: the name meanwhile, in the same folder.
        expected: the digest that the present file must have, or "absent"; None for any.
        mode: the permission bits of the new file.

    Raises:
        ChangedContentError: the present file is another one than expected.
        LinkInPathError: the entry is a symbolic link.
        OSError: it cannot be written; the old content is still there.
    """
    check_content(entry, expected)
    descriptor = os.open(temporary, _CREATE, 0o600, dir_fd=entry.folder)
    try:
        try:
            for block in content:
                write_all(descriptor, block)
            _keep_owner(entry, descriptor)
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        # Again: writing takes time.
        check_content(entry, expected)
        _give_name(entry, temporary, expected)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=entry.folder)
        raise
    sync_open_folder(entry.folder)


def _keep_owner(entry: Entry, descriptor: int) -> None:
    """Give the new file the owner and group of the present one, as far as the system allows it."""
    with suppress(FileNotFoundError, PermissionError):
        found = os.stat(entry.name, dir_fd=entry.folder, follow_symlinks=False)
        made = os.fstat(descriptor)
        if (found.st_uid, found.st_gid) != (made.st_uid, made.st_gid):
            os.fchown(descriptor, found.st_uid, found.st_gid)


def _give_name(entry: Entry, temporary: str, expected: str | None) -> None:
    folder = entry.folder
    if expected == ABSENT:
        try:
            # Unlike a rename, a link fails if the name exists by now.
            os.link(temporary, entry.name, src_dir_fd=folder, dst_dir_fd=folder)
        except FileExistsError:
            raise ChangedContentError(
                entry.path, "exists now", "Read it again, then decide anew"
            ) from None
        except OSError:
            pass  # a disk without hard links
        else:
            os.unlink(temporary, dir_fd=folder)
            return
    os.rename(temporary, entry.name, src_dir_fd=folder, dst_dir_fd=folder)


def remove_file(entry: Entry, *, expected: str | None) -> None:
    """Remove a file.

    Args:
        entry: the file.
        expected: the digest that it must have; None for any.

    Raises:
        ChangedContentError: it is another one than expected.
        LinkInPathError: the entry is a symbolic link.
        OSError: it cannot be removed.
    """
    check_content(entry, expected)
    os.unlink(entry.name, dir_fd=entry.folder)
    sync_open_folder(entry.folder)


def sync_open_folder(folder: int) -> None:
    """Make the names of an open folder survive a loss of power; a folder that cannot be read is left."""
    try:
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_mode(entry: Entry) -> int | None:
    """Return the permission bits of a file; None if it does not exist."""
    try:
        found = os.stat(entry.name, dir_fd=entry.folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return stat.S_IMODE(found.st_mode)


def read_blocks(descriptor: int, size: int = 1 << 20) -> Iterable[bytes]:
    """Yield the content of an open file from its beginning, in blocks."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    while block := os.read(descriptor, size):
        yield block
