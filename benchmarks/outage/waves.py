"""A fleet of agent runs under waves of faults, over real HTTP on loopback and in virtual time.

Two hundred runs begin one after the other within half a minute of virtual time. For ten seconds of it
the provider has one kind of fault. What becomes of each run is checked against what is told about it:
by the result or the error that its caller gets, and by the journal. This module must never decide
which outcome is good; the table shows all of them.
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Callable, Sequence
from random import Random

from msgspec import Struct

from holdfast import Agent
from holdfast.errors import ErrorCategory, HoldfastError
from holdfast.events import Status, TurnClosed
from holdfast.journal import MemoryJournal
from holdfast.models import Timeouts
from holdfast.resilience import PROCESS
from holdfast.testing import Emulator, FakeClock
from holdfast.testing.emulator import (
    DropAfter,
    EmulatedRequest,
    ErrorResponse,
    Fault,
    HttpStatus,
    Listen,
    LoggedRequest,
    Stall,
)

RUNS = 200
ARRIVALS = 30.0
BEGIN, END = 5.0, 15.0
TEXT = "The run {number} of the fleet."
_QUICK = Timeouts(first_byte=0.2, between_chunks=0.2)
"""Real seconds, for the wave of silence alone: a busy machine is slow too."""
_SLOW_DOWN = {"error": {"message": "Slow down", "type": "requests", "code": "rate_limited"}}


class Wave(Struct, frozen=True):
    """One kind of fault.

    Args:
        name: for the table.
        category: of the error of a run that fails.
        fault: the fault of a request, by the seconds until the wave ends; None for a server that is
            gone while the wave lasts.
        timeouts: of the agent.
    """

    name: str
    category: ErrorCategory
    fault: Callable[[float], Fault] | None
    timeouts: Timeouts = Timeouts()


WAVES = (
    Wave(
        "429 with a told wait",
        ErrorCategory.RATE_LIMIT_RETRYABLE,
        lambda left: ErrorResponse("rate_limit", {"retry-after-ms": str(math.ceil(left * 1000))}),
    ),
    Wave(
        "429 without a told wait",
        ErrorCategory.RATE_LIMIT_RETRYABLE,
        lambda _: HttpStatus(429, body=_SLOW_DOWN),
    ),
    Wave("503", ErrorCategory.TRANSIENT, lambda _: HttpStatus(503)),
    Wave("broken streams", ErrorCategory.TRANSIENT, lambda _: DropAfter(2)),
    Wave("refused connections", ErrorCategory.TRANSIENT, None),
    Wave("silence", ErrorCategory.TIMEOUT, lambda _: Stall(after=0), _QUICK),
)


class Toll(Struct):
    """What a wave did to a fleet.

    Args:
        runs: how many there were.
        completed: the runs that completed.
        failed: the errors of the others, as their callers got them.
        served: requests that got a reply.
        refused: requests that got none, except those that found no server.
        untold: what the caller, the journal and the wave say differently about a run, and calls that
            are left in the rate limiter; there must be none.
        seconds: the virtual time until the last run ended.
    """

    runs: int
    completed: int = 0
    failed: list[str] = []
    served: int = 0
    refused: int = 0
    untold: list[str] = []
    seconds: float = 0.0


class Fleet:
    """The runs of one agent against one provider.

    Args:
        wave: the fault.
        runs: how many runs.
        seed: of the times at which they begin.
    """

    def __init__(self, wave: Wave, runs: int, seed: int) -> None:
        self._wave = wave
        self._clock = FakeClock()
        self._journal = MemoryJournal()
        self._rng = Random(seed)
        self._log: list[LoggedRequest] = []
        self._port = _free_port()
        self.toll = Toll(runs, failed=[], untold=[])

    async def ride(self) -> Toll:
        """Let all runs begin and end, and the wave come and go."""
        toll, clock = self.toll, self._clock
        agent = Agent(
            "openai:fleet",
            base_url=f"http://127.0.0.1:{self._port}/v1",
            api_key="k",
            clock=clock,
            rng=self._rng.random,
            journal=self._journal,
            timeouts=self._wave.timeouts,
        )
        provider = asyncio.ensure_future(self._provide())
        arrivals = sorted(self._rng.uniform(0.5, ARRIVALS) for _ in range(toll.runs))
        await asyncio.gather(*(self._run(agent, *one) for one in enumerate(arrivals)))
        toll.seconds = clock.monotonic()
        provider.cancel()
        await asyncio.wait({provider})
        toll.served = sum(entry.status == 200 and not entry.faults for entry in self._log)
        toll.refused = len(self._log) - toll.served
        limiters = PROCESS.for_clock(clock).all_limiters()
        loads = [limiter.load() for limiter in limiters]
        toll.untold += [f"left behind: {load}" for load in loads if load.running or load.waiting]
        return toll

    async def _provide(self) -> None:
        listen = Listen(port=self._port)
        emulator = Emulator(faults=self._choose_fault, listen=listen, on_request=self._log.append)
        if self._wave.fault is None:
            async with emulator:
                await self._clock.sleep(BEGIN)
            await self._clock.sleep(END - BEGIN)
        async with emulator:
            await asyncio.Event().wait()

    def _choose_fault(self, _request: EmulatedRequest) -> Fault | None:
        now, fault = self._clock.monotonic(), self._wave.fault
        return fault(END - now) if fault is not None and BEGIN <= now < END else None

    async def _run(self, agent: Agent[str], number: int, begins: float) -> None:
        toll, name = self.toll, f"run-{number}"
        await self._clock.sleep(begins)
        prompt, status, wrong = TEXT.format(number=number), Status.COMPLETED, ""
        try:
            result = await agent.run(prompt, session=name)
            toll.completed += 1
            wrong = "" if result.output == f"You said: {prompt}" else f"said {result.output!r}"
        except HoldfastError as error:
            status = Status.FAILED
            toll.failed.append(str(error))
            if error.info.category is not self._wave.category:
                wrong = f"failed with {error.info!r}"
        closed = [
            record.event
            for record in await self._journal.read(name)
            if isinstance(record.event, TurnClosed)
        ]
        if [event.status for event in closed] != [status]:
            wrong += f" and the journal has {closed!r}"
        if wrong:
            toll.untold.append(f"{name} {wrong}")


async def ride_wave(wave: Wave, *, runs: int = RUNS, seed: int = 1) -> Toll:
    """Let a fleet meet one wave.

    Args:
        wave: the fault.
        runs: how many runs.
        seed: of the times at which they begin.
    """
    return await Fleet(wave, runs, seed).ride()


def make_table(tolls: Sequence[tuple[Wave, Toll]]) -> list[str]:
    """The table, as lines of Markdown."""
    lines = [
        "| wave | runs | completed | failed | requests with a reply | other requests | ended after |",
        "|---|---|---|---|---|---|---|",
    ]
    for wave, toll in tolls:
        lines.append(
            f"| {wave.name} | {toll.runs} | {toll.completed} | {len(toll.failed)} "
            f"| {toll.served} | {toll.refused} | {toll.seconds:.0f} s |"
        )
    return lines


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
