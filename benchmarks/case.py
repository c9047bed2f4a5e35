"""What a case is: two sides of one shape, what is sampled from each, and what may be the most.

This module must never measure by itself; `runner` and `worker` do.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Literal, TypeAlias

from msgspec import Struct

Compare: TypeAlias = Literal["ratio", "difference", "ours"]
"""Ours by the floor's, ours less the floor's, or ours alone."""

Sample: TypeAlias = dict[str, float]
"""Values by metric."""

Pair: TypeAlias = tuple[Sample, Sample]
"""The floor's sample, and ours taken next to it."""


TRIES = 5


class Seen(Struct, frozen=True):
    """What a side has read: equal on both sides, or the comparison is worth nothing."""

    text: str
    input_tokens: int
    output_tokens: int


Turn: TypeAlias = Callable[[str], Awaitable[Seen]]
"""One turn of the named scenario of `replies`."""

Side: TypeAlias = Callable[[str], AbstractAsyncContextManager[Turn]]
"""Opens a client for a base URL."""


class Budget(Struct, frozen=True, kw_only=True):
    """One line of the table.

    Args:
        metric: which value of a sample.
        what: the line's name for people.
        unit: of the value of each side: "s", "B", "instructions", or "" for a pure number.
        limit: the most that the comparison may be, in units of `shown`; None only informs.
        compare: how the two sides are compared.
        scale: divides a difference, for a limit in KB or MB.
        shown: the unit of the comparison.
    """

    metric: str
    what: str
    unit: str = "s"
    limit: float | None = None
    compare: Compare = "ratio"
    scale: float = 1.0
    shown: str = "x"

    def value(self, floor: float, ours: float) -> float:
        """The comparison of one pair."""
        if self.compare == "ratio":
            return ours / floor
        return ((ours - floor) if self.compare == "difference" else ours) / self.scale


class Case(Struct, frozen=True, kw_only=True):
    """Floor and ours, measured in turns.

    Args:
        name: for the command line.
        floor: aiohttp and msgspec.
        ours: Holdfast.
        scenario: the one whose work a test compares between the sides.
        sample: measures one side once.
        budgets: what is made of the samples.
        pairs: how many samples of each side; `quick` in a quick run.
        apart: every sample in a process of its own, for what is about memory.
        same_requests: both sides send the same requests, which a test compares too.
    """

    name: str
    floor: Side
    ours: Side
    scenario: str
    sample: Callable[[Turn], Awaitable[Sample]]
    budgets: tuple[Budget, ...]
    pairs: int = 40
    quick: int = 9
    apart: bool = False
    same_requests: bool = True


class Timed(Struct, frozen=True, kw_only=True):
    """Code of ours without a server, next to a fixed budget or to other code of ours.

    Args:
        name: for the command line.
        sample: measures both sides once.
        budgets: what is made of the samples.
        pairs: how many samples; `quick` in a quick run.
    """

    name: str
    sample: Callable[[], Pair]
    budgets: tuple[Budget, ...]
    pairs: int = 40
    quick: int = 9


class Commands(Struct, frozen=True, kw_only=True):
    """Two command lines of the interpreter, compared by what the process used."""

    name: str
    floor: str
    ours: str
    budgets: tuple[Budget, ...]
    pairs: int = 5
    quick: int = 3


async def seconds(turn: Turn, scenario: str, times: int) -> float:
    """CPU seconds of this process, user and system, for one turn."""
    gc.collect()
    start = time.process_time()
    for _ in range(times):
        await turn(scenario)
    return (time.process_time() - start) / times


def seconds_each(act: Callable[[], object], times: int) -> float:
    """CPU seconds of this process for one call of `act`, in the best of a few tries.

    What takes microseconds is disturbed by whatever shares the processor; the best try was least.
    """
    return min(_seconds(act, times) for _ in range(TRIES)) / times


def _seconds(act: Callable[[], object], times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        act()
    return time.process_time() - start


def each(scenario: str, *, times: int, per: int = 1) -> Callable[[Turn], Awaitable[Sample]]:
    """Samples the cost of a turn, divided by `per`."""

    async def sample(turn: Turn) -> Sample:
        return {"cpu": await seconds(turn, scenario, times) / per}

    return sample


def beyond(
    rest: str, scenario: str, *, times: int, per: int
) -> Callable[[Turn], Awaitable[Sample]]:
    """Samples what a turn of `scenario` costs more than one of `rest`, divided by `per`."""

    async def sample(turn: Turn) -> Sample:
        less = await seconds(turn, rest, times)
        return {"cpu": (await seconds(turn, scenario, times) - less) / per}

    return sample
