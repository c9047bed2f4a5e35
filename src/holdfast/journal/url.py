"""From the address of a journal to the journal: memory, a SQLite file, a PostgreSQL database.

It must never show more of an address than its scheme: a password may stand in the rest.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote

from holdfast.core.errors import ConfigurationError
from holdfast.journal.memory import MemoryJournal

if TYPE_CHECKING:
    from holdfast.journal.postgres import PostgresJournal
    from holdfast.journal.sqlite import SqliteJournal

    OpenedJournal: TypeAlias = SqliteJournal | PostgresJournal

FORMS = '"memory:", "sqlite:///file.db" or "postgresql://user@host/database"'

_lock = threading.Lock()
_open: weakref.WeakValueDictionary[tuple[int, str], OpenedJournal] = weakref.WeakValueDictionary()


def open_journal(url: str) -> MemoryJournal | OpenedJournal:
    """The journal of this address; agents of one process that name the same one share it.

    Args:
        url: `memory:`, `sqlite:///file.db`, `sqlite:////folder/file.db` or `postgresql://...`.

    Raises:
        ConfigurationError: no journal has such an address, or its driver is not installed.
        JournalError: the file cannot be used.

    >>> open_journal("memory:")  # doctest: +ELLIPSIS
    <holdfast.journal.memory.MemoryJournal object at ...>
    """
    scheme = url.partition(":")[0]
    if url in ("memory:", "memory://"):
        return MemoryJournal()
    if scheme == "sqlite":
        path = sqlite_path(url)
        return _get_shared_journal(f"sqlite {path}", lambda: _open_sqlite(path))
    if scheme in ("postgresql", "postgres"):
        return _get_shared_journal(url, lambda: _open_postgres(url))
    raise ConfigurationError(
        "journal", f"must be a journal or its address: {FORMS}", fix=_suggest_fix(url)
    )


def sqlite_path(url: str) -> Path:
    """The file that `sqlite:///...` names: three slashes from the current folder, four from the root.

    Raises:
        ConfigurationError: it names none.

    >>> sqlite_path("sqlite:////var/lib/talk.db")
    PosixPath('/var/lib/talk.db')
    """
    name = unquote(url.removeprefix("sqlite:///"))
    if not url.startswith("sqlite:///") or not name or "\x00" in name or name[0] in "?:":
        raise ConfigurationError(
            "journal",
            "names no file",
            fix="Write sqlite:///file.db, or sqlite:////folder/file.db from the root",
        )
    path = Path(name)
    if not path.parent.exists() and Path("/", name).parent.exists() and path.parent.parts:
        raise ConfigurationError(
            "journal",
            f"sqlite:///{name} names a file in {path.parent}, below the current folder",
            fix=f"From the root it has four slashes: sqlite:////{name}",
        )
    return path.resolve()


def _get_shared_journal(name: str, make: Callable[[], OpenedJournal]) -> OpenedJournal:
    """The journal that this process has under that name; a fork cannot use those of its parent."""
    place = (os.getpid(), name)
    with _lock:
        kept = _open.get(place)
        if kept is None or kept.closed:
            kept = _open[place] = make()
        return kept


def _open_sqlite(path: Path) -> SqliteJournal:
    from holdfast.journal.sqlite import SqliteJournal

    return SqliteJournal(path)


def _open_postgres(url: str) -> PostgresJournal:
    from holdfast.journal.postgres import PostgresJournal

    return PostgresJournal(url)


def _suggest_fix(url: str) -> str:
    scheme, colon, _ = url.partition(":")
    if colon and len(scheme) > 1:
        return f"There is no journal for {scheme[:20]}:"
    return "For a file write sqlite:///file.db"
