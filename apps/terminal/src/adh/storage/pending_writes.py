"""Temporary files that are about to replace files of a project, so that a later start removes those of a crash.

Each has a note in a folder of its own, on disk before the temporary file exists. This module must never
remove a file that no note names.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from adh.storage.path_steps import open_parent
from adh.storage.private_files import read_private_file, replace_private_file
from adh.storage.process_notes import describe_own_process, is_process_running
from adh.storage.storage_errors import StorageError

_LONGEST_NOTE = 10_000


class PendingWrites:
    """The temporary files of writes in progress.

    Args:
        folder: where the notes are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def reserve_name(self, folder: str) -> Iterator[str]:
        """Yield the name of a temporary file in a folder of the project; the note goes when the block ends.

        Args:
            folder: the absolute path of the folder.

        Raises:
            StorageError: the note cannot be written.
        """
        token = secrets.token_hex(8)
        name = f".adh-{token}.new"
        note = self._folder / f"{token}.json"
        content = {"path": str(Path(folder) / name), **describe_own_process()}
        replace_private_file(note, json.dumps(content).encode())
        try:
            yield name
        finally:
            with suppress(OSError):
                note.unlink()

    def remove_leftovers(self) -> tuple[str, ...]:
        """Remove the temporary files of processes that have ended, and return their paths."""
        removed: list[str] = []
        try:
            notes = sorted(self._folder.glob("*.json"))
        except OSError:
            return ()
        for note in notes:
            with suppress(OSError, StorageError, ValueError, KeyError):
                content = json.loads(read_private_file(note, _LONGEST_NOTE) or b"")
                if is_process_running(content):
                    continue
                if _remove_file(str(content["path"]), note.stem):
                    removed.append(str(content["path"]))
                note.unlink()
        return tuple(removed)


def _remove_file(path: str, token: str) -> bool:
    """Remove a temporary file of ours; whether it was there."""
    if Path(path).name != f".adh-{token}.new":
        return False
    try:
        with open_parent(path) as (folder, name):
            os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True
