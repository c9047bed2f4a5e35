"""Changes of the file tools in a project, with the old contents, so that a turn can be undone.

A change and the old content are on disk before the file is touched. Contents are stored by their digests.
Commands are not covered: their writes are not known. This module must never undo a change to a
file that somebody changed since.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import msgspec
from msgspec import Struct

from adh.storage.content_digest import ABSENT
from adh.storage.json_lines import append_line, read_lines
from adh.storage.private_files import FILE_MODE, make_private_folder, sync_folder, write_all
from adh.storage.replaced_files import read_blocks
from adh.storage.storage_errors import StorageError, explain_os_error

_LONGEST_NAME = 150


class FileChange(Struct, frozen=True, kw_only=True, tag="change"):
    """A change of one file or folder.

    Args:
        id: names the change.
        at: when it was recorded, with the zone.
        session: the conversation.
        turn: the turn in it, from 1.
        call: the key of the call.
        tool: the tool.
        path: the absolute path, without links.
        kind: a file, or a folder that was created.
        before: the digest of the old content, or "absent".
        after: the digest of the new content, or "absent". A folder has none.
        mode: the permission bits of the old file; None if there was none.
    """

    id: str
    at: datetime
    session: str
    turn: int
    call: str
    tool: str
    path: str
    kind: Literal["file", "folder"] = "file"
    before: str = ABSENT
    after: str = ABSENT
    mode: int | None = None


class Undone(Struct, frozen=True, kw_only=True, tag="undone"):
    """Changes that were undone.

    Args:
        at: when.
        changes: their ids.
    """

    at: datetime
    changes: tuple[str, ...]


def make_change_id() -> str:
    """Return a new id of a change."""
    return secrets.token_hex(8)


class ChangeStore:
    """The changes of all conversations of a person.

    Args:
        folder: where they are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save_content(self, session: str, descriptor: int) -> str:
        """Store the content of an open file, and return its digest once it is on disk.

        Args:
            session: the conversation.
            descriptor: the open file.

        Raises:
            StorageError: the content cannot be stored, so the file must not be changed.
        """
        folder = self._find_folder(session) / "contents"
        make_private_folder(folder)
        beside = folder / f".{secrets.token_hex(8)}.new"
        try:
            digest = _copy_content(descriptor, beside)
            beside.replace(folder / digest)
            sync_folder(folder)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise StorageError(folder, *explain_os_error(error)) from error
        return digest

    def read_content(self, session: str, digest: str) -> Iterator[bytes]:
        """Yield a stored content in blocks.

        Raises:
            StorageError: it is missing or damaged.
        """
        path = self._find_folder(session) / "contents" / digest
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise StorageError(path, *explain_os_error(error)) from error
        try:
            found = sha256()
            for block in read_blocks(descriptor):
                found.update(block)
                yield block
        finally:
            os.close(descriptor)
        if found.hexdigest() != digest:
            raise StorageError(path, "is damaged", "Restore the file from backups")

    def record(self, change: FileChange) -> None:
        """Record a change; it is on disk when this returns, and only then may the file be changed.

        Raises:
            StorageError: it cannot be recorded.
        """
        append_line(self._find_log(change.session), msgspec.json.encode(change))

    def record_undone(self, session: str, at: datetime, changes: Iterable[str]) -> None:
        """Record that changes were undone. Raises StorageError."""
        undone = Undone(at=at, changes=tuple(changes))
        append_line(self._find_log(session), msgspec.json.encode(undone))

    def list_changes(self, session: str, first_turn: int = 1) -> tuple[FileChange, ...]:
        """Return the changes of a conversation that were not undone, oldest first.

        Args:
            session: the conversation.
            first_turn: the turn to begin with.

        Raises:
            StorageError: they cannot be read.
        """
        found: dict[str, FileChange] = {}
        for item in self._read(session):
            if isinstance(item, FileChange):
                found[item.id] = item
            else:
                for change in item.changes:
                    found.pop(change, None)
        return tuple(change for change in found.values() if change.turn >= first_turn)

    def list_turn(self, session: str, turn: int) -> tuple[FileChange, ...]:
        """Return the changes of one turn that were not undone, oldest first. Raises StorageError."""
        return tuple(one for one in self.list_changes(session, turn) if one.turn == turn)

    def delete_session(self, session: str) -> None:
        """Delete everything stored of a conversation.

        Raises:
            StorageError: it cannot be deleted.
        """
        folder = self._find_folder(session)
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError(folder, *explain_os_error(error)) from error

    def delete_before(self, time: datetime) -> int:
        """Delete everything stored of conversations without a change since, and return how many they were.

        Args:
            time: the time, with its zone.

        Raises:
            StorageError: something cannot be deleted.
        """
        deleted = 0
        for log in sorted(self._folder.glob("*/changes.jsonl")):
            try:
                if log.stat().st_mtime < time.timestamp():
                    shutil.rmtree(log.parent)
                    deleted += 1
            except FileNotFoundError:
                continue  # another instance was faster
            except OSError as error:
                raise StorageError(log.parent, *explain_os_error(error)) from error
        return deleted

    def _read(self, session: str) -> Iterator[FileChange | Undone]:
        decoder = msgspec.json.Decoder(FileChange | Undone)
        for _number, line in read_lines(self._find_log(session)):
            try:
                yield decoder.decode(line)
            except msgspec.DecodeError:
                continue  # a crash cut it, and then the change was not made

    def _find_log(self, session: str) -> Path:
        return self._find_folder(session) / "changes.jsonl"

    def _find_folder(self, session: str) -> Path:
        """Return the folder of a conversation, whose name may hold any characters."""
        name = quote(session, safe="").replace(".", "%2E")
        if not name or len(name) > _LONGEST_NAME:
            name = f"~{sha256(session.encode('utf-8', 'replace')).hexdigest()}"
        return self._folder / name


def _copy_content(descriptor: int, target: Path) -> str:
    digest = sha256()
    copy = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        for block in read_blocks(descriptor):
            digest.update(block)
            write_all(copy, block)
        os.fsync(copy)
    finally:
        os.close(copy)
    return digest.hexdigest()
