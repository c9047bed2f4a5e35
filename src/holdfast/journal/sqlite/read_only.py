"""A journal that reads a SQLite file beside the process that writes it."""

from __future__ import annotations

import os
import sqlite3
from functools import partial
from typing import cast

from holdfast.core.argument_checks import check_arguments
from holdfast.journal.files.file_check import check_database, check_log_exists
from holdfast.journal.files.log_file import LOG
from holdfast.journal.journal_names import resolve_path
from holdfast.journal.sqlite.file_reading import FileReader, check_left_log, read_beside
from holdfast.journal.sqlite.sqlite_journal import SqliteJournal
from holdfast.journal.sqlite.writer import WriterJob


class ReadOnlySqliteJournal(SqliteJournal):
    """Reads a SQLite journal that another process may have open; each change is refused.

    A list or a search sees all records that were acknowledged before it began.

    Args:
        path: the file.

    Raises:
        JournalError: the file does not exist or is not a journal.

    >>> import asyncio, tempfile
    >>> from holdfast import Agent, SqliteJournal
    >>> from holdfast.testing import ScriptedModel
    >>> folder = tempfile.TemporaryDirectory()
    >>> with SqliteJournal(f"{folder.name}/talk.db") as journal:
    ...     _ = Agent(ScriptedModel("Hello!"), journal=journal).run_sync("Hi.", session="ada")
    ...     with ReadOnlySqliteJournal(f"{folder.name}/talk.db") as reader:
    ...         [entry.run for entry in asyncio.run(reader.runs())]
    ['ada']
    >>> folder.cleanup()
    """

    @check_arguments
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = resolve_path(path)
        check_left_log(self.path)
        read_beside(self.path, _do_nothing)  # refuses a wrong file at once
        self._use(FileReader(self.path))

    def for_tenant(self, tenant: str) -> ReadOnlySqliteJournal:
        """Return a reader of another tenant in this file; closing one closes all of them."""
        return cast("ReadOnlySqliteJournal", super().for_tenant(tenant))

    async def check_pages(self) -> None:
        """Check the whole file. Raises JournalCorruptError if a part is damaged or missing."""
        for check in (
            partial(check_database, path=self.path, all_pages=True),
            partial(check_log_exists, path=self.path, log=self.path + LOG),
        ):
            await self._writer.submit(WriterJob(check, writes=False))

    def __repr__(self) -> str:
        return f"ReadOnlySqliteJournal({self.path!r})"


def _do_nothing(_: sqlite3.Connection) -> None:
    return None
