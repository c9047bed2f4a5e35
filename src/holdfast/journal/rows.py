"""Records as rows of a database, and rows as records: the part that SQLite and PostgreSQL share.

It must never run a statement, and must never change what an event says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from holdfast.core.effects import Effect, digest
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import Event
from holdfast.journal.encoding import (
    Line,
    check_schema,
    damaged,
    from_json,
    line_of,
    record_of,
    to_json,
)
from holdfast.journal.port import Record

_MANY = 500  # records that take longer to decode than an event loop should wait


def checked(name: str, argument: str = "session") -> str:
    """A name as it is. Raises ConfigurationError when it is no Unicode text."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(argument, "is no valid Unicode text") from None
    return name


def written(run: str, event: Event, effect: Effect | None) -> tuple[Line, str]:
    """The row of a record: its columns, and its event as text. The number is given at the insert.

    Raises:
        ConfigurationError: the event has no JSON form, or its key is no Unicode text.
    """
    checked(event.key, "event.key")
    try:
        line = line_of(run, 0, Record(event, digest(effect) if effect else ""))
        return line, to_json(line.event).decode()
    except (TypeError, ValueError) as error:
        problem = f"{event.key} cannot be written as JSON: {error}"
        raise ConfigurationError("event", problem) from error


def line_from(row: Sequence[object], path: str) -> Line:
    """The line of a row whose columns are those of `Line`, the event as text.

    Args:
        row: the columns.
        path: the journal, for errors.

    Raises:
        JournalVersionError: a newer Holdfast wrote it.
        JournalCorruptError: it is no record.
    """
    columns = dict(zip(Line.__struct_fields__, row, strict=True))
    place = _place(path, columns["run"], columns["seq"])
    check_schema(columns["schema"], place)
    columns["event"] = from_json(str(columns["event"]), place)
    try:
        return msgspec.convert(columns, Line)
    except msgspec.ValidationError as error:
        raise damaged(place, str(error)) from error


async def records_of(lines: Sequence[Line], path: str) -> Sequence[Record]:
    """The records of lines; of many in a thread, so that nobody else waits."""
    if len(lines) < _MANY:
        return _records(lines, path)
    return await asyncio.to_thread(_records, lines, path)


def _records(lines: Sequence[Line], path: str) -> list[Record]:
    return [record_of(line, _place(path, line.run, line.seq)) for line in lines]


def _place(path: str, run: object, seq: object) -> str:
    return f"{path}, run {run!r}, record {seq}"
