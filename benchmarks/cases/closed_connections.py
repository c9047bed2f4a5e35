"""40 streamed turns, one after the other, against a server that closes each connection after its reply.

llama.cpp does so, 0.4 ms after the end. The next request often goes out at that moment, on a
connection that is kept. The floor opens a connection for each request, so it never meets this.
"""

from __future__ import annotations

import time
from functools import partial

from benchmarks.case import Budget, Case, Sample, Turn
from benchmarks.cases.streamed_deltas import floor, ours

SCENARIO = "closing-20"
TURNS = 40


async def sample(turn: Turn) -> Sample:
    """Seconds of all turns, and of the longest one: a retry with its wait would take tenths of a second."""
    took = []
    for _ in range(TURNS):
        begin = time.perf_counter()
        await turn(SCENARIO)
        took.append(time.perf_counter() - begin)
    return {"all": sum(took), "longest": max(took)}


CASE = Case(
    name="closed-connections",
    floor=partial(floor, keep=False),
    ours=ours,
    scenario=SCENARIO,
    sample=sample,
    budgets=(
        Budget(
            metric="all",
            what=f"{TURNS} streamed turns, each connection closed after its reply (wall)",
            compare="ours",
            scale=1e-3,
            shown="ms",
            limit=1000.0,
        ),
        Budget(
            metric="longest",
            what="the longest of them (wall)",
            compare="ours",
            scale=1e-3,
            shown="ms",
            limit=300.0,
        ),
    ),
    pairs=10,
    quick=3,
)
