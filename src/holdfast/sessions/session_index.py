"""The methods by which a journal finds single runs and records, and a substitute for journals without them.

Every journal works: `to_index` implements the missing methods by reading whole runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self, runtime_checkable

from holdfast.journal.open_questions import (
    ListedQuestion,
    QuestionQuery,
    find_asking,
    find_title,
    pick_questions,
)
from holdfast.journal.port import Journal, Record, RunEntry
from holdfast.journal.run_summary import fold_run, select_recent
from holdfast.journal.session_rows import SessionQuery, SessionRow, make_row, select_sessions


@runtime_checkable
class SessionIndex(Journal, Protocol):
    """A journal that finds single runs and records without reading all of them."""

    async def find_runs(self, first: str, last: str) -> Sequence[RunEntry]:
        """Return the runs from one name to another, both included, sorted by name.

        Names are compared by the numbers of their characters in Unicode.
        """
        ...

    async def recent_runs(
        self, limit: int, before: tuple[float, str] | None = None
    ) -> Sequence[RunEntry]:
        """Return the runs that changed last, without those of subagents; the latest first.

        Runs that changed at the same time are sorted by name.

        Args:
            limit: the maximum number of runs.
            before: time and name of the last run of the previous page.
        """
        ...

    async def list_sessions(self, wanted: SessionQuery) -> Sequence[SessionRow]:
        """Return the sessions of a page, the latest change first, without reading their records.

        The titles of a session that has no turns are a session of the list too.

        Args:
            wanted: which sessions the page has.
        """
        ...

    async def list_questions(self, wanted: QuestionQuery) -> Sequence[ListedQuestion]:
        """Return the open questions of a page of sessions; the latest change of a session last.

        Args:
            wanted: which sessions the page has.
        """
        ...

    async def keys(self, run: str) -> Sequence[str]:
        """Return the keys of a run, in order of the records."""
        ...

    async def read_by_keys(self, run: str, keys: Sequence[str]) -> Sequence[Record]:
        """Return the records of a run that have one of these keys, in order."""
        ...

    async def find_words(self, words: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Return run and key of each record that may contain all of these words, the newest first.

        Upper and lower case are equal. The result may contain records without the words, but it
        must contain every record with them.

        Args:
            words: the words; an empty sequence selects all records.
        """
        ...


def to_index(journal: Journal) -> SessionIndex:
    """Return the journal itself, or a wrapper that adds the methods of `SessionIndex`."""
    return journal if isinstance(journal, SessionIndex) else ScanningIndex(journal)


class ScanningIndex:
    """Implements `SessionIndex` on the methods of any journal.

    Args:
        journal: the journal.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.append, self.read = journal.append, journal.read
        self.runs, self.delete = journal.runs, journal.delete
        self.restore, self.find_request = journal.restore, journal.find_request
        self.find_requests = journal.find_requests
        self.save_act, self.find_act = journal.save_act, journal.find_act
        self.list_acts = journal.list_acts
        self.tenant = journal.tenant

    def for_tenant(self, tenant: str) -> Self:
        """Return the journal of another tenant."""
        return type(self)(self._journal.for_tenant(tenant))

    async def find_runs(self, first: str, last: str) -> Sequence[RunEntry]:
        """Return the runs from one name to another, by listing all."""
        return [entry for entry in await self._journal.runs() if first <= entry.run <= last]

    async def recent_runs(
        self, limit: int, before: tuple[float, str] | None = None
    ) -> Sequence[RunEntry]:
        """Return the runs that changed last, by listing all."""
        return select_recent(await self._journal.runs(), limit, before)

    async def list_sessions(self, wanted: SessionQuery) -> Sequence[SessionRow]:
        """Return the sessions of a page, by reading all runs."""
        rows = await self._read_rows()
        return select_sessions(
            rows.values(), wanted, lambda run: rows[run].title if run in rows else None
        )

    async def list_questions(self, wanted: QuestionQuery) -> Sequence[ListedQuestion]:
        """Return the open questions of a page, by reading all runs."""
        rows = await self._read_rows()
        return [
            question
            for row in find_asking(rows.values(), wanted)
            for question in pick_questions(row, find_title(rows, row), await self.read(row.run))
        ]

    async def _read_rows(self) -> dict[str, SessionRow]:
        return {
            entry.run: make_row(entry, fold_run(await self._journal.read(entry.run)))
            for entry in await self._journal.runs()
        }

    async def keys(self, run: str) -> Sequence[str]:
        """Return all keys, by reading the run."""
        return [record.event.key for record in await self._journal.read(run)]

    async def read_by_keys(self, run: str, keys: Sequence[str]) -> Sequence[Record]:
        """Return the records with these keys, by reading the run."""
        wanted = set(keys)
        return [record for record in await self._journal.read(run) if record.event.key in wanted]

    async def find_words(self, words: Sequence[str]) -> Sequence[tuple[str, str]]:  # noqa: ARG002  # REASON: the search checks the text
        """Return every record, the latest changed run first."""
        entries: Sequence[RunEntry] = await self._journal.runs()
        found: list[tuple[str, str]] = []
        for entry in sorted(entries, key=lambda entry: entry.changed_at, reverse=True):
            found += ((entry.run, key) for key in reversed(await self.keys(entry.run)))
        return found
