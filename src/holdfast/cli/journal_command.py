"""`holdfast journal WORD JOURNAL ...`: look into a journal, check it, copy it and make it smaller.

The words that only read work beside a process that has the journal open. Control characters in
texts of models and tools are replaced.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from holdfast.cli import upkeep_words
from holdfast.cli.run_printer import shorten, write_lines
from holdfast.cli.times import format_time
from holdfast.core.errors import ConfigurationError
from holdfast.core.redaction import redact
from holdfast.journal.journal_names import DEFAULT_TENANT

if TYPE_CHECKING:
    from holdfast.journal.encoding import Line
    from holdfast.journal.postgres.postgres_journal import PostgresJournal
    from holdfast.journal.sqlite.sqlite_journal import SqliteJournal

WORDS = {
    "show": ("list the runs, or the records of one run, one per line", "show talk.db ada"),
    "export": ("write the records as JSON, one per line", "export talk.db > all.jsonl"),
    "verify": (
        "read the records of all tenants and the whole file, and report what is damaged",
        "verify talk.db",
    ),
    "stats": ("show how many runs and records there are, and their size", "stats talk.db"),
    "backup": (
        "copy a SQLite journal to a new file while it is used, and verify the copy",
        "backup talk.db /backups/talk.db",
    ),
    "restore": (
        "make a new journal of a backup; tools of its open turns count as in doubt",
        "restore /backups/talk.db talk.db",
    ),
    "prune": (
        "delete old sessions, and give the space back; never one that is open or waits",
        "prune talk.db --days 90 --keep ada",
    ),
}

_JOURNAL = "a SqliteJournal file, or sqlite:///... or postgresql://..."


def add_arguments(sub: argparse.ArgumentParser) -> None:
    """Add a parser for each action."""
    words = sub.add_subparsers(dest="word", required=True, metavar="WORD")
    for word, (about, example) in WORDS.items():
        parser = words.add_parser(
            word,
            help=about,
            description=about,
            epilog=f"example: holdfast journal {example}",
        )
        _ADD.get(word, _add_run)(parser)


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="journal", help=_JOURNAL)
    about = "a run, or the name of a session; default: all runs"
    parser.add_argument("run", nargs="?", help=about)
    upkeep_words.add_tenant(parser)


_ADD: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "stats": upkeep_words.add_stats,
    "backup": upkeep_words.add_backup,
    "restore": upkeep_words.add_restore,
    "prune": upkeep_words.add_prune,
}


def main(args: argparse.Namespace) -> int:
    """Run the action; return 1 if `verify` or `export` finds damage."""
    if args.word in upkeep_words.FILES:
        return upkeep_words.FILES[args.word](args)
    access: Access = "change" if args.word == "prune" and not args.dry_run else "read"
    with open_journal_at(args.path, access) as opened:
        if args.word == "verify" and args.run is args.tenant is None:
            return verify_journal(opened)
        journal = opened.for_tenant(args.tenant or DEFAULT_TENANT)
        if args.word in upkeep_words.JOURNALS:
            return upkeep_words.JOURNALS[args.word](journal, args)
        runs = _select_runs(journal, args.run)
        if args.word == "verify":
            return verify_runs(journal, runs)
        if args.word == "export":
            return export_runs(journal, runs)
        if args.run is None:
            _list_runs(journal)
        else:
            _print_lines(map(_format_line, _read_lines(journal, args.run)))
    return 0


Access: TypeAlias = Literal["read", "change", "create"]
"""To read beside a process that has the journal open, to change it, or to change or create it."""


def open_journal_at(address: str, access: Access = "change") -> SqliteJournal | PostgresJournal:
    """Open the journal at a path or an address.

    Args:
        address: the path or the address.
        access: how the command uses the journal. Only "create" creates a missing one.

    Raises:
        ConfigurationError: the journal does not exist.
    """
    if address.startswith(("postgresql:", "postgres:")):
        from holdfast.journal.postgres.postgres_journal import PostgresJournal

        return PostgresJournal(address, create=access == "create")
    if address.startswith("sqlite:"):
        from holdfast.journal.url import sqlite_path

        address = str(sqlite_path(address))
    if access != "create" and not Path(address).is_file():
        raise ConfigurationError("journal", f"there is no file {shorten(redact(address))}")
    if access == "read":
        from holdfast.journal.sqlite.read_only import ReadOnlySqliteJournal

        return ReadOnlySqliteJournal(address)
    from holdfast.journal.sqlite.sqlite_journal import SqliteJournal

    return SqliteJournal(address)


def _select_runs(journal: SqliteJournal | PostgresJournal, wanted: str | None) -> Sequence[str]:
    import asyncio

    runs = asyncio.run(journal.names())
    if wanted is None:
        return runs
    if wanted not in runs:
        raise ConfigurationError(
            "run", f"the journal has no run {wanted!r}", fix="`holdfast journal show` lists them"
        )
    return [wanted]


def _read_lines(journal: SqliteJournal | PostgresJournal, run: str) -> Iterable[Line]:
    import asyncio

    return asyncio.run(journal.read_lines(run))


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


def _list_runs(journal: SqliteJournal | PostgresJournal) -> None:
    import asyncio

    for entry in asyncio.run(journal.runs()):
        span = f"{format_time(entry.opened_at)} to {format_time(entry.changed_at)}"
        print(f"{entry.records:7}  {span}  {shorten(entry.run)}")


def _format_line(line: Line) -> str:
    from holdfast.journal.encoding import to_json

    content = to_json(line.event).decode()
    name = f"{shorten(line.key):16}  {shorten(line.type):14}"
    return f"{line.seq:5}  {format_time(line.at)}  {name}  {shorten(content)}"


_LONGEST = 500


def export_runs(journal: SqliteJournal | PostgresJournal, runs: Sequence[str]) -> int:
    """Write the records of runs as JSON, one per line; return 1 if a run cannot be read."""
    import asyncio

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
    import asyncio

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
    import asyncio

    from holdfast.journal.journal_errors import JournalError
    from holdfast.journal.sqlite.read_only import ReadOnlySqliteJournal

    if isinstance(journal, ReadOnlySqliteJournal):
        try:
            asyncio.run(journal.check_pages())
        except JournalError as error:
            yield str(error)


def _find_problems(journal: SqliteJournal | PostgresJournal, run: str) -> Iterator[str]:
    import asyncio

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
