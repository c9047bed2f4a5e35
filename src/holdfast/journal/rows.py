"""Records as rows of a database, and rows as records: the part that SQLite and PostgreSQL share.

It must never run a statement, and must never change what an event says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
from msgspec.structs import force_setattr

from holdfast.core.effects import Effect, effect_digest
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import Event, TurnOpened
from holdfast.journal.encoding import (
    SCHEMA,
    Line,
    check_schema,
    corrupt_record,
    decoder_of,
    from_json,
    record_of,
    to_json,
    to_line,
)
from holdfast.journal.port import Record

SAID = (
    "turn_opened",
    "model_replied",
    "tool_finished",
    "turn_stopped",
    "history_compacted",
    "session_titled",
)
"""The types of events that hold what somebody said."""

_BLANK = '{"key":"","at":0,'
_MANY = 500  # records that take longer to decode than an event loop should wait


def check_unicode(name: str, argument: str = "session") -> str:
    """A name as it is. Raises ConfigurationError when it is no Unicode text."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(argument, "is no valid Unicode text") from None
    return name


def row_of(run: str, seq: int, record: Record) -> tuple[Line, str]:
    """The row of a record: its columns, and its event as text.

    Args:
        run: the run.
        seq: the record's number in its run, from 1.
        record: what to keep.

    Raises:
        ConfigurationError: the event has no JSON form, or what a database keeps beside it is no
            Unicode text.
    """
    check_unicode(record.event.key, "event.key")
    check_unicode(record.digest, "digest")
    if isinstance(record.event, TurnOpened):
        check_unicode(record.event.agent, "name")  # a list of all runs shows it
    try:
        line = to_line(run, seq, record)
        return line, to_json(line.event).decode()
    except (TypeError, ValueError) as error:
        raise _unwritable_error(record.event, error) from error


def encode_record(run: str, event: Event, effect: Effect | None) -> tuple[Line, str]:
    """The row of a record that is appended; its number is given at the insert."""
    try:
        ended = effect_digest(effect) if effect else ""
    except (TypeError, ValueError) as error:
        raise _unwritable_error(event, error) from error
    return row_of(run, 0, Record(event, ended))


def _unwritable_error(event: Event, error: Exception) -> ConfigurationError:
    return ConfigurationError("event", f"{event.key} cannot be written as JSON: {error}")


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
    place = _format_location(path, columns["run"], columns["seq"])
    check_schema(columns["schema"], place)
    columns["event"] = from_json(str(columns["event"]), place)
    try:
        return msgspec.convert(columns, Line)
    except (msgspec.ValidationError, ValueError) as error:
        raise corrupt_record(place, str(error)) from error


async def records_from(rows: Sequence[tuple[object, ...]], path: str) -> Sequence[Record]:
    """The records of rows; of many in a thread, so that nobody else waits.

    Args:
        rows: their columns are those of `Line`, the event as text.
        path: the journal, for errors.
    """
    if len(rows) < _MANY:
        return _decode_rows(rows, path)
    return await asyncio.to_thread(_decode_rows, rows, path)


def _decode_rows(rows: Sequence[tuple[object, ...]], path: str) -> list[Record]:
    return [_decode_fast(row) or _decode_checked(row, path) for row in rows]


def _decode_fast(row: tuple[object, ...]) -> Record | None:
    """The record of an ordinary row; None when something about it has to be looked at."""
    schema, _, _, key, digest, tag, at, event = row
    if not (isinstance(event, str) and isinstance(tag, str) and isinstance(digest, str)):
        return None
    if schema != SCHEMA or type(at) is not float or type(key) is not str or event[:1] != "{":
        return None
    try:
        found = decoder_of(tag).decode(_BLANK + event[1:] if event != "{}" else _BLANK[:-1] + "}")
    except (msgspec.DecodeError, UnicodeError, ValueError, RecursionError):
        return None
    # They have columns of their own, and are put back without writing them into the text first.
    force_setattr(found, "key", key)
    force_setattr(found, "at", at)
    return Record(found, digest)


def _decode_checked(row: tuple[object, ...], path: str) -> Record:
    line = line_from(row, path)
    return record_of(line, _format_location(path, line.run, line.seq))


def _format_location(path: str, run: object, seq: object) -> str:
    return f"{path}, run {run!r}, record {seq}"
