"""Lists the sessions of a SQLite journal: one statement, which reads the rows of a page by an index.

The writer thread calls `select_sessions` with its connection.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator

import msgspec

from holdfast.core.effects import TITLES
from holdfast.core.run_fold import split_questions
from holdfast.journal.encoding import check_time, corrupt_record
from holdfast.journal.files.sqlite_schema import COST_CLASS
from holdfast.journal.rows import Row
from holdfast.journal.session_rows import ENDED, NEWEST, SessionQuery, SessionRow, format_columns

_PAGE = (
    f"SELECT {format_columns('name', '0')} FROM (SELECT * FROM ({{}})"  # noqa: S608  # REASON: names of our own
    " ORDER BY changed_at DESC, name LIMIT :limit) AS page"
    " CROSS JOIN runs AS r ON r.id = page.id"
    f" LEFT JOIN runs AS t ON t.tenant = :tenant AND t.name = page.name || '{TITLES}'"
    " ORDER BY page.changed_at DESC, page.name"
)
_PART = (
    "SELECT * FROM (SELECT id, name, changed_at FROM runs AS r {} WHERE tenant = :tenant AND {}"
    " ORDER BY changed_at DESC, name LIMIT :limit)"
)
_IS_AFTER = "changed_at <= :at AND NOT (changed_at = :at AND name <= :name)"
# The titles of a session that has turns are shown with it.
_IS_SESSION = (
    f"NOT (substr(name, -{len(TITLES)}) = '{TITLES}' AND EXISTS"  # noqa: S608  # REASON: names of our own
    " (SELECT 1 FROM runs AS s WHERE s.tenant = :tenant"
    f" AND s.name = substr(r.name, 1, length(r.name) - {len(TITLES)})))"
)
_IS_DRIVEN = "name IN (SELECT value FROM json_each(:driven))"
_LISTED = "status <> 'open' AND NOT nested"
# The classes of costs that there are, from the least one on.
_CLASS = COST_CLASS.format("cost")
_NEXT_CLASS = (
    f"SELECT MIN({_CLASS}) FROM runs INDEXED BY runs_by_cost WHERE tenant = :tenant AND {_LISTED}"  # noqa: S608  # REASON: names of our own
    f" AND cost IS NOT NULL AND {_CLASS}"
)
_CLASSES = (
    "WITH RECURSIVE newest AS MATERIALIZED (SELECT id, name, changed_at FROM"  # noqa: S608  # REASON: names of our own
    " (SELECT id, name, changed_at, cost FROM runs INDEXED BY runs_recent WHERE tenant = :tenant"
    f" AND {_LISTED} AND {_IS_AFTER} ORDER BY changed_at DESC, name LIMIT {NEWEST}) AS r"
    f" WHERE cost >= :min_cost AND {_IS_SESSION} LIMIT :limit),"  # in the order of the inner selection
    f" classes (class) AS (SELECT ({_NEXT_CLASS} >= {COST_CLASS.format(':min_cost')})"
    " WHERE (SELECT COUNT(*) FROM newest) < :limit UNION ALL"
    f" SELECT ({_NEXT_CLASS} > classes.class) FROM classes WHERE classes.class IS NOT NULL)"
)
_OF_CLASS = (
    "SELECT * FROM (SELECT * FROM newest UNION"  # noqa: S608  # REASON: names of our own
    " SELECT found.id, found.name, found.changed_at FROM classes CROSS JOIN runs AS found"  # REASON: names of our own
    " ON found.id IN (SELECT id FROM runs AS r INDEXED BY runs_by_cost WHERE tenant = :tenant"
    f" AND {_CLASS} = classes.class AND cost IS NOT NULL AND {{}}"
    " ORDER BY changed_at DESC, name LIMIT :limit))"
)

# The agents that have a session in this state.
_NEXT_AGENT = (
    "SELECT MIN(agent) FROM runs INDEXED BY runs_by_state"  # noqa: S608  # REASON: names of our own
    f" WHERE tenant = :tenant AND status = :status AND {_LISTED}"
)
_AGENTS = (
    f"WITH RECURSIVE agents (agent) AS ({_NEXT_AGENT} UNION ALL"  # noqa: S608  # REASON: names of our own
    f" SELECT ({_NEXT_AGENT} AND agent > agents.agent) FROM agents WHERE agents.agent IS NOT NULL)"
)
_OF_AGENT = (
    "SELECT * FROM (SELECT found.id, found.name, found.changed_at FROM agents"  # REASON: names of our own
    " CROSS JOIN runs AS found ON found.id IN (SELECT id FROM runs AS r INDEXED BY runs_by_state"
    " WHERE tenant = :tenant AND agent = agents.agent AND {}"
    " ORDER BY changed_at DESC, name LIMIT :limit))"
)


def select_sessions(tenant: str, wanted: SessionQuery, connection: sqlite3.Connection) -> list[Row]:
    """Select the rows of a page."""
    at, name = wanted.before or (math.inf, "")
    values = {
        "tenant": tenant,
        "limit": wanted.limit,
        "at": at,
        "name": name,
        "agent": wanted.agent,
        "status": wanted.status,
        "min_cost": wanted.min_cost,
        "names": json.dumps(wanted.names),
        "driven": json.dumps(wanted.driven),
    }
    return connection.execute(make_statement(wanted), values).fetchall()


def make_statement(wanted: SessionQuery) -> str:
    """Make the statement that selects a page."""
    parts = " UNION ALL ".join(_make_parts(wanted))
    return _GROUPS[wanted.group] + _PAGE.format(parts)


_GROUPS = {"": "", "cost": _CLASSES, "agent": _AGENTS}


def _make_parts(wanted: SessionQuery) -> Iterator[str]:
    """Yield the selections of which a page is made, each from one range of an index."""
    terms = list(_make_terms(wanted))
    status = wanted.status
    if wanted.names is not None or status == "running":
        names = ":names" if wanted.names is not None else ":driven"
        chosen = _IS_DRIVEN.replace(":driven", names)
        yield _make_part(
            "INDEXED BY sqlite_autoindex_runs_1", [chosen, "NOT nested", *terms, _IS_SESSION]
        )
        return
    if status in (None, "open"):
        yield _make_part(
            "INDEXED BY runs_open", ["turn_open", "status = 'open'", "NOT nested", *terms]
        )
    if status == "open":
        return
    listed = [_LISTED, *terms, _IS_SESSION]
    if wanted.group:
        yield (_OF_CLASS if wanted.group == "cost" else _OF_AGENT).format(" AND ".join(listed))
    elif wanted.agent is None:
        yield _make_part("INDEXED BY runs_recent", listed)
    else:
        for one in (*ENDED, "waiting"):
            if status in (None, one):
                yield _make_part("INDEXED BY runs_by_state", [f"status = '{one}'", *listed])


def _make_part(index: str, terms: list[str]) -> str:
    return _PART.format(index, " AND ".join(terms))


def _make_terms(wanted: SessionQuery) -> Iterator[str]:
    yield _IS_AFTER
    if wanted.agent is not None:
        yield "agent = :agent"
    if wanted.min_cost is not None:
        yield "cost >= :min_cost"
    if wanted.status == "running":
        yield f"turn_open AND {_IS_DRIVEN}"
    elif wanted.status is not None:
        yield "status = :status"
        if wanted.status in ("open", "waiting") and wanted.driven:
            yield f"NOT {_IS_DRIVEN}"


def to_row(row: Row, path: str) -> SessionRow:
    """Decode a row. Raises JournalCorruptError if its values are wrong."""
    fields = dict(zip(SessionRow.__struct_fields__, row, strict=True))
    fields["questions"] = split_questions(str(fields["questions"]))
    place = f"{path}, run {row[0]!r}"
    try:
        found = msgspec.convert(fields, SessionRow, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        raise corrupt_record(place, str(error)) from error
    check_time(found.opened_at, place)
    check_time(found.changed_at, place)
    return found
