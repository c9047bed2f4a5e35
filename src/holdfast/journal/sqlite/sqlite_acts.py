"""The acts in a SQLite journal; an act is inserted in the transaction of its records.

The writer thread calls these functions with its connection.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from holdfast.core.acts import Act
from holdfast.journal.journal_errors import RequestExistsError

_COLUMNS = "id, act, session, made_by, at, details, digest"
_INSERT = f"INSERT INTO acts (tenant, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608  # REASON: made of constants
_FIND = f"SELECT {_COLUMNS} FROM acts WHERE tenant = ? AND id = ?"  # noqa: S608  # REASON: as above
_LIST = (
    f"SELECT {_COLUMNS} FROM acts WHERE tenant = ? AND session = ?"  # noqa: S608  # REASON: as above
    " ORDER BY at DESC, id DESC LIMIT ?"
)
_DELETE = "DELETE FROM acts WHERE tenant = ? AND session = ?"


def check_new_act(tenant: str, act: Act | None, connection: sqlite3.Connection) -> None:
    """Raise RequestExistsError if there is an act with this id."""
    if act is not None and select_act(tenant, act.id, connection) is not None:
        raise RequestExistsError(act.id)


def insert_act(tenant: str, act: Act | None, connection: sqlite3.Connection) -> None:
    """Insert an act that is new; nothing for None."""
    if act is not None:
        values = (act.id, act.act, act.session, act.by, act.at, act.details, act.digest)
        connection.execute(_INSERT, (tenant, *values))


def insert_new_act(tenant: str, act: Act, connection: sqlite3.Connection) -> None:
    """Insert an act. Raises RequestExistsError if there is one with this id."""
    check_new_act(tenant, act, connection)
    insert_act(tenant, act, connection)


def select_act(tenant: str, act_id: str, connection: sqlite3.Connection) -> Act | None:
    """Select the act with this id."""
    row = connection.execute(_FIND, (tenant, act_id)).fetchone()
    return _to_act(row) if row else None


def select_acts(
    tenant: str, session: str, limit: int, connection: sqlite3.Connection
) -> Sequence[Act]:
    """Select the latest acts on a session, the oldest of them first."""
    rows = connection.execute(_LIST, (tenant, session, max(limit, 0))).fetchall()
    return [_to_act(row) for row in reversed(rows)]


def delete_acts(tenant: str, sessions: Sequence[str], connection: sqlite3.Connection) -> None:
    """Delete the acts on sessions."""
    connection.executemany(_DELETE, [(tenant, session) for session in sessions])


def _to_act(row: tuple[str, str, str, str, float, str, str]) -> Act:
    act_id, act, session, by, at, details, digest = row
    return Act(id=act_id, act=act, session=session, by=by, at=at, details=details, digest=digest)
