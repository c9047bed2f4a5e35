"""Loads a recorded run from a journal, a journal's file, or an export.

It detects damaged recordings, and never writes to its source.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from holdfast.core.errors import ConfigurationError, IllegalEventError
from holdfast.journal.encoding import decode, from_json, record_of
from holdfast.journal.journal_errors import JournalCorruptError, JournalVersionError
from holdfast.journal.port import Record
from holdfast.sessions.names import is_session

if TYPE_CHECKING:
    from holdfast.journal.port import Journal

Source: TypeAlias = "Journal | str | os.PathLike[str]"
"""A journal, its address, a file of `SqliteJournal`, or a file with an export."""

_SQLITE = b"SQLite format 3\x00"
_MOST_NAMES = 10


class Recording(Struct, frozen=True):
    """The records of one run, and their source."""

    run: str
    records: tuple[Record, ...]
    place: str


async def load_recording(
    source: Source, run: str | None = None, *, tenant: str | None = None
) -> Recording:
    """Read one run, and check that its events are possible in this order.

    Args:
        source: the source.
        run: the name of the run; optional if there is only one.
        tenant: the tenant of the run, if the source is a journal; default: that of the journal.

    Raises:
        ConfigurationError: the file or the run does not exist.
        JournalError: the recording is damaged, or a newer Holdfast wrote it.
    """
    if isinstance(source, str) and source.startswith(("postgresql:", "postgres:")):
        from holdfast.journal.postgres.postgres_journal import PostgresJournal

        # "the database", because the address may contain a password.
        with PostgresJournal(source, create=False) as shared:
            return await _from_journal(_choose_tenant(shared, tenant), run, "the database")
    if isinstance(source, str) and source.startswith("sqlite:"):
        from holdfast.journal.url import sqlite_path

        source = sqlite_path(source)
    if isinstance(source, str | os.PathLike):
        return await _from_file(Path(source), run, tenant)
    if not hasattr(source, "read"):
        raise ConfigurationError(
            "source", f"must be a journal or a file, got {type(source).__name__}"
        )
    return await _from_journal(_choose_tenant(source, tenant), run, type(source).__name__)


def _choose_tenant(journal: Journal, tenant: str | None) -> Journal:
    return journal if tenant is None else journal.for_tenant(tenant)


async def _from_journal(journal: Journal, run: str | None, place: str) -> Recording:
    if run is None:
        run = _find_only_session([entry.run for entry in await journal.runs()], place)
    records = tuple(await journal.read(run))
    if not records:
        raise _unknown_run_error(run, place)
    return _check_recording(Recording(run, records, place))


async def _from_file(path: Path, run: str | None, tenant: str | None) -> Recording:
    if _is_sqlite(path):
        from holdfast.journal.sqlite.read_only import ReadOnlySqliteJournal

        with ReadOnlySqliteJournal(path) as journal:
            return await _from_journal(_choose_tenant(journal, tenant), run, str(path))
    if tenant is not None:
        raise ConfigurationError("tenant", "is given, and an export has none", fix="Leave it out")
    runs = _read_export(path)
    run = run or _find_only_session(list(runs), str(path))
    if run not in runs:
        raise _unknown_run_error(run, str(path))
    return _check_recording(Recording(run, tuple(runs[run]), str(path)))


def _is_sqlite(path: Path) -> bool:
    # Opening a journal would create a missing file.
    if not path.is_file():
        raise ConfigurationError("source", f"there is no file {path}")
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _read_export(path: Path) -> dict[str, list[Record]]:
    """Read the export of a journal, or of a session, whose lines have checksums."""
    try:
        with path.open(encoding="utf-8") as file:
            lines = list(file)  # `splitlines` would also split at other characters
    except UnicodeDecodeError as error:
        raise _foreign_file_error(path) from error
    if lines and not any(map(_is_record, lines)):
        raise _foreign_file_error(path)
    if any('"sum":"' in line for line in lines[-1:]):
        from holdfast.sessions.session_export import import_lines

        return import_lines(lines, str(path))
    runs: dict[str, list[Record]] = {}
    for number, text in enumerate(lines, 1):
        place = f"{path}, line {number}"
        line = decode(text, place)
        records = runs.setdefault(line.run, [])
        if line.seq != len(records) + 1:
            raise _corrupt_error(
                place, f"is record {line.seq} of its run and not {len(records) + 1}"
            )
        records.append(record_of(line, place))
    return runs


def _is_record(text: str) -> bool:
    """Whether a line can be one of an export; others of it may be damaged."""
    try:
        return "schema" in from_json(text, "line")
    except JournalCorruptError:
        return False


def _check_recording(recording: Recording) -> Recording:
    """Return the recording. Raises JournalCorruptError if its events are impossible in this order."""
    from holdfast.sessions.session_history import Replay

    replay = Replay(recording.records)
    for number, record in enumerate(recording.records, 1):
        try:
            replay.apply_next()
        except IllegalEventError as error:
            place = f"{recording.place}, record {number} ({record.event.key})"
            raise _corrupt_error(place, str(error)) from error
    return recording


def _find_only_session(names: Sequence[str], place: str) -> str:
    """Return the only session, ignoring its titles and the runs of agents that it used as tools."""
    runs = [run for run in names if is_session(run)] or names
    if len(runs) == 1:
        return runs[0]
    listed = ", ".join(repr(name) for name in runs[:_MOST_NAMES])
    more = ", ..." if len(runs) > _MOST_NAMES else ""
    raise ConfigurationError(
        "run",
        f"{place} holds {len(runs)} runs{': ' if listed else ''}{listed}{more}",
        fix=f"Name one of them, such as {runs[0]!r}" if runs else "Record one first",
    )


def _unknown_run_error(run: str, place: str) -> ConfigurationError:
    return ConfigurationError(
        "run", f"{place} has no run {run!r}", fix="`holdfast journal show` lists them"
    )


def _foreign_file_error(path: Path) -> JournalVersionError:
    return JournalVersionError(
        str(path),
        "is neither a journal nor an export of one",
        fix="Pass the file of a journal, or what `holdfast journal export` printed",
    )


def _corrupt_error(place: str, why: str) -> JournalCorruptError:
    return JournalCorruptError(place, why, fix="Export it again, or restore it from a backup")
