"""`holdfast journal stats|backup|restore|prune`: the size of a journal, its copies, and old sessions."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.run_printer import shorten
from holdfast.cli.times import format_count, format_time
from holdfast.core.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast.journal.postgres.postgres_journal import PostgresJournal
    from holdfast.journal.sqlite.backup import JournalCopy
    from holdfast.journal.sqlite.sqlite_journal import SqliteJournal

    OpenedJournal = SqliteJournal | PostgresJournal

_UNITS = {"k": 10**3, "M": 10**6, "G": 10**9}
_MOST_LISTED = 10


def add_tenant(parser: argparse.ArgumentParser) -> None:
    """Add the argument for the tenant."""
    about = "the tenant of the runs; default: the one without a name"
    parser.add_argument("--tenant", help=about)


def add_stats(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `stats`."""
    parser.add_argument("path", metavar="journal", help="a SqliteJournal file, or its address")
    add_tenant(parser)


def add_backup(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `backup`."""
    parser.add_argument("path", metavar="journal", help="a SqliteJournal file")
    parser.add_argument("destination", help="a new file")


def add_restore(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `restore`."""
    parser.add_argument("path", metavar="backup", help="a file of `backup`; it is not changed")
    parser.add_argument("destination", metavar="journal", help="a new file")


def add_prune(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `prune`."""
    parser.add_argument("path", metavar="journal", help="a SqliteJournal file, or its address")
    add_tenant(parser)
    parser.add_argument(
        "--days", type=float, help="delete sessions that did not change for so many days"
    )
    parser.add_argument("--sessions", type=int, help="keep at most so many, the latest changed")
    parser.add_argument(
        "--bytes", type=_parse_bytes, help="keep at most so many bytes of records, such as 500M"
    )
    parser.add_argument(
        "--keep", action="append", default=[], metavar="SESSION", help="never delete this session"
    )
    parser.add_argument("--dry-run", action="store_true", help="only list what would be deleted")


def _parse_bytes(text: str) -> int:
    number, unit = (text[:-1], _UNITS[text[-1:]]) if text[-1:] in _UNITS else (text, 1)
    if not number.isdecimal():
        raise argparse.ArgumentTypeError("must be a number of bytes, such as 500M")
    return int(number) * unit


def print_stats(journal: OpenedJournal, _: argparse.Namespace) -> int:
    """Print the numbers of runs and records, the sizes, and the largest runs."""
    import asyncio

    entries = asyncio.run(journal.runs())
    sizes = asyncio.run(journal.sizes())
    open_turns = sum(entry.turn_open for entry in entries)
    records = sum(entry.records for entry in entries)
    runs = format_count(len(entries), "run")
    print(f"{runs}, {open_turns} of them with an open turn; {format_count(records, 'record')}")
    if entries:
        first = min(entry.opened_at for entry in entries)
        last = max(entry.changed_at for entry in entries)
        print(f"from {format_time(first)} to {format_time(last)}")
    print(f"{sum(sizes.values())} bytes of events, snapshots and media")
    for name, size in _file_sizes(journal.path).items():
        print(f"{size} bytes in {name}")
    for run in sorted(sizes, key=lambda run: (-sizes[run], run))[:_MOST_LISTED]:
        print(f"{sizes[run]:12}  {shorten(run)}")
    return 0


def _file_sizes(path: str) -> dict[str, int]:
    files = [Path(path), Path(f"{path}-wal")]
    return {file.name: file.stat().st_size for file in files if file.is_file()}


def back_up(args: argparse.Namespace) -> int:
    """Copy a journal to a new file."""
    from holdfast.journal.sqlite.backup import backup_file

    source = _require_file("journal", args.path)
    _print_copy("backup", backup_file(source, args.destination))
    return 0


def restore(args: argparse.Namespace) -> int:
    """Make a new journal of a backup."""
    import asyncio

    from holdfast.journal.sqlite.restoring import restore_backup

    source = _require_file("backup", args.path)
    copy = asyncio.run(restore_backup(source, args.destination))
    _print_copy("journal", copy)
    if copy.open_runs:
        print("These turns were open; tools that may have begun since then are in doubt:")
        for run in copy.open_runs:
            print(f"  {shorten(run)}")
    return 0


def _print_copy(what: str, copy: JournalCopy) -> None:
    print(f"{what} {shorten(copy.path, 500)}: {copy.runs} runs, {copy.records} records, verified")


def _require_file(argument: str, address: str) -> str:
    from holdfast.journal.url import sqlite_path

    if address.startswith(("postgresql:", "postgres:")):
        raise ConfigurationError(
            argument, "must be a SQLite journal", fix="Use pg_dump and pg_restore for PostgreSQL"
        )
    path = str(sqlite_path(address)) if address.startswith("sqlite:") else address
    if not Path(path).is_file():
        raise ConfigurationError(argument, f"there is no file {shorten(path)}")
    return path


def prune(journal: OpenedJournal, args: argparse.Namespace) -> int:
    """Delete old sessions, or list them."""
    import asyncio

    from holdfast.journal.retention import Retention
    from holdfast.sessions.sessions import Sessions

    retention = Retention(
        days=args.days, sessions=args.sessions, bytes=args.bytes, keep=tuple(args.keep)
    )
    pruned = asyncio.run(Sessions(journal).prune(retention, dry_run=args.dry_run))
    for session in pruned.sessions:
        print(shorten(session, 500))
    done = "would be deleted" if args.dry_run else "deleted"
    print(
        f"{len(pruned.sessions)} sessions {done}, {pruned.bytes} bytes of events, snapshots and media"
    )
    return 0


FILES: dict[str, Callable[[argparse.Namespace], int]] = {"backup": back_up, "restore": restore}
"""The actions that open the file themselves."""

JOURNALS: dict[str, Callable[[OpenedJournal, argparse.Namespace], int]] = {
    "stats": print_stats,
    "prune": prune,
}
"""The actions of a journal that is open."""
