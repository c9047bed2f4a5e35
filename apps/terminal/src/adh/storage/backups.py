"""Backups: copies of files as they were before they were written or deleted, kept for 30 days.

A copy stands below a folder of its own that is named by the time, under the path of its file:
`backups/20260314T150926Z-000/project/notes.txt`. This module must never overwrite a copy.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from adh.storage.path_steps import open_parent, open_regular_file
from adh.storage.private_files import FILE_MODE, FOLDER_MODE, make_private_folder, write_all
from adh.storage.replaced_files import read_blocks
from adh.storage.storage_errors import StorageError, explain_os_error

KEPT_DAYS = 30
_NAME = re.compile(r"(\d{8}T\d{6}Z)-\d{3,}")
_STAMP = "%Y%m%dT%H%M%SZ"


class BackupError(StorageError):
    """A copy cannot be made, so the file must not be changed."""


def _read_clock() -> datetime:
    return datetime.now(UTC)


class Backups:
    """The copies of files.

    Args:
        folder: where they are.
        now: the clock.
    """

    def __init__(self, folder: Path, now: Callable[[], datetime] = _read_clock) -> None:
        self._folder = folder
        self._now = now

    def save(self, path: str | Path) -> Path:
        """Copy a file, and return where the copy is once it is on disk.

        Args:
            path: the absolute path of the file, without links.

        Raises:
            BackupError: the file cannot be read, or the copy cannot be written.
        """
        source = str(path)
        try:
            with open_parent(source) as (folder, name):
                descriptor = open_regular_file(folder, name, source)
            try:
                return self._copy(descriptor, source)
            finally:
                os.close(descriptor)
        except StorageError as error:
            raise BackupError(error.path, error.problem, error.fix) from error
        except OSError as error:
            problem, fix = explain_os_error(error)
            raise BackupError(source, f"cannot be copied: the copy {problem}", fix) from error

    def _copy(self, descriptor: int, source: str) -> Path:
        place = self._make_folder()
        copy = place / source.lstrip("/")
        try:
            copy.parent.mkdir(mode=FOLDER_MODE, parents=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            target = os.open(copy, flags, FILE_MODE)
            try:
                for block in read_blocks(descriptor):
                    write_all(target, block)
                os.fsync(target)
            finally:
                os.close(target)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
        return copy

    def _make_folder(self) -> Path:
        """Create the folder of one copy. Two copies within a second have two numbers."""
        make_private_folder(self._folder)
        stamp = self._now().astimezone(UTC).strftime(_STAMP)
        number = 0
        while True:
            place = self._folder / f"{stamp}-{number:03}"
            try:
                place.mkdir(mode=FOLDER_MODE)
            except FileExistsError:
                number += 1
            else:
                return place

    def prune(self, now: datetime | None = None) -> int:
        """Delete the copies that are older than 30 days, and return how many.

        A clock that jumps ahead deletes no more than it should: age counts at most until 30 days after
        the newest copy.

        Args:
            now: the time; None for the clock's.

        Raises:
            BackupError: a copy cannot be deleted.
        """
        stamps = self._list_stamps()
        if not stamps:
            return 0
        kept = timedelta(days=KEPT_DAYS)
        latest = min(now or self._now(), max(stamps.values()) + kept)
        old = [name for name, made in stamps.items() if made < latest - kept]
        for name in old:
            try:
                shutil.rmtree(self._folder / name)
            except FileNotFoundError:
                continue  # another instance was faster
            except OSError as error:
                raise BackupError(self._folder / name, *explain_os_error(error)) from error
        return len(old)

    def _list_stamps(self) -> dict[str, datetime]:
        try:
            names = os.listdir(self._folder)  # noqa: PTH208  # REASON: names alone
        except OSError:
            return {}
        found: dict[str, datetime] = {}
        for name in sorted(names):
            match = _NAME.fullmatch(name)
            if match is not None:
                found[name] = datetime.strptime(match[1], _STAMP).replace(tzinfo=UTC)
        return found
