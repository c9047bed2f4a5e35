"""`python -m benchmarks.resilience`: what the default pipeline costs, and what waiting retries hold.

The bare call and the guarded call are timed in turns in one process, so the machine's mood is the
same for both. This module must never time anything but the pipeline: the act does nothing.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from statistics import median

from holdfast import ErrorCategory, ErrorInfo, ProviderError, Reply, Resilience, RetryOptions, Text
from holdfast.models import ModelRequest
from holdfast.resilience import (
    CallContext,
    Done,
    ExecutionContext,
    Failed,
    Operation,
    Outcome,
    Pipeline,
)
from holdfast.resilience.defaults import Candidate, compose_model_call
from holdfast.resilience.system_clock import SystemClock

ROUNDS, CALLS, WAITING = 15, 2000, 10_000
OFF = Resilience(budget=None, breaker=None, limiter=None)
PARTS = {
    "the default pipeline": Resilience(),
    "retry alone, everything else off": OFF,
    "retry and its budget": Resilience(breaker=None, limiter=None),
    "retry and the breaker": Resilience(budget=None, limiter=None),
    "retry and the limiter": Resilience(budget=None, breaker=None),
}
RESULT = Path(__file__).parent / "results" / "resilience.md"
_REQUEST = ModelRequest(model="m", messages=())
_REPLY = Done(Reply((Text("ok"),)))
_DOWN = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="503", retry_after=0.5)


async def works(_call: CallContext[ModelRequest]) -> Outcome[Reply]:
    """The bare call."""
    return _REPLY


async def fails(_call: CallContext[ModelRequest]) -> Outcome[Reply]:
    """A call that is to be repeated in half a second."""
    return Failed(ProviderError("503", info=_DOWN), _DOWN)


def guarded(
    act: Operation[ModelRequest, Reply], name: str, resilience: Resilience | None = None
) -> Operation[ModelRequest, Reply]:
    """The default pipeline of an agent around `act`."""
    candidate = Candidate(name, "m", name, act)
    handling = RetryOptions(max_retries=1)
    _, whole = compose_model_call([candidate], handling, resilience or Resilience())
    return whole


async def _timed(
    act: Callable[[CallContext[ModelRequest]], Awaitable[object]], call: CallContext[ModelRequest]
) -> float:
    begin = time.process_time()
    for _ in range(CALLS):
        await act(call)
    return (time.process_time() - begin) / CALLS * 1e6


async def overhead() -> dict[str, float]:
    """Microseconds above the bare call, of each part; medians of rounds in which all take turns."""
    call = CallContext("t1.i0.model", _REQUEST, ExecutionContext(SystemClock(), Random(1).random))
    acts = {name: guarded(works, f"bench:{name}", chosen) for name, chosen in PARTS.items()}
    bare: list[float] = []
    took: dict[str, list[float]] = {name: [] for name in acts}
    for _ in range(ROUNDS):
        bare.append(await _timed(works, call))
        for name, act in acts.items():
            took[name].append(await _timed(act, call))
    return {name: median(times) - median(bare) for name, times in took.items()}


def nothing_added() -> bool:
    """Whether an act with every strategy off is the very act: no wrapper, so no cost."""
    return Pipeline.of(None, None).wrap_operation(works) is works


async def waiting() -> tuple[float, float, float]:
    """KB and CPU microseconds for each of 10,000 calls that wait for their retry, and seconds."""
    act = guarded(fails, "bench:down", OFF)
    call = CallContext("t1.i0.model", _REQUEST, ExecutionContext(SystemClock(), Random(1).random))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin, cpu = time.monotonic(), time.process_time()
    await asyncio.gather(*(act(call) for _ in range(WAITING)))
    spent, took = time.process_time() - cpu, time.monotonic() - begin
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return grown / WAITING, spent / WAITING * 1e6, took


def main() -> None:
    """Measure, print and keep."""
    parts = asyncio.run(overhead())
    whole = parts.pop("the default pipeline")
    held, spent, took = asyncio.run(waiting())
    lines = [
        "# What resilience costs",
        "",
        "`python -m benchmarks.resilience` makes this.",
        "",
        "| what | figure | at most |",
        "|---|---|---|",
        f"| the default pipeline above a bare call, nothing failing | {whole:.1f} us | 15 us |",
        *(f"| of that: {name} | {took:.1f} us | |" for name, took in parts.items()),
        f"| an act with every strategy off is the bare act | {nothing_added()} | True |",
        f"| one of {WAITING:,} waiting retries: memory, its task included | {held:.1f} KB | |",
        f"| the same: CPU for both attempts and the wait | {spent:.0f} us | |",
        f"| the same: all of them, with a wait of 0.5 s | {took:.2f} s | |",
    ]
    print("\n".join(lines))
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
