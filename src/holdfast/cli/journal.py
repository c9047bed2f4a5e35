"""`holdfast journal show|export|verify JOURNAL [RUN]`: what a journal holds, in a file or a database.

It must never print a control character that a model or a tool wrote, and must never change a record.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.show import shorten, write_lines
from holdfast.cli.times import moment
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
    with opened(given.path) as journal:
        runs = _runs(journal, given.run)
        if given.word == "verify":
            return _verify(journal, runs)
        if given.word == "export":
            _export(journal, runs)
        elif given.run is None:
            _list(journal)
        else:
            _print(map(_described, _lines(journal, given.run)))
    return 0


def opened(place: str, *, make: bool = False) -> SqliteJournal | PostgresJournal:
    """The journal of a path or an address.

    Args:
        place: the path or the address.
        make: whether it may be made; a reader must not make the one that it was to read.

    Raises:
        ConfigurationError: there is none.
    """
    if place.startswith(("postgresql:", "postgres:")):
        from holdfast.journal.postgres import PostgresJournal

        return PostgresJournal(place, create=make)
    from holdfast.journal.sqlite import SqliteJournal

    if place.startswith("sqlite:"):
        from holdfast.journal.url import sqlite_path

        place = str(sqlite_path(place))
    if not make and not Path(place).is_file():
        raise ConfigurationError("journal", f"there is no file {shorten(place)}")
    return SqliteJournal(place)


def _runs(journal: SqliteJournal | PostgresJournal, wanted: str | None) -> list[str]:
    runs = [entry.run for entry in asyncio.run(journal.runs())]
    if wanted is None:
        return runs
    if wanted not in runs:
        raise ConfigurationError(
            "run", f"the journal knows no run {wanted!r}", fix="`holdfast journal show` lists them"
        )
    return [wanted]


def _lines(journal: SqliteJournal | PostgresJournal, run: str) -> Iterable[Line]:
    return asyncio.run(journal.lines(run))


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


def _list(journal: SqliteJournal | PostgresJournal) -> None:
    for entry in asyncio.run(journal.runs()):
        span = f"{moment(entry.opened_at)} to {moment(entry.changed_at)}"
        print(f"{entry.records:7}  {span}  {shorten(entry.run)}")


def _described(line: Line) -> str:
    from holdfast.journal.encoding import to_json

    said = to_json(line.event).decode()
    named = f"{shorten(line.key):16}  {shorten(line.type):14}"
    return f"{line.seq:5}  {moment(line.at)}  {named}  {shorten(said)}"


def _export(journal: SqliteJournal | PostgresJournal, runs: Iterable[str]) -> None:
    from holdfast.journal.encoding import as_text, encode

    for run in runs:
        write_lines(as_text(encode(line)) for line in _lines(journal, run))


def _verify(journal: SqliteJournal | PostgresJournal, runs: list[str]) -> int:
    """A file itself was checked when it was opened."""
    problems = [problem for run in runs for problem in _problems(journal, run)]
    _print(shorten(problem, 500) for problem in problems)
    if problems:
        return 1
    print(f"{len(runs)} runs: every record is whole and known, in order and there once")
    return 0


def _problems(journal: SqliteJournal | PostgresJournal, run: str) -> Iterator[str]:
    from holdfast.journal.encoding import record_of
    from holdfast.journal.failures import JournalError

    try:
        lines = _lines(journal, run)
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
