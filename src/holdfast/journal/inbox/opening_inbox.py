"""Opens the inbox of a journal."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from holdfast.core.errors import ConfigurationError
from holdfast.journal.inbox.inbox import Inbox, InboxStore
from holdfast.journal.inbox.schedules.schedule_store import Schedules
from holdfast.journal.memory import MemoryJournal
from holdfast.journal.sqlite import SqliteJournal

if TYPE_CHECKING:
    from holdfast.journal.port import Journal

_stores: WeakKeyDictionary[object, InboxStore] = WeakKeyDictionary()
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
    with _lock:
        key = _find_key(journal)
        store = _stores.get(key)
        if store is None:
            store = _stores[key] = _make_store(journal)
        return store


def _find_key(journal: Journal) -> object:
    """Return what the journal objects of all tenants of one store share."""
    if isinstance(journal, MemoryJournal):
        return journal._tenants  # noqa: SLF001  # REASON: the one place
    if isinstance(journal, SqliteJournal):
        return journal._writer  # noqa: SLF001  # REASON: as above
    return getattr(journal, "_server", journal)


def _make_store(journal: Journal) -> InboxStore:
    from holdfast.journal.inbox.sqlite_inbox import MemoryInboxStore, SqliteInboxStore
    from holdfast.journal.postgres import PostgresJournal

    if isinstance(journal, MemoryJournal):
        memory = MemoryInboxStore()
        journal._tenants.note_answer = memory.note_answer  # noqa: SLF001  # REASON: the one place
        return memory
    if isinstance(journal, SqliteJournal):
        return SqliteInboxStore(journal)
    if isinstance(journal, PostgresJournal):
        from holdfast.journal.inbox.postgres_inbox import PostgresInboxStore

        return PostgresInboxStore(journal)
    raise ConfigurationError(
        "journal",
        f"has no inbox: it is a {type(journal).__name__}",
        fix="Use a MemoryJournal, a SqliteJournal or a PostgresJournal",
    )
