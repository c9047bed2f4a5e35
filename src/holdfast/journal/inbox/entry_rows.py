"""Converts rows of the inbox to entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from holdfast.journal.inbox.entries import EntryState, InboxEntry
from holdfast.journal.inbox.queue_limits import LimitTable, QueueLimits
from holdfast.journal.inbox.room import QueueFacts
from holdfast.journal.inbox.statements import Row
from holdfast.journal.inbox.worker_entries import WorkerInfo

_EntryRow: TypeAlias = tuple[
    int,
    str,
    str,
    str,
    str,
    EntryState,
    int,
    float,
    float,
    float,
    int,
    str,
    int,
    str,
    str,
    str | None,
    int,
    int,
    str,
    bytes,
]
_FIELDS = InboxEntry.__struct_fields__
_limits = msgspec.json.Decoder(QueueLimits)
_worker = msgspec.json.Decoder(WorkerInfo)


def to_entry(row: Row) -> InboxEntry:
    """Return the entry of a row with all columns and the body."""
    values = msgspec.convert(list(row[: len(_FIELDS)]), _EntryRow, strict=False)
    return InboxEntry(**dict(zip(_FIELDS, values, strict=True)))


def to_limits(rows: Sequence[Row]) -> dict[str, QueueLimits]:
    """Return the limits by scope."""
    return {str(scope): _limits.decode(str(limits)) for scope, limits in rows}


def to_facts(rows: Sequence[Row]) -> QueueFacts:
    """Return the facts for an admission."""
    limits: list[Row] = []
    workers: list[WorkerInfo] = []
    admitted: dict[tuple[str, str], int] = {}
    last_served = ""
    for kind, first, second, count in rows:
        if kind == "limits":
            limits.append((first, second))
        elif kind == "worker":
            workers.append(_worker.decode(str(second)))
        elif kind == "served":
            last_served = str(first)
        else:
            admitted[str(first), str(second)] = to_int(count)
    return QueueFacts(LimitTable(to_limits(limits)), workers, admitted, last_served)


def to_worker(text: object) -> WorkerInfo:
    """Return a worker's own entry."""
    return _worker.decode(str(text))


def to_int(value: object) -> int:
    """Return a number of the database."""
    return int(str(value))


def to_float(value: object) -> float:
    """Return a number of the database."""
    return float(str(value))
