"""Summarizes a run from its records, as the table of runs saves it, and finds the latest runs."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from holdfast.core.effects import is_nested_run
from holdfast.core.events import SessionRewound, TurnOpened
from holdfast.core.run_fold import (
    CountedTurns,
    RunFold,
    RunState,
    make_title,
)
from holdfast.journal.encoding import decoder_of
from holdfast.journal.media_store import drop_media
from holdfast.journal.port import Record, RunEntry

_OPENED = str(TurnOpened.__struct_config__.tag)
_REWOUND = str(SessionRewound.__struct_config__.tag)
HISTORY_TYPES = (_OPENED, _REWOUND)
"""The types of events that `recount_turns` reads."""


class RunSummary(NamedTuple):
    """A run, as the table of runs has it; see `RunEntry` and `RunState`."""

    records: int
    opened_at: float
    changed_at: float
    agent: str
    state: RunState


def summarize_run(records: Sequence[Record]) -> RunSummary:
    """Summarize a run.

    Args:
        records: all records of the run, at least one.
    """
    times = [record.event.at for record in records]
    opened = [record.event for record in records if isinstance(record.event, TurnOpened)]
    return RunSummary(
        len(records),
        min(times),
        max(times),
        opened[-1].agent if opened else "",
        fold_run(records),
    )


def fold_run(records: Iterable[Record]) -> RunState:
    """Return the turns of a run, as its row has them.

    Args:
        records: all records of the run.
    """
    fold = RunFold()
    for record in records:
        fold.add(record.event)
    return fold.state


def recount_turns(rows: Iterable[tuple[str, str, str | None]]) -> tuple[str, int, int]:
    """Return title, turns and messages of the turns of a run that count, after a rewind.

    Args:
        rows: key and type of each record, in order, and the event of those of `HISTORY_TYPES`.
    """
    counted = CountedTurns()
    for key, tag, text in rows:
        title, to = None, None
        if tag in HISTORY_TYPES and text is not None:
            event = _decode_history(tag, text)
            if isinstance(event, TurnOpened):
                title = "" if event.message is None else make_title(event.message)
            elif isinstance(event, SessionRewound):
                to = event.to
        counted.add(key, title, to)
    return counted.count()


def _decode_history(tag: str, text: str) -> object:
    blank = '{"key":"","at":0' + ("," if text[1:2] != "}" else "")
    try:
        return decoder_of(tag).decode(blank + drop_media(text)[1:])
    except (msgspec.DecodeError, UnicodeError, ValueError, RecursionError):
        return None  # a damaged record: reading it raises the error


def select_recent(
    entries: Iterable[RunEntry], limit: int, before: tuple[float, str] | None
) -> list[RunEntry]:
    """Select the runs that changed last, without those of subagents; the latest first.

    Args:
        entries: the runs.
        limit: the maximum number of runs.
        before: time and name of the run after which the list begins; None for the latest one.
    """
    position = (-before[0], before[1]) if before else (-float("inf"), "")
    wanted = (
        entry
        for entry in entries
        if not is_nested_run(entry.run) and _get_position(entry) > position
    )
    return heapq.nsmallest(limit, wanted, key=_get_position)


def _get_position(entry: RunEntry) -> tuple[float, str]:
    return -entry.changed_at, entry.run
