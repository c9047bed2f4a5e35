"""Runs cases and makes rows of a table from their samples."""

from __future__ import annotations

import subprocess
import sys
from statistics import median

import msgspec
from msgspec import Struct

from benchmarks import commands
from benchmarks.case import Budget, Case, Commands, Pair, Sample, Timed


class Row(Struct, frozen=True, kw_only=True):
    """One line of the table: medians of both sides, and of the comparison with its extremes."""

    case: str
    what: str
    unit: str
    floor: float
    ours: float
    compare: str
    shown: str
    middle: float
    least: float
    most: float
    limit: float | None
    pairs: int

    @property
    def exceeded(self) -> bool:
        """Whether the median is above the limit."""
        return self.limit is not None and self.middle > self.limit


def run(case: Case | Commands | Timed, url: str, *, quick: bool) -> list[Row]:
    """Measures one case against the server at `url`."""
    if isinstance(case, Commands):
        found = commands.measure(case, quick=quick)
    else:
        count = case.quick if quick else case.pairs
        apart = isinstance(case, Case) and case.apart
        found = (_apart if apart else _together)(case.name, url, count)
    return [_row(case.name, budget, found) for budget in case.budgets]


def _together(name: str, url: str, count: int) -> list[Pair]:
    return msgspec.json.decode(_worker(name, "both", url, count), type=list[Pair])


def _apart(name: str, url: str, count: int) -> list[Pair]:
    return [(_one(name, "floor", url), _one(name, "ours", url)) for _ in range(count)]


def _one(name: str, side: str, url: str) -> Sample:
    return msgspec.json.decode(_worker(name, side, url, 1), type=Sample)


def _worker(name: str, side: str, url: str, count: int) -> bytes:
    command = [sys.executable, "-m", "benchmarks.worker", name, side, url, str(count)]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout


def _row(name: str, budget: Budget, pairs: list[Pair]) -> Row:
    metric = budget.metric
    values = [budget.value(floor[metric], ours[metric]) for floor, ours in pairs]
    return Row(
        case=name,
        what=budget.what,
        unit=budget.unit,
        floor=median(floor[metric] for floor, _ in pairs),
        ours=median(ours[metric] for _, ours in pairs),
        compare=budget.compare,
        shown=budget.shown,
        middle=median(values),
        least=min(values),
        most=max(values),
        limit=budget.limit,
        pairs=len(pairs),
    )
