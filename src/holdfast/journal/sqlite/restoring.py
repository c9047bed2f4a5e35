"""Makes a journal of a backup, in which the tools of open turns count as in doubt."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial

from holdfast.core.effects import begun_key
from holdfast.core.errors import IllegalEventError
from holdfast.core.events import ToolsBegun
from holdfast.core.machine import SessionMachine
from holdfast.core.session_state import Phase
from holdfast.journal.encoding import corrupt_record
from holdfast.journal.journal_names import resolve_path
from holdfast.journal.port import Journal, Record
from holdfast.journal.sqlite.backup import JournalCopy, copy_pages, new_file, verify_copy
from holdfast.journal.sqlite.file_reading import read_beside
from holdfast.journal.sqlite.sqlite_journal import SqliteJournal

_NEW_IDENTITY = "UPDATE identity SET journal = lower(hex(randomblob(16))), log = lower(hex(randomblob(16))), base = ''"


async def restore_backup(
    backup: str | os.PathLike[str], destination: str | os.PathLike[str]
) -> JournalCopy:
    """Make a journal of a backup. Tools of its open turns count as in doubt.

    Since the backup was made, the turns that were open in it may have continued. So a tool that
    would begin next counts as begun: one that writes does not run again, and the model reads that
    its outcome is unknown.

    Args:
        backup: a backup, which is not changed.
        destination: the new journal.

    Raises:
        ConfigurationError: the destination exists.
        JournalError: the backup is damaged, or the journal cannot be written.
    """
    source, target = resolve_path(backup), resolve_path(destination)
    with new_file(target) as part:
        read_beside(source, partial(copy_pages, part, target))
        _renew_identity(part)
        open_runs: list[str] = []
        with SqliteJournal(part) as journal:
            for tenant in await journal.tenants():
                open_runs += await mark_restored(journal.for_tenant(tenant))
        copy = verify_copy(part, target)
    return JournalCopy(copy.path, copy.runs, copy.records, tuple(open_runs))


async def mark_restored(journal: Journal) -> Sequence[str]:
    """Mark the tools that would begin next as begun, after a journal was restored by other means.

    Args:
        journal: a restored journal that no agent uses yet; of several tenants, each one.

    Returns:
        The runs whose last turn has not ended.

    >>> import asyncio
    >>> from holdfast import MemoryJournal
    >>> asyncio.run(mark_restored(MemoryJournal()))
    []
    """
    runs = [entry.run for entry in await journal.runs(turn_open=True)]
    for run in runs:
        key = _find_unbegun_tools(run, await journal.read(run))
        if key is not None:
            await journal.append(run, ToolsBegun(key, time.time()))
    return runs


def _find_unbegun_tools(run: str, records: Sequence[Record]) -> str | None:
    """Return the key of the marker that is missing; None if no tool would begin next."""
    machine = SessionMachine()
    try:
        for record in records:
            machine.apply(record.event)
    except IllegalEventError as error:
        raise corrupt_record(f"run {run!r}", str(error)) from error
    if machine.phase is not Phase.TOOLS or machine.has_begun_tools:
        return None
    return begun_key(machine.turn, machine.iteration)


def _renew_identity(part: str) -> None:
    # A log of the original must not be accepted beside the restored file.
    with closing(sqlite3.connect(part, isolation_level=None)) as copy:
        copy.execute(_NEW_IDENTITY)
