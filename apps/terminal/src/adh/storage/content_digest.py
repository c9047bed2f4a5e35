"""The digest of a file's content, by which an approval and an undo recognize it.

It must never follow a symbolic link.
"""

from __future__ import annotations

import hashlib
import os

from adh.storage.path_steps import open_parent, open_regular_file

ABSENT = "absent"
"""The digest of a file that does not exist."""

_BLOCK = 1 << 20


def digest_bytes(content: bytes) -> str:
    """Return the digest of a content.

    >>> digest_bytes(b"")[:8]
    'e3b0c442'
    """
    return hashlib.sha256(content).hexdigest()


def digest_descriptor(descriptor: int) -> str:
    """Return the digest of an open file, from its beginning."""
    digest = hashlib.sha256()
    os.lseek(descriptor, 0, os.SEEK_SET)
    while block := os.read(descriptor, _BLOCK):
        digest.update(block)
    return digest.hexdigest()


def digest_entry(folder: int, name: str, path: str) -> str:
    """Return the digest of a file of a folder, or ABSENT.

    Args:
        folder: a descriptor of the folder.
        name: the name of the file.
        path: its whole path, for errors.

    Raises:
        LinkInPathError: it is a symbolic link.
        StorageError: it is not a regular file.
        OSError: it cannot be read.
    """
    try:
        descriptor = open_regular_file(folder, name, path)
    except FileNotFoundError:
        return ABSENT
    try:
        return digest_descriptor(descriptor)
    finally:
        os.close(descriptor)


def digest_path(path: str) -> str:
    """Return the digest of the file at an absolute, resolved path, or ABSENT. It raises as `digest_entry`."""
    try:
        with open_parent(path) as (folder, name):
            return digest_entry(folder, name, path)
    except FileNotFoundError:
        return ABSENT
