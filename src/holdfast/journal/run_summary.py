"""Summarizes a run from its records, as the table of runs saves it, and finds the latest runs."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from holdfast.core.effects import is_nested_run
from holdfast.core.events import TurnClosed, TurnOpened
from holdfast.journal.port import Record, RunEntry


class RunSummary(NamedTuple):
    """What the table of runs says about a run; see `RunEntry`."""

    records: int
    opened_at: float
    changed_at: float
    turn_open: bool
    agent: str


def summarize_run(records: Sequence[Record]) -> RunSummary:
    """Summarize a run.

    Args:
        records: all records of the run, at least one.
    """
    times = [record.event.at for record in records]
    turns = [
        record.event for record in records if isinstance(record.event, TurnOpened | TurnClosed)
    ]
    agents = [event.agent for event in turns if isinstance(event, TurnOpened)]
    return RunSummary(
        len(records),
        min(times),
        max(times),
        bool(turns) and isinstance(turns[-1], TurnOpened),
        agents[-1] if agents else "",
    )


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
