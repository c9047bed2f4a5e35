"""Converts records to database rows and back, for SQLite and PostgreSQL.

Each row has a checksum of its content, its number, its run and its tenant. A row that was changed,
or moved to another place, is not read. A row has the columns of `Line`, with the event as text, and
then the checksum.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec.structs import force_setattr

from holdfast.core.effects import Effect, effect_digest
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import Event, TurnOpened
from holdfast.journal.encoding import (
    SCHEMA,
    Line,
    check_schema,
    check_time,
    corrupt_record,
    decoder_of,
    encode_event,
    from_json,
    is_time,
    record_of,
)
from holdfast.journal.journal_errors import JournalCorruptError
from holdfast.journal.journal_names import check_unicode
from holdfast.journal.pieces import map_in_pieces
from holdfast.journal.port import Record

Row: TypeAlias = tuple[object, ...]
T = TypeVar("T")

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
RESTORE_RECORD = "Restore it from a backup"
SEQ = 2
"""The position of the record's number in a row."""

_EVENT = 7
_NO_FIELDS: dict[str, object] = {}

# Decoding more than so many records, or letters, would block the event loop for too long.
_MANY = 100
_LONG = 100_000


class EncodedRow(NamedTuple):
    """A record as a row; `line` has the other columns, and the event is only in its own.

    `checksum` does not cover the number of the record; `number_checksum` adds that.
    """

    line: Line
    event: str
    checksum: int


def compute_checksum(tenant: str, line: Line, event: str) -> int:
    """Compute the checksum of a row without its number, as a signed number of 64 bits."""
    at = repr(line.at + 0.0)  # a database makes 0.0 of 0 and of -0.0
    return _hash_columns(
        (tenant, line.run, line.key, line.digest, line.type, at, str(line.schema), event)
    )


def _hash_columns(columns: tuple[str, ...]) -> int:
    digest = blake2b("\0".join(columns).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def number_checksum(checksum: int, seq: int) -> int:
    """Add the number of a record to its checksum. A second call takes it away.

    The number is not hashed, because a server assigns it when it saves the record.
    """
    return checksum ^ seq


def encode_row(tenant: str, run: str, seq: int, record: Record) -> EncodedRow:
    """Make the row of a record.

    Args:
        tenant: the tenant of the run.
        run: the run.
        seq: the record's number in its run, from 1; 0 if the insert sets it.
        record: the record.

    Raises:
        ConfigurationError: the event cannot be written as JSON, or the text of another column is
            not valid Unicode.
    """
    event = record.event
    check_unicode(event.key, "event.key")
    check_unicode(record.digest, "digest")
    if not is_time(event.at):
        raise ConfigurationError(
            "event.at", f"must be seconds since the epoch in the years 1 to 9999, got {event.at}"
        )
    if isinstance(event, TurnOpened):
        check_unicode(event.agent, "name")  # the table of runs has a column for it
        check_unicode(event.request, "request")
    try:
        body = encode_event(event)
    except (TypeError, ValueError) as error:
        raise _unwritable_error(event, error) from error
    tag = str(event.__struct_config__.tag)
    line = Line(SCHEMA, run, seq, event.key, record.digest, type=tag, at=event.at, event=_NO_FIELDS)
    return EncodedRow(line, body, compute_checksum(tenant, line, body))


def encode_append(tenant: str, run: str, event: Event, effect: Effect | None) -> EncodedRow:
    """Make the row of an event to append; the insert sets its number."""
    try:
        digest = effect_digest(effect) if effect else ""
    except (TypeError, ValueError) as error:
        raise _unwritable_error(event, error) from error
    return encode_row(tenant, run, 0, Record(event, digest))


def count_bytes(rows: Sequence[EncodedRow]) -> int:
    """Return the bytes of the events of rows, as they are before their media are moved out."""
    return sum(len(row.event) if row.event.isascii() else len(row.event.encode()) for row in rows)


def _unwritable_error(event: Event, error: Exception) -> ConfigurationError:
    return ConfigurationError("event", f"{event.key} cannot be written as JSON: {error}")


async def convert_rows(convert: Callable[[Row], T], rows: Sequence[Row]) -> list[T]:
    """Convert rows; many or long ones in a thread, so that the event loop is not blocked."""
    if len(rows) < _MANY and sum(len(str(row[_EVENT])) for row in rows) < _LONG:
        return [convert(row) for row in rows]
    return await asyncio.to_thread(map_in_pieces, convert, rows)


class RowReader:
    """Decodes the rows of one tenant, and checks them.

    Args:
        path: the journal, for errors.
        tenant: the tenant.
    """

    __slots__ = ("_path", "_tenant")

    def __init__(self, path: str, tenant: str) -> None:
        self._path = path
        self._tenant = tenant

    def format_location(self, run: object, seq: object | None = None) -> str:
        """Name a run, or one record of it, in errors."""
        tenant = f", tenant {self._tenant!r}" if self._tenant else ""
        number = "" if seq is None else f", record {seq}"
        return f"{self._path}{tenant}, run {run!r}{number}"

    def check_sequence(self, rows: Sequence[Row], run: str, after: int, total: int) -> None:
        """Raise JournalCorruptError if a record of a run is missing.

        Args:
            rows: the rows after number `after`, in order.
            run: the run.
            after: the number of records that were not selected.
            total: the number of records that the run must have.
        """
        if [row[SEQ] for row in rows] == list(range(after + 1, total + 1)):
            return
        wanted = after + 1
        for row in rows:
            if row[SEQ] != wanted:
                break
            wanted += 1
        problem = "is missing" if wanted <= total else "is one more than were saved"
        raise JournalCorruptError(self.format_location(run, wanted), problem, fix=RESTORE_RECORD)

    def to_line(self, row: Row) -> Line:
        """Make the line of a row.

        Raises:
            JournalVersionError: a newer Holdfast wrote it.
            JournalCorruptError: it is not the record that was saved.
        """
        *values, checksum = row
        columns = dict(zip(Line.__struct_fields__, values, strict=True))
        place = self.format_location(columns["run"], columns["seq"])
        check_schema(columns["schema"], place)
        event = str(columns["event"])
        columns["event"] = {}
        try:
            line = msgspec.convert(columns, Line)
        except (msgspec.ValidationError, ValueError) as error:
            raise corrupt_record(place, str(error)) from error
        if checksum != number_checksum(compute_checksum(self._tenant, line, event), line.seq):
            raise corrupt_record(place, "its checksum is wrong, so it was changed")
        check_time(line.at, place)
        return msgspec.structs.replace(line, event=from_json(event, place))

    async def to_records(self, rows: Sequence[Row]) -> Sequence[Record]:
        """Decode rows."""
        return await convert_rows(self._decode_row, rows)

    def _decode_row(self, row: Row) -> Record:
        return self._decode_fast(row) or self._decode_checked(row)

    def _decode_fast(self, row: Row) -> Record | None:
        """Decode a row without detailed checks; return None if it needs them."""
        schema, run, seq, key, digest, tag, at, event, checksum = row
        if not (isinstance(event, str) and isinstance(tag, str) and isinstance(digest, str)):
            return None
        if schema != SCHEMA or type(at) is not float or type(key) is not str or event[:1] != "{":
            return None
        if type(run) is not str or type(seq) is not int or not is_time(at):
            return None
        found = _hash_columns((self._tenant, run, key, digest, tag, repr(at), str(schema), event))
        if checksum != number_checksum(found, seq):
            return None
        try:
            decoded = decoder_of(tag).decode(
                _BLANK + event[1:] if event != "{}" else _BLANK[:-1] + "}"
            )
        except (msgspec.DecodeError, UnicodeError, ValueError, RecursionError):
            return None
        # Key and time have their own columns. Setting them is faster than adding them to the text.
        force_setattr(decoded, "key", key)
        force_setattr(decoded, "at", at)
        return Record(decoded, digest)

    def _decode_checked(self, row: Row) -> Record:
        line = self.to_line(row)
        return record_of(line, self.format_location(line.run, line.seq))
