"""Summarizes a run from its records, as the table of runs saves it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.core.events import TurnClosed, TurnOpened
from holdfast.journal.port import Record


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
