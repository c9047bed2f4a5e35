"""400 iterations in one turn: the last 20 against the first 20, each side against itself.

An iteration is timed from one call of the tool to the next, so it holds a whole request with the
history so far. The history grows by about 260 bytes an iteration, which the floor sends too.
"""

from __future__ import annotations

import time
from contextlib import AbstractAsyncContextManager

from benchmarks.case import Budget, Case, Sample, Turn
from benchmarks.cases import tool_iterations

COUNT = 400
WARM = 5
WINDOW = 20

_marks: list[float] = []


async def weather(city: str, days: int) -> str:
    """Weather in a city."""
    _marks.append(time.process_time())
    return await tool_iterations.weather(city, days)


def floor(url: str) -> AbstractAsyncContextManager[Turn]:
    """The loop of the tool iterations."""
    return tool_iterations.floor(url, weather)


def ours(url: str) -> AbstractAsyncContextManager[Turn]:
    """`agent.run`, as for the tool iterations."""
    return tool_iterations.ours(url, weather)


async def sample(turn: Turn) -> Sample:
    """Mean of the last iterations by mean of the first, after a few to warm up.

    The garbage is not collected before: a collection would then fall on the same iteration of
    every turn.
    """
    _marks.clear()
    await turn(f"tools-{COUNT}")
    first = _marks[WARM + WINDOW] - _marks[WARM]
    last = _marks[-1] - _marks[-1 - WINDOW]
    return {"growth": last / first}


CASE = Case(
    name="long-loop",
    floor=floor,
    ours=ours,
    scenario="tools-40",
    sample=sample,
    budgets=(
        Budget(
            metric="growth",
            what="400 iterations: the last against the first",
            unit="",
            compare="ours",
            limit=1.2,
        ),
    ),
    pairs=9,
    quick=3,
)
