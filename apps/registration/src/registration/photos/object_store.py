"""The port of an object store: files by name, each of them whole or not there.

An object store of a cloud can stand behind it in place of a folder. This module must never do anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import BinaryIO, Protocol, Self

from msgspec import Struct


class ObjectStoreError(Exception):
    """The object store cannot do it now. No message names a file: names may be those of children.

    Args:
        reason: the problem, in plain words.
    """

    retryable = True

    def __init__(self, reason: str) -> None:
        super().__init__(f"the object store is not available: {reason}")
        self.reason = reason


class ObjectStoreFull(ObjectStoreError):
    """There is no space left."""

    def __init__(self) -> None:
        super().__init__("it is full")


class ObjectStoreReadOnly(ObjectStoreError):
    """Nothing may be written."""

    def __init__(self) -> None:
        super().__init__("it is read-only")


class ObjectMissing(ObjectStoreError):
    """There is no object of this name, or it is not whole."""

    retryable = False

    def __init__(self) -> None:
        super().__init__("there is no such object")


class Kept(Struct, frozen=True):
    """The bytes so far.

    Args:
        hash: the SHA-256 of the content, as hexadecimal digits.
        size: bytes of the content.
    """

    hash: str
    size: int


class NewObject(Protocol):
    """Content that is being written. It becomes an object by `keep`, or it leaves no trace."""

    @property
    def kept(self) -> Kept:
        """The written object; complete after `name`."""

    async def __aenter__(self) -> Self:
        """Begin."""

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove an object that was not kept."""

    async def write(self, data: bytes) -> None:
        """Add content. Raises ObjectStoreError."""

    async def name(self, folder: str, stem: str, suffix: str) -> str:
        """Return the name for this content: `{folder}/{stem}_{hash}{suffix}`.

        Args:
            folder: the first part of the name.
            stem: the second part.
            suffix: the end of the name, such as ".jpg".

        Raises:
            ObjectStoreError: the content cannot be written.
        """

    async def keep(self, name: str, metadata: Mapping[str, str]) -> None:
        """Make it an object. An object with this name is replaced by it.

        Args:
            name: the result of `name`.
            metadata: the metadata stored with it.

        Raises:
            ObjectStoreError: nothing was kept.
        """


class ObjectStore(Protocol):
    """Objects by name."""

    def create(self) -> NewObject:
        """Return an object to write."""

    async def open(self, name: str) -> BinaryIO:
        """Return the content as a file of the system, which another process can read.

        Raises:
            ObjectMissing: there is none.
            ObjectStoreError: it cannot be read.
        """

    async def read(self, name: str) -> bytes:
        """Return the content. Raises as `open`."""

    async def read_metadata(self, name: str) -> dict[str, str]:
        """Return the metadata of an object. Raises as `open`."""

    async def remove(self, names: Iterable[str]) -> None:
        """Remove objects with their metadata; one that is not there is no error.

        Raises:
            ObjectStoreError: some of them may still be there.
        """

    async def list_older(self, folder: str, before: float) -> tuple[str, ...]:
        """Return the names in a folder that were last written before a time.

        Args:
            folder: the first part of the names.
            before: seconds since 1970.

        Raises:
            ObjectStoreError: the folder cannot be read.
        """

    async def remove_unfinished(self, before: float) -> int:
        """Remove the half written objects of processes that ended, and return how many there were.

        Args:
            before: seconds since 1970; a later object may still be in progress.

        Raises:
            ObjectStoreError: some of it may still be there.
        """
