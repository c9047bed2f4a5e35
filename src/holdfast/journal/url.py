"""Opens a journal by its address: memory, a SQLite file or a PostgreSQL database.

Errors show only the scheme of an address, because the rest may contain a password.
"""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote

from holdfast.core.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast.journal.memory import MemoryJournal
    from holdfast.journal.postgres.postgres_journal import PostgresJournal
    from holdfast.journal.sqlite.sqlite_journal import SqliteJournal

    OpenedJournal: TypeAlias = SqliteJournal | PostgresJournal

FORMS = '"memory:", "sqlite:///file.db" or "postgresql://user@host/database"'

# Anything else before the colon may be a user or a password.
_SCHEME = re.compile(r"[a-z][a-z+]{1,11}")

_lock = threading.Lock()
_open: weakref.WeakValueDictionary[tuple[int, str], OpenedJournal] = weakref.WeakValueDictionary()


def open_journal(url: str) -> MemoryJournal | OpenedJournal:
    """Open the journal at an address; within a process, equal addresses share one journal.

    A file that was put in the place of another one is opened, whoever still has the other one.

    Args:
        url: `memory:`, `sqlite:///file.db`, `sqlite:////folder/file.db` or `postgresql://...`.

    Raises:
        ConfigurationError: the address is invalid, or the driver is not installed.
        JournalError: the file cannot be used.

    >>> open_journal("memory:")  # doctest: +ELLIPSIS
    <holdfast.journal.memory.MemoryJournal object at ...>
    """
    scheme = url.partition(":")[0]
    if url in ("memory:", "memory://"):
        from holdfast.journal.memory import MemoryJournal  # loads asyncio, which no help needs

        return MemoryJournal()
    if scheme == "sqlite":
        path = sqlite_path(url)
        return _get_shared_journal(lambda: _name_file(path), lambda: _open_sqlite(path))
    if scheme in ("postgresql", "postgres"):
        return _get_shared_journal(lambda: url, lambda: _open_postgres(url))
    raise ConfigurationError(
        "journal", f"must be a journal or its address: {FORMS}", fix=_suggest_fix(url)
    )


def sqlite_path(url: str) -> Path:
    """Return the file of `sqlite:///...`: three slashes for a relative path, four for an absolute one.

    Raises:
        ConfigurationError: the address names no file.

    >>> sqlite_path("sqlite:////var/lib/talk.db")
    PosixPath('/var/lib/talk.db')
    """
    name = unquote(url.removeprefix("sqlite:///"))
    if (
        not url.startswith("sqlite:///")
        or "?" in url
        or not name
        or "\x00" in name
        or name[0] in "?:"
    ):
        raise ConfigurationError(
            "journal",
            "names no file",
            fix="Write sqlite:///file.db, or sqlite:////folder/file.db for an absolute path; it has no "
            "options, and a '?' in a name is written %3F",
        )
    path = Path(name)
    if not path.parent.exists() and Path("/", name).parent.exists() and path.parent.parts:
        raise ConfigurationError(
            "journal",
            f"sqlite:///{name} names a file in {path.parent}, below the current folder",
            fix=f"An absolute path needs four slashes: sqlite:////{name}",
        )
    return path.resolve()


def _get_shared_journal(
    name: Callable[[], str], make: Callable[[], OpenedJournal]
) -> OpenedJournal:
    """Return the open journal of a name, or open it. A fork does not share it with its parent."""
    with _lock:
        journal = _open.get((os.getpid(), name()))
        if journal is None or journal.closed:
            journal = make()  # it may make the file, which is part of the name
            _open[os.getpid(), name()] = journal
        return journal


def _name_file(path: Path) -> str:
    """Return a name of the file that is at a path now: a file that replaces it has another one."""
    try:
        found = path.stat()
    except OSError:  # opening it makes it, or says why not
        return f"sqlite {path}"
    return f"sqlite {path} {found.st_dev} {found.st_ino}"


def _open_sqlite(path: Path) -> SqliteJournal:
    from holdfast.journal.sqlite.sqlite_journal import SqliteJournal

    return SqliteJournal(path)


def _open_postgres(url: str) -> PostgresJournal:
    from holdfast.journal.postgres.postgres_journal import PostgresJournal

    return PostgresJournal(url)


def _suggest_fix(url: str) -> str:
    scheme, colon, _ = url.partition("://")
    if colon and _SCHEME.fullmatch(scheme):
        return f"{scheme}: is not a supported scheme"
    return "For a file write sqlite:///file.db"
