"""1,000 runs that stream 200 deltas each at the same time, in one process.

The server sends each stream in ten portions, 20 ms apart, so that all of them are open at once.
Memory is the peak of the whole process, divided by the runs.
"""

from __future__ import annotations

import asyncio
import time

from benchmarks.case import Budget, Case, Sample, Turn
from benchmarks.cases.streamed_deltas import floor, ours
from benchmarks.memory import peak_bytes

RUNS = 1000
SCENARIO = "paced-200"


async def sample(turn: Turn) -> Sample:
    """Wall seconds of all runs, and the process's peak."""
    start = time.perf_counter()
    # An exception of any run ends the sample: no error is part of the budget.
    seen = await asyncio.gather(*(turn(SCENARIO) for _ in range(RUNS)))
    wall = time.perf_counter() - start
    if len(set(seen)) != 1:
        raise RuntimeError("the runs did not read the same")
    return {"wall": wall, "peak": peak_bytes()}


CASE = Case(
    name="many-streams",
    floor=floor,
    ours=ours,
    scenario=SCENARIO,
    sample=sample,
    budgets=(
        Budget(metric="wall", what="1,000 streams at once: wall time", limit=1.5),
        Budget(
            metric="peak",
            what="1,000 streams at once: peak memory of a run above the floor's",
            unit="B",
            compare="difference",
            scale=RUNS * 1000,
            shown="KB",
            limit=60.0,
        ),
    ),
    pairs=5,
    quick=1,
    apart=True,
)
