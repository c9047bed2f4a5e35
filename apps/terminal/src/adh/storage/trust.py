"""Trusted folders: projects whose instructions, agents and skills the person allowed once.

A folder is recognized by its resolved path, its device and its inode, so a folder that was moved or
replaced is asked about again. (A disk may give the inode of a deleted folder to a new one.) This module
must never trust a folder by itself.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from adh.storage.private_files import read_private_file, replace_private_file
from adh.storage.storage_errors import StorageError, explain_os_error

_MOST_BYTES = 10_000_000


class TrustedFolder(Struct, frozen=True):
    """A folder that the person trusts.

    Args:
        path: its resolved path.
        device: the number of its disk.
        inode: its number there.
    """

    path: str
    device: int
    inode: int


class TrustedFolders:
    """The folders that the person trusts.

    Args:
        path: the file that lists them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def is_trusted(self, folder: Path) -> bool:
        """Whether the person trusts this very folder. A folder that does not exist is not trusted.

        Raises:
            StorageError: the list cannot be read.
        """
        try:
            return identify_folder(folder) in self._load()
        except OSError:
            return False

    def trust(self, folder: Path) -> None:
        """Add a folder, once the person said yes.

        Raises:
            StorageError: the folder does not exist, or the list cannot be written.
        """
        self._save(self._identify(folder), add=True)

    def forget(self, folder: Path) -> None:
        """Take the trust in a folder back. Raises as `trust`."""
        self._save(self._identify(folder), add=False)

    def _identify(self, folder: Path) -> TrustedFolder:
        try:
            return identify_folder(folder)
        except OSError as error:
            raise StorageError(folder, *explain_os_error(error)) from error

    def _save(self, wanted: TrustedFolder, *, add: bool) -> None:
        others = [known for known in self._load() if known.path != wanted.path]
        content = msgspec.json.encode([*others, wanted] if add else others)
        replace_private_file(self._path, msgspec.json.format(content, indent=2) + b"\n")

    def _load(self) -> list[TrustedFolder]:
        content = read_private_file(self._path, _MOST_BYTES)
        if content is None:
            return []
        try:
            return msgspec.json.decode(content, type=list[TrustedFolder])
        except msgspec.DecodeError:
            fix = "Delete it; each project is asked about again"
            raise StorageError(self._path, "is not a list of trusted folders", fix) from None


def identify_folder(folder: Path) -> TrustedFolder:
    """Return the mark by which a folder is recognized. Raises OSError."""
    resolved = Path(os.path.realpath(folder))
    found = resolved.stat()
    return TrustedFolder(str(resolved), found.st_dev, found.st_ino)
