"""Opens the inbox of a journal."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from holdfast.core.errors import ConfigurationError
from holdfast.journal.inbox.inbox import Inbox, InboxStore
from holdfast.journal.inbox.schedules.schedule_store import Schedules
from holdfast.journal.memory import MemoryJournal
from holdfast.journal.sqlite.sqlite_journal import SqliteJournal

if TYPE_CHECKING:
    from holdfast.journal.inbox.sqlite_inbox import MemoryInboxStore
    from holdfast.journal.port import Journal

_in_memory: WeakKeyDictionary[object, MemoryInboxStore] = WeakKeyDictionary()
_lock = threading.Lock()


def open_inbox(journal: Journal) -> Inbox:
    """Return the inbox of a journal; all journal objects of one store have the same one.

    Raises:
        ConfigurationError: the journal has no inbox.

    >>> import asyncio
    >>> asyncio.run(open_inbox(MemoryJournal()).count_entries())
    []
    """
    return Inbox(_open_store(journal))


def open_schedules(journal: Journal) -> Schedules:
    """Return the schedules of a journal, whose turns go into its inbox.

    Raises:
        ConfigurationError: the journal has no inbox.

    >>> import asyncio
    >>> asyncio.run(open_schedules(MemoryJournal()).fire_due())
    []
    """
    return Schedules(_open_store(journal))


def _open_store(journal: Journal) -> InboxStore:
    from holdfast.journal.postgres.postgres_journal import PostgresJournal

    if isinstance(journal, MemoryJournal):
        with _lock:
            return _open_in_memory(journal)
    if isinstance(journal, SqliteJournal):
        from holdfast.journal.inbox.sqlite_inbox import SqliteInboxStore

        with _lock:
            return SqliteInboxStore(journal)
    if isinstance(journal, PostgresJournal):
        from holdfast.journal.inbox.postgres_inbox import PostgresInboxStore

        return PostgresInboxStore(journal)
    raise ConfigurationError(
        "journal",
        f"has no inbox: it is a {type(journal).__name__}",
        fix="Use a MemoryJournal, a SqliteJournal or a PostgresJournal",
    )


def _open_in_memory(journal: MemoryJournal) -> InboxStore:
    """Return the store that the journals of all tenants share. It must not hold them."""
    from holdfast.journal.inbox.sqlite_inbox import MemoryInboxStore

    tenants = journal._tenants  # noqa: SLF001  # REASON: the one place
    store = _in_memory.get(tenants)
    if store is None:
        store = _in_memory[tenants] = MemoryInboxStore()
        tenants.note_answer = store.note_answer
    return store
