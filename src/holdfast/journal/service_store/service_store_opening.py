"""Opens the service store that belongs to a journal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.core.errors import ConfigurationError
from holdfast.journal.journal_names import resolve_path
from holdfast.journal.memory import MemoryJournal
from holdfast.journal.service_store.service_store_memory import MemoryServiceStore

if TYPE_CHECKING:
    from holdfast.journal.port import Journal
    from holdfast.journal.service_store.service_store import ServiceStore


def open_service_store(journal: Journal | str, *, create: bool = True) -> ServiceStore:
    """Open the store beside a journal.

    A journal in memory, or of a kind that is not Holdfast's own, gets a new store in memory.

    Args:
        journal: the journal, or its address or path. The address of a file does not open the
            journal, so that it may be open in another process.
        create: whether to create a store that does not exist.

    Raises:
        ConfigurationError: the address is wrong.
        JournalError: the store cannot be used.

    >>> open_service_store(MemoryJournal())  # doctest: +ELLIPSIS
    <holdfast.journal.service_store.service_store_memory.MemoryServiceStore object at ...>
    """
    if isinstance(journal, MemoryJournal):
        return MemoryServiceStore()
    if isinstance(journal, str):
        return _open_at(journal, create=create)
    from holdfast.journal.postgres.postgres_journal import PostgresJournal
    from holdfast.journal.sqlite.sqlite_journal import SqliteJournal

    if isinstance(journal, SqliteJournal):
        return _open_file(journal.path, create=create)
    if isinstance(journal, PostgresJournal):
        from holdfast.journal.service_store.service_store_postgres import PostgresServiceStore

        return PostgresServiceStore(journal)
    return MemoryServiceStore()


def _open_at(address: str, *, create: bool) -> ServiceStore:
    if address.startswith(("postgresql:", "postgres:")):
        from holdfast.journal.postgres.postgres_journal import PostgresJournal
        from holdfast.journal.service_store.service_store_postgres import PostgresServiceStore

        return PostgresServiceStore(PostgresJournal(address, create=create), owns_journal=True)
    if address.startswith("memory:"):
        raise ConfigurationError(
            "journal", "is in memory, and ends with its process", fix="Name a file or a database"
        )
    if address.startswith("sqlite:"):
        from holdfast.journal.url import sqlite_path

        return _open_file(sqlite_path(address), create=create)
    return _open_file(resolve_path(address), create=create)


def _open_file(path: str | os.PathLike[str], *, create: bool) -> ServiceStore:
    from holdfast.journal.service_store.service_store_sqlite import SqliteServiceStore

    return SqliteServiceStore(path, create=create)
