"""The acts in a PostgreSQL journal; an act is inserted in the transaction of its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, cast

from holdfast.core.acts import Act
from holdfast.journal.journal_errors import RequestExistsError
from holdfast.journal.journal_names import check_text, digest_name
from holdfast.journal.postgres.postgres_pool import Connection, Work
from holdfast.journal.rows import Row

_ActRow: TypeAlias = tuple[str, str, str, str, float, str, str]

_INSERT: Final = b"""
INSERT INTO holdfast_acts
  (tenant, id, act, session_name, session, made_by, at, details, digest)
VALUES (%(tenant)s, %(id)s, %(act)s, %(session_name)s, %(session)s, %(by)s, %(at)s, %(details)s,
  %(digest)s)
ON CONFLICT DO NOTHING RETURNING id
"""
FIND_ACT: Final = """
SELECT id, act, session, made_by, at, details, digest FROM holdfast_acts
WHERE tenant = %(tenant)s AND id = %(id)s
"""
LIST_ACTS: Final = """
SELECT id, act, session, made_by, at, details, digest FROM holdfast_acts
WHERE tenant = %(tenant)s AND session_name = %(name)s ORDER BY at DESC, id DESC LIMIT %(limit)s
"""
_DELETE: Final = b"""
DELETE FROM holdfast_acts
WHERE tenant = %(tenant)s AND session_name = %(name)s AND id <> %(except)s
"""


def make_act_values(tenant: str, act: Act) -> dict[str, object]:
    """Make the values of the statement that inserts an act.

    Raises:
        ConfigurationError: a text cannot be stored.
    """
    return {
        "tenant": tenant,
        "id": check_text(act.id, "act.id"),
        "act": act.act,
        "session_name": digest_name(act.session),
        "session": act.session,
        "by": check_text(act.by, "by"),
        "at": act.at,
        "details": check_text(act.details, "act.details"),
        "digest": act.digest,
    }


async def insert_act(connection: Connection, values: dict[str, object] | None) -> None:
    """Insert an act; nothing for None. Raises RequestExistsError if its id is taken."""
    if values is None:
        return
    cursor = await connection.execute(_INSERT, values)
    if await cursor.fetchone() is None:
        raise RequestExistsError(str(values["id"]))


async def has_act(connection: Connection, values: dict[str, object]) -> bool:
    """Whether the journal has this very act, so that an attempt before has saved it."""
    cursor = await connection.execute(FIND_ACT.encode(), values)
    row = await cursor.fetchone()
    names = ("id", "act", "session", "by", "at", "details", "digest")
    return row is not None and tuple(row) == tuple(values[name] for name in names)


async def delete_acts(
    connection: Connection, names: Mapping[str, object], act: Mapping[str, object] | None
) -> None:
    """Delete the acts on a session, but for the act that deletes it."""
    await connection.execute(_DELETE, {**names, "except": act["id"] if act is not None else ""})


def make_save_act(tenant: str, act: Act) -> Work[None]:
    """Make the work that saves an act alone. The work raises RequestExistsError."""
    values = make_act_values(tenant, act)
    tries = 0

    async def work(connection: Connection) -> None:
        nonlocal tries
        tries += 1
        if tries > 1 and await has_act(connection, values):
            return  # it was committed before the connection was lost
        await insert_act(connection, values)

    return work


def to_acts(rows: Sequence[Row]) -> list[Act]:
    """Return the acts of rows."""
    return [_to_act(cast("_ActRow", tuple(row))) for row in rows]


def _to_act(row: _ActRow) -> Act:
    act_id, act, session, by, at, details, digest = row
    return Act(id=act_id, act=act, session=session, by=by, at=at, details=details, digest=digest)
