r"""Journal records as text: one JSON object a line, which a person can read and any version decodes.

    {"schema":1,"run":"alice","seq":1,"key":"t1","digest":"","type":"turn_opened","at":2.0,"event":{...}}

`event` holds what the event says beside its type, key and time. Any member of the union `Event` is
taken, also those that are added later. Rules for editing: a change that an older Holdfast cannot
read raises `SCHEMA`, and what was written under a lower number is read for ever. This module must
never guess: what it does not know is refused by name.
"""

from __future__ import annotations

import json
from functools import cache
from math import isfinite
from typing import get_args

import msgspec
from msgspec import Struct

from holdfast.core.events import Event
from holdfast.journal.journal_errors import JournalCorruptError, JournalError, JournalVersionError
from holdfast.journal.port import Record

SCHEMA = 1

_UPGRADE = "Update Holdfast to the version that wrote it, or a newer one"
_HEAD = ("type", "key", "at")

OBEYED = (*range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters that JSON leaves as they are, and that a terminal may obey or a reader take for the end
of a line: old control characters, ends of lines and paragraphs, and turns of the direction."""

_ESCAPES = {code: f"\\u{code:04x}" for code in OBEYED}


class Line(Struct, frozen=True):
    """One record with its place: the fields of a line, in their order."""

    schema: int
    run: str
    seq: int
    key: str
    digest: str
    type: str
    at: float
    event: dict[str, object]


def to_line(run: str, seq: int, record: Record) -> Line:
    """The line of one record.

    Args:
        run: the run.
        seq: the record's number in its run, from 1.
        record: what to keep.
    """
    body: dict[str, object] = msgspec.to_builtins(record.event)
    tag = str(body["type"])
    for name in _HEAD:
        body.pop(name)
    return Line(SCHEMA, run, seq, record.event.key, record.digest, tag, record.event.at, body)


def encode(line: Line) -> bytes:
    """The text of one line, UTF-8, without the line's end."""
    return to_json(line)


def escape_json(data: bytes) -> str:
    r"""JSON as text on one line that no terminal obeys; it says the same.

    >>> escape_json('"a\x9bb"'.encode())
    '"a\\u009bb"'
    """
    return data.decode().translate(_ESCAPES)


def decode(data: bytes | str, location: str = "line") -> Line:
    """Read one line; the event itself is made by `record_of`.

    Args:
        data: the text.
        location: names where it came from, for errors.

    Raises:
        JournalVersionError: a newer Holdfast wrote it.
        JournalCorruptError: it is no record.
    """
    found = from_json(data, location)
    check_schema(found.get("schema"), location)
    try:
        line = msgspec.convert(found, Line)
    except (msgspec.ValidationError, ValueError) as error:
        raise corrupt_record(location, str(error)) from error
    if not isfinite(line.at):  # JSON has no such number, and no journal can keep it
        raise corrupt_record(location, f"its time is {line.at}")
    return line


def record_of(line: Line, location: str = "line") -> Record:
    """The record of a line, equal to the one that was written.

    Raises:
        JournalVersionError: its schema or its type of event is not known here.
        JournalCorruptError: its content does not fit its type.
    """
    check_schema(line.schema, location)
    if line.type not in TYPES:
        raise JournalVersionError(
            location, f"{line.key} is an event of the unknown type {line.type!r}", fix=_UPGRADE
        )
    whole = {**line.event, "type": line.type, "key": line.key, "at": line.at}
    try:
        return Record(msgspec.convert(whole, Event), line.digest)
    except (msgspec.ValidationError, ValueError) as error:
        raise corrupt_record(f"{location}, {line.key}", str(error)) from error


def check_schema(schema: object, location: str) -> None:
    """Raise unless records of this schema can be read."""
    if not isinstance(schema, int) or schema < 1:
        raise corrupt_record(location, "it has no schema number")
    if schema > SCHEMA:
        raise JournalVersionError(
            location, f"has schema {schema}, and this Holdfast reads up to {SCHEMA}", fix=_UPGRADE
        )


def corrupt_record(location: str, why: str) -> JournalError:
    """The error of a record that cannot be read."""
    return JournalCorruptError(
        location, f"is no whole record: {why}", fix="Restore it from a backup"
    )


def to_json(value: object) -> bytes:
    """JSON; text that is no Unicode, such as a file name with odd bytes, is kept by escapes."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value)
        return json.dumps(plain, separators=(",", ":")).encode()


def from_json(data: bytes | str, location: str) -> dict[str, object]:
    """The object that was written by `to_json`. Raises JournalCorruptError."""
    try:
        found = _parse_json(data)
    except ValueError as error:
        raise corrupt_record(location, "not JSON") from error
    except RecursionError as error:
        raise corrupt_record(location, "nested too deeply") from error
    if not isinstance(found, dict):
        raise corrupt_record(location, "not an object")
    return found


def _parse_json(data: bytes | str) -> object:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError):
        return json.loads(data)  # takes halves of surrogate pairs


_MEMBERS: tuple[type[Event], ...] = get_args(Event)

TYPES = {str(member.__struct_config__.tag): member for member in _MEMBERS}
"""The types of events that this version knows, by tag."""


@cache
def decoder_of(tag: str) -> msgspec.json.Decoder[Event]:
    """Reads the JSON object of one type of event. Raises ValueError for an unknown one."""
    if tag not in TYPES:
        raise ValueError(f"{tag} is no event")
    return msgspec.json.Decoder(TYPES[tag])
