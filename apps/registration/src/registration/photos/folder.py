"""A folder as object store: written beside, flushed to the disk, and renamed.

The disk is used in threads of its own, so that a slow one delays nobody else. This module must never
show the name of a file: names may be those of children.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self, TypeVar

import msgspec

from registration.photos.object_store import (
    Kept,
    ObjectMissing,
    ObjectStoreError,
    ObjectStoreFull,
    ObjectStoreReadOnly,
)

T = TypeVar("T")

HASH_DIGITS: Final = 32
_UNFINISHED: Final = ".unfinished"
_METADATA: Final = ".json"
_BLOCK: Final = 262_144  # bytes that are written at once
_THREADS: Final = 4
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_READ_ONLY: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_MISSING: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG})


class FolderStore:
    """Objects as files of a folder, which several processes may share.

    Args:
        root: the folder; it is made when it is needed.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="registration-photos")

    def create(self) -> NewFile:
        """Return an object to write."""
        return NewFile(self)

    async def open(self, name: str) -> BinaryIO:
        """Return the content as a file. Raises ObjectStoreError."""
        path = self.locate(name)
        return await self.run(lambda: path.open("rb"))

    async def read(self, name: str) -> bytes:
        """Return the content. Raises ObjectStoreError."""
        return await self.run(self.locate(name).read_bytes)

    async def read_metadata(self, name: str) -> dict[str, str]:
        """Return the metadata of an object. Raises ObjectStoreError."""
        path = self.locate(name + _METADATA)
        try:
            return msgspec.json.decode(await self.run(path.read_bytes), type=dict[str, str])
        except msgspec.MsgspecError:
            raise ObjectMissing from None

    async def remove(self, names: Iterable[str]) -> None:
        """Remove objects with their metadata. Raises ObjectStoreError."""
        paths = [self.locate(name) for name in names]

        def work() -> None:
            for path in paths:
                path.unlink(missing_ok=True)
                path.with_name(path.name + _METADATA).unlink(missing_ok=True)
                _sync_folder(path.parent)

        await self.run(work)

    async def list_older(self, folder: str, before: float) -> tuple[str, ...]:
        """Return the names in a folder that were last written before a time."""
        root = self.locate(f"{folder}/x").parent

        def work() -> tuple[str, ...]:
            if not root.is_dir():
                return ()
            found = [entry for entry in os.scandir(root) if not entry.name.endswith(_METADATA)]
            return tuple(sorted(f"{folder}/{one.name}" for one in found if _is_older(one, before)))

        return await self.run(work)

    async def remove_unfinished(self, before: float) -> int:
        """Remove the half written files of processes that ended, and return how many there were."""

        def work() -> int:
            if not self.unfinished.is_dir():
                return 0
            old = [one for one in os.scandir(self.unfinished) if _is_older(one, before)]
            for entry in old:
                Path(entry.path).unlink(missing_ok=True)
            return len(old)

        return await self.run(work)

    async def close(self) -> None:
        """Wait for the files in progress."""
        await asyncio.to_thread(self._threads.shutdown)

    @property
    def unfinished(self) -> Path:
        """The folder of files in progress."""
        return self._root / _UNFINISHED

    def locate(self, name: str) -> Path:
        """Return the path of an object. Raises ObjectMissing if no object can have this name."""
        parts = name.split("/")
        if len(parts) < 2 or any(not one or one.startswith(".") or "\0" in one for one in parts):
            raise ObjectMissing
        return self._root.joinpath(*parts)

    async def run(self, work: Callable[[], T]) -> T:
        """Use the disk in a thread. Raises ObjectStoreError."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, _guard, work)


class NewFile:
    """A file that is being written; made by `FolderStore.create`.

    Args:
        store: where it is kept.
    """

    def __init__(self, store: FolderStore) -> None:
        self._store = store
        self._path = store.unfinished / secrets.token_hex(16)
        self._file: BinaryIO | None = None
        self._waiting = bytearray()
        self._digest = hashlib.sha256()
        self._size = 0
        self._lock = threading.Lock()  # a request that ends leaves its thread at work

    @property
    def kept(self) -> Kept:
        """The bytes so far."""
        return Kept(self._digest.hexdigest(), self._size)

    async def __aenter__(self) -> Self:
        """Begin; the file is made with the first block."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove a file that was not kept. A disk that refuses that is left to `remove_unfinished`."""
        with suppress(ObjectStoreError):
            await self._store.run(self._discard)

    async def write(self, data: bytes) -> None:
        """Add content. Raises ObjectStoreError."""
        self._waiting += data
        if len(self._waiting) >= _BLOCK:
            await self._store.run(self._flush_alone)

    async def name(self, folder: str, stem: str, suffix: str) -> str:
        """Return the name for this content. Raises ObjectStoreError."""
        await self._store.run(self._flush_alone)
        return f"{folder}/{stem}_{self.kept.hash[:HASH_DIGITS]}{suffix}"

    async def keep(self, name: str, metadata: Mapping[str, str]) -> None:
        """Make it an object. Raises ObjectStoreError."""
        path = self._store.locate(name)

        def work() -> None:
            with self._lock:
                self._flush()
                self._place(path, msgspec.json.encode(metadata))

        await self._store.run(work)

    def _flush_alone(self) -> None:
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        """Write the waiting bytes. Runs in a thread."""
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("xb")
        block = bytes(self._waiting)
        self._file.write(block)
        self._digest.update(block)
        self._size += len(block)
        self._waiting.clear()

    def _place(self, path: Path, metadata: bytes) -> None:
        """Rename the file to its name. A file with a name is on the disk. Runs in a thread."""
        assert self._file is not None  # noqa: S101  # REASON: `_flush` made it
        _sync(self._file)
        path.parent.mkdir(parents=True, exist_ok=True)
        # The metadata first: an object without metadata would be half of one.
        beside = self._path.with_name(self._path.name + _METADATA)
        with beside.open("wb") as file:
            file.write(metadata)
            _sync(file)
        beside.replace(path.with_name(path.name + _METADATA))
        self._path.replace(path)
        for folder in (path.parent, path.parent.parent):
            _sync_folder(folder)

    def _discard(self) -> None:
        """Remove the files that were not renamed. Runs in a thread."""
        with self._lock:
            if self._file is None:
                return
            self._file.close()
            self._path.unlink(missing_ok=True)
            self._path.with_name(self._path.name + _METADATA).unlink(missing_ok=True)


def _guard(work: Callable[[], T]) -> T:
    """Use the disk; its errors name files, and so they do not leave this function."""
    try:
        return work()
    except OSError as error:
        raise _translate(error.errno) from None


def _translate(code: int | None) -> ObjectStoreError:
    if code in _FULL:
        return ObjectStoreFull()
    if code in _READ_ONLY:
        return ObjectStoreReadOnly()
    if code in _MISSING:
        return ObjectMissing()
    return ObjectStoreError(errno.errorcode.get(code or 0, "it failed"))


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_older(entry: os.DirEntry[str], before: float) -> bool:
    try:
        return entry.stat().st_mtime < before
    except FileNotFoundError:  # somebody else removed it
        return False
