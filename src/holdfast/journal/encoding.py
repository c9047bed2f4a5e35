r"""Encodes journal records as text: one JSON object per line.

    {"schema":1,"run":"alice","seq":1,"key":"t1","digest":"","type":"turn_opened","at":2.0,"event":{...}}

`event` contains the fields of the event except type, key and time. Every member of the union
`Event` can be encoded. Rules for editing: a change that an older Holdfast cannot read increases
`SCHEMA`, and records of a lower number stay readable. Unknown schemas and types raise an error.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from holdfast.core.events import Event
from holdfast.core.printable import escape_invisible_json
from holdfast.journal.journal_errors import JournalCorruptError, JournalError, JournalVersionError
from holdfast.journal.port import Record

SCHEMA = 1

_UPGRADE = "Update Holdfast to the version that wrote it, or a newer one"
_FIRST_TIME, _END_OF_TIMES = -62_135_596_800.0, 253_402_300_800.0

_HEAD = ("type", "key", "at")
_AT = ',"at":'
_encode = msgspec.json.Encoder().encode


class Line(Struct, frozen=True):
    """A record with its run and number: the fields of a line, in their order."""

    schema: int
    run: str
    seq: int
    key: str
    digest: str
    type: str
    at: float
    event: dict[str, object]


def to_line(run: str, seq: int, record: Record) -> Line:
    """Make the line of a record.

    Args:
        run: the run.
        seq: the record's number in its run, from 1.
        record: the record.
    """
    body: dict[str, object] = msgspec.to_builtins(record.event)
    tag = str(body["type"])
    for name in _HEAD:
        body.pop(name)
    return Line(
        schema=SCHEMA,
        run=run,
        seq=seq,
        key=record.event.key,
        digest=record.digest,
        type=tag,
        at=record.event.at,
        event=body,
    )


def encode(line: Line) -> bytes:
    """Encode a line as UTF-8, without a line end."""
    return to_json(line)


def encode_event(event: Event) -> str:
    """Encode the fields of an event, as `to_line` has them, without making a dictionary.

    Every type of event begins with its key and its time. JSON escapes the quotes of a key, so the
    first `,"at":` is before the time, and the first comma after it is before the other fields.
    """
    try:
        text = _encode(event).decode()
    except UnicodeEncodeError:
        return to_json(to_line("", 0, Record(event)).event).decode()
    end = text.find(",", text.index(_AT) + len(_AT))
    return "{" + text[end + 1 :] if end > 0 else "{}"


def escape_json(data: bytes) -> str:
    r"""Decode JSON and escape its invisible characters; the value stays the same.

    >>> escape_json('"a\x9bb"'.encode())
    '"a\\u009bb"'
    """
    return escape_invisible_json(data.decode())


def decode(data: bytes | str, location: str = "line") -> Line:
    """Read one line; `record_of` then makes its event.

    Args:
        data: the text.
        location: names the source in errors.

    Raises:
        JournalVersionError: a newer Holdfast wrote it.
        JournalCorruptError: it is not a valid record.
    """
    found = from_json(data, location)
    check_schema(found.get("schema"), location)
    try:
        line = msgspec.convert(found, Line)
    except (msgspec.ValidationError, ValueError) as error:
        raise corrupt_record(location, str(error)) from error
    check_time(line.at, location)
    return line


def record_of(line: Line, location: str = "line") -> Record:
    """Make the record of a line, equal to the one that was written.

    Raises:
        JournalVersionError: this version does not know its schema or type of event.
        JournalCorruptError: its content does not match its type.
    """
    check_schema(line.schema, location)
    if line.type not in TYPES:
        raise JournalVersionError(
            location, f"{line.key} is an event of the unknown type {line.type!r}", fix=_UPGRADE
        )
    whole = {**line.event, "type": line.type, "key": line.key, "at": line.at}
    try:
        return Record(msgspec.convert(whole, TYPES[line.type]), line.digest)
    except (msgspec.ValidationError, ValueError) as error:
        raise corrupt_record(f"{location}, {line.key}", str(error)) from error


def check_time(at: float, location: str) -> None:
    """Raise JournalCorruptError if a time is not in the years 1 to 9999."""
    if not is_time(at):
        raise corrupt_record(location, f"its time is {at}")


def is_time(at: float) -> bool:
    """Whether a number of seconds since the epoch is in the years 1 to 9999."""
    return _FIRST_TIME <= at < _END_OF_TIMES  # False for NaN


def check_schema(schema: object, location: str) -> None:
    """Raise an error unless this version can read records of this schema."""
    if not isinstance(schema, int) or schema < 1:
        raise corrupt_record(location, "it has no schema number")
    if schema > SCHEMA:
        raise JournalVersionError(
            location, f"has schema {schema}, and this Holdfast reads up to {SCHEMA}", fix=_UPGRADE
        )


def corrupt_record(location: str, why: str) -> JournalError:
    """Return the error of a record that cannot be read."""
    return JournalCorruptError(
        location, f"is not a valid record: {why}", fix="Restore it from a backup"
    )


def to_json(value: object) -> bytes:
    """Encode as JSON; lone surrogates, as in names of files with invalid UTF-8, are escaped."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return to_ascii_json(value)


def to_ascii_json(value: object, order: Literal["deterministic"] | None = None) -> bytes:
    """Encode as JSON with every character escaped that is not ASCII, lone surrogates too."""
    builtins = msgspec.to_builtins(value, order=order)
    return json.dumps(builtins, separators=(",", ":")).encode()


def from_json(data: bytes | str, location: str) -> dict[str, object]:
    """Decode an object that `to_json` wrote. Raises JournalCorruptError."""
    try:
        found = parse_json(data)
    except ValueError as error:
        raise corrupt_record(location, "not JSON") from error
    except RecursionError as error:
        raise corrupt_record(location, "nested too deeply") from error
    if not isinstance(found, dict):
        raise corrupt_record(location, "not an object")
    return found


def parse_json(data: bytes | str) -> object:
    """Decode a text of `to_json`. Raises ValueError if it is no JSON."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError):
        return json.loads(data)  # accepts lone surrogates


_MEMBERS: tuple[type[Event], ...] = get_args(Event)

TYPES = {str(member.__struct_config__.tag): member for member in _MEMBERS}
"""The types of events of this version, by tag."""


@cache
def decoder_of(tag: str) -> msgspec.json.Decoder[Event]:
    """Return the decoder of one type of event. Raises ValueError for an unknown type."""
    if tag not in TYPES:
        raise ValueError(f"unknown type of event: {tag}")
    return msgspec.json.Decoder(TYPES[tag])
