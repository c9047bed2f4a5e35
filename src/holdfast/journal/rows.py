"""Converts records to database rows and back, for SQLite and PostgreSQL."""

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
"""The types of events that contain the text of a message or a title."""

_BLANK = '{"key":"","at":0,'
_MANY = 500  # records; decoding more would block the event loop for too long


def check_unicode(name: str, argument: str = "session") -> str:
    """Return the name. Raises ConfigurationError if it is not valid Unicode."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(argument, "is not valid Unicode text") from None
    return name


def row_of(run: str, seq: int, record: Record) -> tuple[Line, str]:
    """Make the row of a record: its columns, and its event as text.

    Args:
        run: the run.
        seq: the record's number in its run, from 1.
        record: the record.

    Raises:
        ConfigurationError: the event cannot be written as JSON, or the text of another column is
            not valid Unicode.
    """
    check_unicode(record.event.key, "event.key")
    check_unicode(record.digest, "digest")
    if isinstance(record.event, TurnOpened):
        check_unicode(record.event.agent, "name")  # PostgreSQL has a column for it
    try:
        line = to_line(run, seq, record)
        return line, to_json(line.event).decode()
    except (TypeError, ValueError) as error:
        raise _unwritable_error(record.event, error) from error


def encode_record(run: str, event: Event, effect: Effect | None) -> tuple[Line, str]:
    """Make the row of a record to append; the insert sets its number."""
    try:
        digest = effect_digest(effect) if effect else ""
    except (TypeError, ValueError) as error:
        raise _unwritable_error(event, error) from error
    return row_of(run, 0, Record(event, digest))


def _unwritable_error(event: Event, error: Exception) -> ConfigurationError:
    return ConfigurationError("event", f"{event.key} cannot be written as JSON: {error}")


def line_from(row: Sequence[object], path: str) -> Line:
    """Make the line of a row.

    Args:
        row: the columns of `Line`, with the event as text.
        path: the journal, for errors.

    Raises:
        JournalVersionError: a newer Holdfast wrote it.
        JournalCorruptError: it is not a valid record.
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
    """Decode rows; many rows are decoded in a thread, so that the event loop is not blocked.

    Args:
        rows: rows with the columns of `Line`, the event as text.
        path: the journal, for errors.
    """
    if len(rows) < _MANY:
        return _decode_rows(rows, path)
    return await asyncio.to_thread(_decode_rows, rows, path)


def _decode_rows(rows: Sequence[tuple[object, ...]], path: str) -> list[Record]:
    return [_decode_fast(row) or _decode_checked(row, path) for row in rows]


def _decode_fast(row: tuple[object, ...]) -> Record | None:
    """Decode a row without detailed checks; return None if it needs them."""
    schema, _, _, key, digest, tag, at, event = row
    if not (isinstance(event, str) and isinstance(tag, str) and isinstance(digest, str)):
        return None
    if schema != SCHEMA or type(at) is not float or type(key) is not str or event[:1] != "{":
        return None
    try:
        found = decoder_of(tag).decode(_BLANK + event[1:] if event != "{}" else _BLANK[:-1] + "}")
    except (msgspec.DecodeError, UnicodeError, ValueError, RecursionError):
        return None
    # Key and time have their own columns. Setting them is faster than adding them to the text.
    force_setattr(found, "key", key)
    force_setattr(found, "at", at)
    return Record(found, digest)


def _decode_checked(row: tuple[object, ...], path: str) -> Record:
    line = line_from(row, path)
    return record_of(line, _format_location(path, line.run, line.seq))


def _format_location(path: str, run: object, seq: object) -> str:
    return f"{path}, run {run!r}, record {seq}"
