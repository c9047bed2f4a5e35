"""Finds the open questions of a page of sessions, with one read of the journal.

The row of a session has the keys of its open questions, so only these records are read.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from holdfast.core.effects import TITLES, is_nested_run
from holdfast.core.events import QuestionAsked
from holdfast.core.question_log import ASKED
from holdfast.core.run_fold import split_questions
from holdfast.journal.port import Record
from holdfast.journal.rows import Row
from holdfast.journal.session_rows import SessionRow

RECORD: Final = 9
"""The number of the first columns of a row, which are those of a record."""

_OPEN = "r.tenant = {0} AND r.turn_open AND NOT r.nested AND r.questions <> ''"

SQLITE_SESSIONS = (
    "SELECT r.id, r.name, r.agent, COALESCE(t.title, r.title), r.changed_at, r.questions"  # noqa: S608  # REASON: names of our own
    " FROM runs AS r INDEXED BY runs_open"
    f" LEFT JOIN runs AS t ON t.tenant = :tenant AND t.name = r.name || '{TITLES}'"
    f" WHERE {_OPEN.format(':tenant')} AND (r.changed_at, r.name) > (:at, :name)"
    " AND COALESCE(r.agent = :agent, true) ORDER BY r.changed_at, r.name LIMIT :limit"
)
SQLITE_QUESTIONS = (
    "SELECT e.schema, '', e.seq, e.key, e.digest, e.type, e.at, e.event, e.checksum, json_extract(asked.value, '$[0]')"
    " FROM json_each(?) AS asked CROSS JOIN records AS e INDEXED BY records_by_key"
    " ON e.run = json_extract(asked.value, '$[0]') AND e.key = json_extract(asked.value, '$[1]') ORDER BY e.seq"
)

POSTGRES: Final = f"""
WITH asked AS (
  SELECT r.id, r.run, r.agent, COALESCE(t.title, r.title) AS title, r.changed_at, r.questions
  FROM holdfast_runs AS r LEFT JOIN holdfast_runs AS t
    ON t.tenant = r.tenant AND t.name = sha256(convert_to(r.run || '{TITLES}', 'UTF8')) AND t.records > 0
  WHERE {_OPEN.format("%(tenant)s")}
    AND (r.changed_at > %(at)s::float8 OR (r.changed_at = %(at)s::float8 AND r.run COLLATE "C" > %(name)s))
    AND COALESCE(r.agent = %(agent)s::text, true)
  ORDER BY r.changed_at, r.run COLLATE "C" LIMIT %(limit)s)
SELECT e.schema, asked.run, e.seq, e.key, e.digest, e.type, e.at, e.event, e.checksum,
  asked.agent, asked.title, asked.changed_at
FROM asked
CROSS JOIN LATERAL unnest(string_to_array(btrim(asked.questions, E'\\n'), E'\\n\\n')) AS wanted (key)
JOIN LATERAL (
  SELECT * FROM holdfast_records
  WHERE run_id = asked.id AND key = wanted.key || '{ASKED}'
    AND hashtextextended(key, 0) = hashtextextended((wanted.key || '{ASKED}') COLLATE "C", 0)
  OFFSET 0) AS e ON true
ORDER BY asked.changed_at, asked.run COLLATE "C", e.seq
"""  # noqa: S608  # REASON: of constants only
"""The records of the open questions of a page, each with the columns of its session that a page shows."""


class QuestionQuery(Struct, frozen=True, kw_only=True):
    """Of which sessions the open questions are found: those that have changed longest ago.

    Args:
        limit: the maximum number of sessions.
        after: time and name of the run after which the page begins.
        agent: only sessions whose last turn has this agent.
    """

    limit: int
    after: tuple[float, str] = (0.0, "")
    agent: str | None = None

    def make_values(self, tenant: str) -> dict[str, object]:
        """Return the values of a statement."""
        at, name = self.after
        return {
            "tenant": tenant,
            "at": at,
            "name": name,
            "agent": self.agent,
            "limit": self.limit,
        }


class ListedQuestion(Struct, frozen=True):
    """An open question, with the columns of its session that a page shows.

    Args:
        run: the session.
        agent: the agent of its last turn.
        title: its title.
        changed_at: the time of its latest record.
        event: the question.
    """

    run: str
    agent: str
    title: str
    changed_at: float
    event: QuestionAsked


def select_questions(
    tenant: str,
    wanted: QuestionQuery,
    put_media_back: Callable[[sqlite3.Connection, Row], Row],
    connection: sqlite3.Connection,
) -> list[Row]:
    """Select the records of the open questions of a page in SQLite; see `POSTGRES`."""
    found = connection.execute(SQLITE_SESSIONS, wanted.make_values(tenant)).fetchall()
    sessions = {number: (name, tuple(more)) for number, name, *more, _ in found}
    asked = [
        (number, f"{key}{ASKED}")
        for number, *_, questions in found
        for key in split_questions(questions)
    ]
    rows: dict[int, list[Row]] = {number: [] for number in sessions}
    for schema, _, *record, number in connection.execute(SQLITE_QUESTIONS, (json.dumps(asked),)):
        name, more = sessions[number]
        rows[number].append(put_media_back(connection, (schema, name, *record, *more)))
    return [row for page in rows.values() for row in page]


def to_questions(rows: Sequence[Row], records: Sequence[Record]) -> list[ListedQuestion]:
    """Return the questions of rows whose records are decoded."""
    return [
        ListedQuestion(str(row[1]), str(row[9]), str(row[10]), float(str(row[11])), record.event)
        for row, record in zip(rows, records, strict=True)
        if isinstance(record.event, QuestionAsked)
    ]


def find_asking(rows: Iterable[SessionRow], wanted: QuestionQuery) -> list[SessionRow]:
    """Find the sessions of a page among all rows, as the statements of a database do."""
    found = [
        row
        for row in rows
        if row.turn_open
        and row.questions
        and not is_nested_run(row.run)
        and (row.changed_at, row.run) > wanted.after
        and wanted.agent in (None, row.agent)
    ]
    return sorted(found, key=lambda row: (row.changed_at, row.run))[: wanted.limit]


def find_title(rows: Mapping[str, SessionRow], row: SessionRow) -> str:
    """Return the title of a session, which is that of the run of its titles if it has one."""
    titles = rows.get(row.run + TITLES)
    return row.title if titles is None else titles.title


def pick_questions(row: SessionRow, title: str, records: Iterable[Record]) -> list[ListedQuestion]:
    """Return the open questions of a session from its records."""
    asked = {f"{key}{ASKED}" for key in row.questions}
    events = (record.event for record in records)
    return [
        ListedQuestion(row.run, row.agent, title, row.changed_at, event)
        for event in events
        if isinstance(event, QuestionAsked) and event.key in asked
    ]
