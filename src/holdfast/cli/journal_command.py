"""`holdfast journal show|export|verify JOURNAL [RUN]`: what a journal holds, in a file or a database.

It must never print a control character that a model or a tool wrote, and must never change a record.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.run_printer import shorten, write_lines
from holdfast.cli.times import format_time
from holdfast.core.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast.journal.encoding import Line
    from holdfast.journal.postgres import PostgresJournal
    from holdfast.journal.sqlite import SqliteJournal

WORDS = {
    "show": "list the runs, or the records of one run, a line each",
    "export": "write the records as JSON, a line each",
    "verify": "read everything, and say what is damaged",
}


def add_arguments(sub: argparse.ArgumentParser) -> None:
    """The word, the file and the run."""
    words = "; ".join(f"{word}: {about}" for word, about in WORDS.items())
    sub.add_argument("word", choices=WORDS, help=words)
    about = "a file of SqliteJournal, which no process may have open, or sqlite:///... or postgresql://..."
    sub.add_argument("path", metavar="journal", help=about)
    sub.add_argument("run", nargs="?", help="a run, or the name of a session; default: all")


def main(given: argparse.Namespace) -> int:
    """Do it; 1 when `verify` finds damage."""
    with open_journal_at(given.path) as journal:
        runs = _select_runs(journal, given.run)
        if given.word == "verify":
            return _verify_runs(journal, runs)
        if given.word == "export":
            _export_runs(journal, runs)
        elif given.run is None:
            _list_runs(journal)
        else:
            _print_lines(map(_format_line, _read_lines(journal, given.run)))
    return 0


def open_journal_at(address: str, *, create: bool = False) -> SqliteJournal | PostgresJournal:
    """The journal of a path or an address.

    Args:
        address: the path or the address.
        create: whether it may be made; a reader must not make the one that it was to read.

    Raises:
        ConfigurationError: there is none.
    """
    if address.startswith(("postgresql:", "postgres:")):
        from holdfast.journal.postgres import PostgresJournal

        return PostgresJournal(address, create=create)
    from holdfast.journal.sqlite import SqliteJournal

    if address.startswith("sqlite:"):
        from holdfast.journal.url import sqlite_path

        address = str(sqlite_path(address))
    if not create and not Path(address).is_file():
        raise ConfigurationError("journal", f"there is no file {shorten(address)}")
    return SqliteJournal(address)


def _select_runs(journal: SqliteJournal | PostgresJournal, wanted: str | None) -> list[str]:
    runs = [entry.run for entry in asyncio.run(journal.runs())]
    if wanted is None:
        return runs
    if wanted not in runs:
        raise ConfigurationError(
            "run", f"the journal knows no run {wanted!r}", fix="`holdfast journal show` lists them"
        )
    return [wanted]


def _read_lines(journal: SqliteJournal | PostgresJournal, run: str) -> Iterable[Line]:
    return asyncio.run(journal.read_lines(run))


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


def _list_runs(journal: SqliteJournal | PostgresJournal) -> None:
    for entry in asyncio.run(journal.runs()):
        span = f"{format_time(entry.opened_at)} to {format_time(entry.changed_at)}"
        print(f"{entry.records:7}  {span}  {shorten(entry.run)}")


def _format_line(line: Line) -> str:
    from holdfast.journal.encoding import to_json

    said = to_json(line.event).decode()
    named = f"{shorten(line.key):16}  {shorten(line.type):14}"
    return f"{line.seq:5}  {format_time(line.at)}  {named}  {shorten(said)}"


def _export_runs(journal: SqliteJournal | PostgresJournal, runs: Iterable[str]) -> None:
    from holdfast.journal.encoding import encode, escape_json

    for run in runs:
        write_lines(escape_json(encode(line)) for line in _read_lines(journal, run))


def _verify_runs(journal: SqliteJournal | PostgresJournal, runs: list[str]) -> int:
    """A file itself was checked when it was opened."""
    problems = [problem for run in runs for problem in _find_problems(journal, run)]
    _print_lines(shorten(problem, 500) for problem in problems)
    if problems:
        return 1
    print(f"{len(runs)} runs: every record is whole and known, in order and there once")
    return 0


def _find_problems(journal: SqliteJournal | PostgresJournal, run: str) -> Iterator[str]:
    from holdfast.journal.encoding import record_of
    from holdfast.journal.journal_errors import JournalError

    try:
        lines = _read_lines(journal, run)
    except JournalError as error:
        yield str(error)
        return
    for number, line in enumerate(lines, 1):
        if line.seq != number:
            yield f"run {run!r}: record {number} is missing, {line.seq} follows"
            return
        try:
            record_of(line, f"{journal.path}, run {run!r}, record {line.seq}")
        except JournalError as error:
            yield str(error)
