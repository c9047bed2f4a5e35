"""Lists the sessions of a PostgreSQL journal: one statement, which reads the rows of a page by an index."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from holdfast.core.effects import TITLES
from holdfast.core.run_fold import split_questions
from holdfast.journal.journal_names import digest_name
from holdfast.journal.rows import Row
from holdfast.journal.session_rows import ENDED, NEWEST, SessionQuery, SessionRow, format_columns

_LEASED: Final = "COALESCE(r.expires > clock_timestamp(), false)"
_ORDER: Final = 'ORDER BY {0} DESC, run COLLATE "C" LIMIT %(limit)s'
_PAGE: Final = f"""
SELECT {format_columns("run", _LEASED)}
FROM (SELECT * FROM ({{parts}}) AS part {_ORDER.format("changed_at")}) AS page
JOIN holdfast_runs AS r USING (id)
LEFT JOIN holdfast_runs AS t
  ON t.tenant = r.tenant AND t.name = sha256(convert_to(r.run || '{TITLES}', 'UTF8')) AND t.records > 0
ORDER BY page.changed_at DESC, page.run COLLATE "C"
"""  # noqa: S608  # REASON: of constants only
_PART: Final = f"""
(SELECT r.id, r.run, r.changed_at FROM holdfast_runs AS r
WHERE r.tenant = %(tenant)s AND {{terms}} {_ORDER.format("{time}")})
"""  # noqa: S608  # REASON: of constants only
_IS_AFTER: Final = (
    '{0} <= %(at)s::float8 AND NOT ({0} = %(at)s::float8 AND r.run COLLATE "C" <= %(run)s)'
)
# The titles of a session that has turns are shown with it. A scalar subquery, as the server would read
# all names to hash them for EXISTS.
_IS_SESSION: Final = f"""\
NOT (right(r.run, {len(TITLES)}) = '{TITLES}' AND (
    SELECT true FROM holdfast_runs AS s WHERE s.tenant = r.tenant AND s.records > 0
    AND s.name = sha256(convert_to(left(r.run, -{len(TITLES)}), 'UTF8')) LIMIT 1) IS NOT NULL)"""  # noqa: S608  # REASON: of constants only
_IS_RUNNING: Final = f"(r.turn_open AND ({_LEASED} OR r.run = ANY(%(driven)s::text[])))"
_LISTED: Final = "status <> 'open' AND NOT nested AND listed_at IS NOT NULL"
_CLASS: Final = "(CASE WHEN {0} > 0 THEN floor(log({0}) * 9) ELSE -10000 END)"
_NEXT_CLASS: Final = f"""\
(SELECT {_CLASS.format("listed_cost")} FROM holdfast_runs
    WHERE tenant = %(tenant)s AND {_LISTED} AND listed_cost IS NOT NULL
      AND {_CLASS.format("listed_cost")} {{}} ORDER BY {_CLASS.format("listed_cost")} LIMIT 1)"""  # noqa: S608  # REASON: of constants only
_CLASSES: Final = f"""
WITH RECURSIVE newest AS MATERIALIZED (
  SELECT r.id, r.run, r.changed_at FROM (
    SELECT * FROM holdfast_runs AS r
    WHERE r.tenant = %(tenant)s AND {_LISTED} AND {_IS_AFTER.format("listed_at")}
    ORDER BY listed_at DESC, run COLLATE "C" LIMIT {NEWEST}) AS r
  WHERE listed_cost >= %(min_cost)s AND {_IS_SESSION}
  ORDER BY listed_at DESC, run COLLATE "C" LIMIT %(limit)s),
classes (class) AS (
  SELECT {_NEXT_CLASS.format(">= " + _CLASS.format("%(min_cost)s::float8"))}
  WHERE (SELECT count(*) FROM newest) < %(limit)s
  UNION ALL
  SELECT {_NEXT_CLASS.format("> classes.class")} FROM classes WHERE classes.class IS NOT NULL)
"""  # noqa: S608  # REASON: of constants only
"""The newest sessions that cost enough, and if these are too few, the classes of costs from the least on."""

_OF_CLASS: Final = f"""
(SELECT * FROM newest UNION SELECT found.* FROM classes CROSS JOIN LATERAL (
  SELECT r.id, r.run, r.changed_at FROM holdfast_runs AS r
  WHERE r.tenant = %(tenant)s AND {_CLASS.format("listed_cost")} = classes.class
    AND listed_cost IS NOT NULL AND {{terms}}
  {_ORDER.format("listed_at")}) AS found)
"""  # noqa: S608  # REASON: of constants only

_NEXT_AGENT: Final = f"""\
(SELECT left(agent, 200) FROM holdfast_runs
    WHERE tenant = %(tenant)s AND status = %(status)s AND {_LISTED} {{}}
    ORDER BY left(agent, 200) LIMIT 1)"""  # noqa: S608  # REASON: of constants only
_AGENTS: Final = f"""
WITH RECURSIVE agents (agent) AS (
  SELECT {_NEXT_AGENT.format("")}
  UNION ALL
  SELECT {_NEXT_AGENT.format("AND left(agent, 200) > agents.agent")}
  FROM agents WHERE agents.agent IS NOT NULL)
"""  # noqa: S608  # REASON: of constants only
"""The agents that have a session in this state."""

_OF_AGENT: Final = f"""
(SELECT found.* FROM agents CROSS JOIN LATERAL (
  SELECT r.id, r.run, r.changed_at FROM holdfast_runs AS r
  WHERE r.tenant = %(tenant)s AND left(r.agent, 200) = agents.agent AND {{terms}}
  {_ORDER.format("listed_at")}) AS found)
"""  # noqa: S608  # REASON: of constants only
_GROUPS: Final = {"": "", "cost": _CLASSES, "agent": _AGENTS}


def make_list(tenant: str, wanted: SessionQuery) -> tuple[str, dict[str, object]]:
    """Make the statement that selects a page, and its values."""
    at, run = wanted.before or (math.inf, "")
    statement = _PAGE.format(parts=" UNION ALL ".join(_make_parts(wanted)))
    return _GROUPS[wanted.group] + statement, {
        "tenant": tenant,
        "limit": wanted.limit,
        "at": at,
        "run": run,
        "agent": wanted.agent,
        "status": wanted.status,
        "min_cost": wanted.min_cost,
        "names": [digest_name(name) for name in wanted.names or ()],
        "driven": list(wanted.driven),
        "driven_names": [digest_name(name) for name in wanted.driven],
    }


def _make_parts(wanted: SessionQuery) -> Iterator[str]:
    """Yield the selections of which a page is made, each from one range of an index."""
    status = wanted.status
    active = ["NOT nested", *_make_terms(wanted, "changed_at", "cost")]
    if wanted.names is not None:
        yield _make_part(
            ["name = ANY(%(names)s::bytea[])", "records > 0", *active, _IS_SESSION], "changed_at"
        )
        return
    if status == "running":
        yield _make_part(["turn_open AND token IS NOT NULL", _LEASED, *active], "changed_at")
        here = "name = ANY(%(driven_names)s::bytea[]) AND turn_open"
        yield _make_part([here, f"NOT {_LEASED}", *active], "changed_at")
    if status in (None, "open"):
        yield _make_part(["turn_open AND status = 'open'", *active], "changed_at")
    if status in ("open", "running"):
        return
    listed = [_LISTED, *_make_terms(wanted, "listed_at", "listed_cost"), _IS_SESSION]
    if wanted.group:
        part = _OF_CLASS if wanted.group == "cost" else _OF_AGENT
        yield part.format(terms=" AND ".join(listed))
    elif wanted.agent is None:
        yield _make_part(listed, "listed_at")
    else:
        for one in (*ENDED, "waiting"):
            if status in (None, one):
                chosen = f"left(agent, 200) = left(%(agent)s, 200) AND status = '{one}'"
                yield _make_part([chosen, *listed], "listed_at")


def _make_part(terms: Sequence[str], time: str) -> str:
    return _PART.format(terms=" AND ".join(terms), time=time)


def _make_terms(wanted: SessionQuery, time: str, cost: str) -> Iterator[str]:
    yield _IS_AFTER.format(time)
    if wanted.agent is not None:
        yield "agent = %(agent)s"
    if wanted.min_cost is not None:
        yield f"{cost} >= %(min_cost)s"
    if wanted.status == "running" and wanted.names is not None:
        yield _IS_RUNNING
    elif wanted.status not in (None, "running"):
        yield "status = %(status)s"
        if wanted.status in ("open", "waiting"):
            yield f"NOT {_IS_RUNNING}"


def to_rows(rows: Sequence[Row]) -> list[SessionRow]:
    """Decode the rows of a page."""
    fields = SessionRow.__struct_fields__
    place = fields.index("questions")
    found = (
        dict(
            zip(
                fields,
                (*row[:place], split_questions(str(row[place])), *row[place + 1 :]),
                strict=True,
            )
        )
        for row in rows
    )
    return msgspec.convert(list(found), list[SessionRow])
