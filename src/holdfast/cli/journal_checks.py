"""`holdfast journal export` and `verify`: every run that can be read, and what is damaged.

A damaged run must not prevent the others from being read.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from holdfast.cli.run_printer import shorten, write_lines

if TYPE_CHECKING:
    from holdfast.journal.postgres import PostgresJournal
    from holdfast.journal.sqlite import SqliteJournal

_LONGEST = 500


def export_runs(journal: SqliteJournal | PostgresJournal, runs: Sequence[str]) -> int:
    """Write the records of runs as JSON, one per line; return 1 if a run cannot be read."""
    from holdfast.journal.encoding import encode, escape_json
    from holdfast.journal.journal_errors import JournalError

    problems = 0
    for run in runs:
        try:
            lines = asyncio.run(journal.read_lines(run))
        except JournalError as error:
            problems += 1
            print(f"holdfast: {shorten(str(error), _LONGEST)}", file=sys.stderr)
        else:
            write_lines(escape_json(encode(line)) for line in lines)
    return 1 if problems else 0


def verify_journal(journal: SqliteJournal | PostgresJournal) -> int:
    """Check the file and the records of all runs of all tenants; return 1 if one is damaged."""
    count, problems = 0, list(_find_file_problems(journal))
    for tenant in asyncio.run(journal.tenants()):
        view = journal.for_tenant(tenant)
        runs = asyncio.run(view.names())
        count += len(runs)
        problems += [problem for run in runs for problem in _find_problems(view, run)]
    orphans = asyncio.run(journal.count_orphans())
    if orphans:
        problems.append(f"{journal.path}: {orphans} records belong to no run")
    return _report(count, problems)


def verify_runs(journal: SqliteJournal | PostgresJournal, runs: Sequence[str]) -> int:
    """Check the records of these runs; return 1 if one is damaged."""
    problems = [problem for run in runs for problem in _find_problems(journal, run)]
    return _report(len(runs), problems)


def _report(count: int, problems: Sequence[str]) -> int:
    for problem in problems:
        print(shorten(problem, _LONGEST))
    if problems:
        return 1
    print(f"{count} runs: every record is complete, readable and in order")
    return 0


def _find_file_problems(journal: SqliteJournal | PostgresJournal) -> Iterator[str]:
    from holdfast.journal.journal_errors import JournalError
    from holdfast.journal.read_only import ReadOnlySqliteJournal

    if isinstance(journal, ReadOnlySqliteJournal):
        try:
            asyncio.run(journal.check_pages())
        except JournalError as error:
            yield str(error)


def _find_problems(journal: SqliteJournal | PostgresJournal, run: str) -> Iterator[str]:
    from holdfast.journal.encoding import record_of
    from holdfast.journal.journal_errors import JournalError

    try:
        lines = asyncio.run(journal.read_lines(run))
    except JournalError as error:
        yield str(error)
        return
    for line in lines:
        try:
            record_of(line, f"{journal.path}, run {run!r}, record {line.seq}")
        except JournalError as error:
            yield str(error)
