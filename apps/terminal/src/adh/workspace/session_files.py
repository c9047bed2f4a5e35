"""The saved conversations of a person: a folder with a journal for each.

A journal belongs to one process at a time. As each conversation has its own, two programs in one folder meet
only when both want the same conversation, and then the second one gets an error. Lists are read without a lock.

    sessions/20260314-150926-4f2a9c/journal.db     the records
    sessions/20260314-150926-4f2a9c/session.json   the project and the agent

This module must never delete a conversation that is open anywhere, or whose last turn has not ended.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import shutil
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from adh.storage.private_files import (
    make_private_folder,
    read_private_file,
    replace_private_file,
)
from adh.storage.storage_errors import StorageError, explain_os_error
from holdfast import SessionInfo, Sessions, SqliteJournal
from holdfast.errors import JournalBusyError, JournalError
from holdfast.journal import ReadOnlySqliteJournal

JOURNAL = "journal.db"
FACTS = "session.json"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
_DELETED = ".deleted-"
_MOST_BYTES = 10_000
_SECONDS_PER_DAY = 86_400


class SessionFacts(Struct, frozen=True, kw_only=True):
    """The facts about a conversation beside its records.

    Args:
        project: the folder that it began in.
        agent: its agent.
        created_at: when it began, in seconds since the epoch.
    """

    project: str
    agent: str = ""
    created_at: float = 0.0


class SessionRow(Struct, frozen=True, kw_only=True):
    """One conversation in a list.

    Args:
        id: its id.
        facts: the project and the agent.
        info: its title, its turns and its status; None if its journal cannot be read.
        problem: why it cannot be read; empty if it can.
    """

    id: str
    facts: SessionFacts
    info: SessionInfo | None = None
    problem: str = ""

    @property
    def changed_at(self) -> float:
        """When it changed last, in seconds since the epoch."""
        return self.info.changed_at if self.info is not None else self.facts.created_at


class SessionError(Exception):
    """A conversation cannot be opened or deleted.

    Args:
        session: its id.
        problem: why, as the rest of a sentence about it.
        fix: the instruction that solves it, as a sentence without its full stop.
    """

    def __init__(self, session: str, problem: str, fix: str) -> None:
        super().__init__(f"The session {session} {problem}. {fix}.")
        self.session = session
        self.problem = problem
        self.fix = fix


class SessionFiles:
    """The saved conversations of a person.

    Args:
        folder: where they are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make_id(self, now: datetime) -> str:
        """Return a new id, which sorts by time."""
        return f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"

    def exists(self, session: str) -> bool:
        """Whether there is such a conversation."""
        return _ID.fullmatch(session) is not None and (self._folder / session / JOURNAL).is_file()

    def create(self, session: str, facts: SessionFacts) -> SqliteJournal:
        """Create a conversation and open it.

        Args:
            session: its id.
            facts: the project and the agent.

        Raises:
            SessionError: it cannot be opened.
            StorageError: its folder cannot be written.
        """
        folder = self._find_folder(session)
        make_private_folder(folder)
        replace_private_file(folder / FACTS, msgspec.json.encode(facts) + b"\n")
        return self._open(session)

    def open(self, session: str) -> SqliteJournal:
        """Open a conversation. It belongs to this process until the journal is closed.

        Raises:
            SessionError: there is no such conversation, another process has it open, or it is damaged.
        """
        if not self.exists(session):
            fix = "`adh sessions list` shows those that there are"
            raise SessionError(session, "does not exist", fix)
        return self._open(session)

    def open_to_read(self, session: str) -> ReadOnlySqliteJournal:
        """Open a conversation to read it, also while another process has it open. Raises SessionError."""
        try:
            return ReadOnlySqliteJournal(self._find_folder(session) / JOURNAL)
        except JournalError as error:
            raise SessionError(
                session, error.problem, error.fix or "Look at another one"
            ) from error

    def _open(self, session: str) -> SqliteJournal:
        try:
            return SqliteJournal(self._find_folder(session) / JOURNAL, wait=0.2)
        except JournalBusyError as error:
            problem = f"is open in another adh ({error.problem})"
            raise SessionError(session, problem, "Close it there, or begin another one") from error
        except JournalError as error:
            raise SessionError(session, error.problem, error.fix or "Begin another one") from error

    def read_facts(self, session: str) -> SessionFacts:
        """Return the facts beside the records; a file that is missing or damaged has none."""
        try:
            content = read_private_file(self._find_folder(session) / FACTS, _MOST_BYTES)
            return msgspec.json.decode(content or b"", type=SessionFacts)
        except (StorageError, msgspec.DecodeError):
            return SessionFacts(project="")

    def list_ids(self) -> tuple[str, ...]:
        """Return the ids of all conversations, newest first."""
        with suppress(OSError):
            names = [entry.name for entry in self._folder.iterdir() if self.exists(entry.name)]
            return tuple(sorted(names, reverse=True))
        return ()

    async def read_row(self, session: str) -> SessionRow:
        """Describe a conversation, also while another process has it open."""
        facts = self.read_facts(session)
        try:
            return await asyncio.to_thread(self._read_row, session, facts)
        except JournalError as error:
            return SessionRow(id=session, facts=facts, problem=error.problem)

    def _read_row(self, session: str, facts: SessionFacts) -> SessionRow:
        with ReadOnlySqliteJournal(self._find_folder(session) / JOURNAL) as journal:
            infos: Sequence[SessionInfo] = asyncio.run(Sessions(journal).list(limit=1))
        return SessionRow(id=session, facts=facts, info=infos[0] if infos else None)

    async def list_rows(self, *, project: str = "", limit: int = 50) -> tuple[SessionRow, ...]:
        """List conversations that hold a message, the latest change first.

        Args:
            project: only those that began in this folder; empty for all.
            limit: how many at most.
        """
        rows: list[SessionRow] = []
        for session in self.list_ids():
            if project and self.read_facts(session).project != project:
                continue
            row = await self.read_row(session)
            if row.info is not None or row.problem:
                rows.append(row)
            if len(rows) >= limit:
                break
        return tuple(sorted(rows, key=lambda row: row.changed_at, reverse=True))

    async def find_latest(self, project: str) -> str | None:
        """Return the conversation of a folder that changed last; None if it has none."""
        rows = await self.list_rows(project=project, limit=20)
        return next((row.id for row in rows if row.info is not None), None)

    def delete(self, session: str) -> None:
        """Delete a conversation for good.

        Raises:
            SessionError: there is no such conversation, or it is open.
        """
        journal = self.open(session)
        journal.close()
        self._remove(session)

    async def discard_empty(self, session: str) -> None:
        """Delete a conversation that nobody said a word in, once its journal is closed."""
        with suppress(SessionError, JournalError):
            with ReadOnlySqliteJournal(self._find_folder(session) / JOURNAL) as journal:
                empty = not await journal.runs()
            if empty:
                self.delete(session)

    async def prune(self, days: int, now: float) -> tuple[str, ...]:
        """Delete the conversations whose last change is older than so many days; return their ids.

        Args:
            days: the age from which they are deleted.
            now: the time, in seconds since the epoch.
        """
        deleted: list[str] = []
        for session in self.list_ids():
            row = await self.read_row(session)
            ended = row.info is None or row.info.status == "closed"
            old = row.changed_at < now - days * _SECONDS_PER_DAY
            if not row.problem and ended and old:
                with suppress(SessionError):
                    self.delete(session)
                    deleted.append(session)
        return tuple(deleted)

    def _remove(self, session: str) -> None:
        folder = self._find_folder(session)
        gone = folder.with_name(f"{_DELETED}{session}-{secrets.token_hex(3)}")
        try:
            folder.rename(gone)
            shutil.rmtree(gone)
        except OSError as error:
            problem, fix = explain_os_error(error)
            raise SessionError(session, f"cannot be deleted: {problem}", fix) from error

    def _find_folder(self, session: str) -> Path:
        if not _ID.fullmatch(session):
            raise SessionError(session[:80], "is no id of a session", "Give one of the list")
        return self._folder / session
