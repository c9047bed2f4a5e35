"""Hedging: when an attempt is slower than nearly all others were, start a second one beside it.

It is off by default, since it costs twice; a budget keeps second attempts to a share of all calls.
The first attempt that answers wins; the other one is cancelled and awaited, so nothing is left
running. In a stream, an attempt answers with its first delta: from then on only its notices are
published, so that nobody reads two replies at once. Hedge only operations that may be done twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Generic

import msgspec
from msgspec import Struct

from holdfast.core.deltas import (
    HostedToolStarted,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallDelta,
)
from holdfast.core.messages import Reply
from holdfast.core.notices import Notice
from holdfast.resilience.budget.decision import Bucket, deposit_tokens, withdraw_token
from holdfast.resilience.budget.options import BudgetOptions
from holdfast.resilience.hedge.decision import delay_before
from holdfast.resilience.hedge.options import HedgeOptions
from holdfast.resilience.pipeline import CallContext, Done, Operation, Outcome, P, T, settings_of

_PIECES = (TextDelta, ReasoningDelta, RefusalDelta, ToolCallDelta, HostedToolStarted)


class Latencies:
    """The newest latencies of one endpoint, and how many second attempts are allowed."""

    __slots__ = ("_bucket", "_guard", "_lock", "_newest", "options")

    def __init__(self, options: HedgeOptions | None = None) -> None:
        self.options = options or HedgeOptions()
        self._newest: deque[float] = deque(maxlen=self.options.window)
        self._guard = BudgetOptions(
            ratio=self.options.max_share, reserve=0.0, reserve_per_second=0.0, capacity=10.0
        )
        self._bucket = Bucket(0.0, 0.0)
        self._lock = Lock()

    def begin_call(self) -> float | None:
        """Count one call; returns the seconds after which to start a second attempt."""
        with self._lock:
            self._bucket = deposit_tokens(self._bucket, self._guard.ratio, self._guard.capacity)
            return delay_before(self.options, self._newest)

    def take_hedge(self) -> bool:
        """Withdraw one second attempt from the budget, if there is one."""
        with self._lock:
            after = withdraw_token(self._bucket)
            if after is not None:
                self._bucket = after
            return after is not None

    def record_latency(self, seconds: float) -> None:
        """Remember how long a successful attempt took; a negative time (the clock went back) is ignored."""
        if seconds < 0:
            return
        with self._lock:
            self._newest.append(seconds)


class Hedge(Struct, frozen=True):
    """The strategy that starts a second attempt beside a slow first one."""

    latencies: Latencies

    @property
    def name(self) -> str:
        """`hedge`"""
        return "hedge"

    def describe(self) -> Mapping[str, object]:
        """The settings."""
        return settings_of(self.latencies.options)

    def wrap(self, operation: Operation[P, T]) -> Operation[P, T]:
        """The operation, with a second attempt when it is slow."""
        latencies = self.latencies

        async def with_hedge(call: CallContext[P]) -> Outcome[T]:
            delay = latencies.begin_call()
            clock = call.execution.clock
            began = clock.monotonic()
            if delay is None:
                outcome = await operation(call)
            else:
                outcome = await _Race(operation, call).run(delay, latencies.take_hedge)
            if isinstance(outcome, Done):
                latencies.record_latency(clock.monotonic() - began)
            return outcome

        return with_hedge


class _Race(Generic[P, T]):
    """The attempts of one call; only the notices of the first one that answers are published."""

    __slots__ = ("_call", "_chosen", "_operation", "_runners")

    def __init__(self, operation: Operation[P, T], call: CallContext[P]) -> None:
        self._operation = operation
        self._call = call
        self._chosen: int | None = None
        self._runners: list[asyncio.Task[Outcome[T]]] = []

    async def run(self, delay: float, take_hedge: Callable[[], bool]) -> Outcome[T]:
        """Start an attempt, a second one after the delay if that is allowed, and return the first answer."""
        timer = asyncio.ensure_future(self._call.execution.clock.sleep(delay))
        try:
            self._start_attempt()
            await asyncio.wait([*self._runners, timer], return_when=asyncio.FIRST_COMPLETED)
            if not self._runners[0].done() and self._chosen is None and take_hedge():
                self._start_attempt()
            return await self._await_winner()
        finally:
            timer.cancel()
            for runner in self._runners:
                runner.cancel()
            await asyncio.gather(timer, *self._runners, return_exceptions=True)

    async def _await_winner(self) -> Outcome[T]:
        """The outcome of the chosen attempt, or the first success, or the first failure if all fail."""
        failure: Outcome[T] | None = None
        pending = set(self._runners)
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for number, runner in enumerate(self._runners):
                deaf = self._chosen not in (None, number)
                if deaf or runner not in done or runner.cancelled():
                    continue
                outcome = runner.result()
                if self._chosen == number or isinstance(outcome, Done):
                    self._chosen = number
                    return outcome
                failure = failure or outcome
        if failure is None:
            raise asyncio.CancelledError
        return failure

    def _start_attempt(self) -> None:
        number = len(self._runners)
        env = self._call.execution
        call = msgspec.structs.replace(
            self._call,
            execution=msgspec.structs.replace(
                env,
                publish=self._filter_notices(number, env.publish) if env.publish else None,
                keep_partial=self._filter_partials(number, env.keep_partial)
                if env.keep_partial
                else None,
            ),
        )

        async def attempt() -> Outcome[T]:
            return await self._operation(call)

        self._runners.append(asyncio.create_task(attempt(), name=f"holdfast-hedge-{number}"))

    def _filter_notices(
        self, number: int, publish: Callable[[Notice], None]
    ) -> Callable[[Notice], None]:
        held: list[Notice] = []

        def show(notice: Notice) -> None:
            if self._chosen is None and isinstance(notice, _PIECES):
                self._choose_attempt(number)
                for earlier in held:
                    publish(earlier)
            if self._chosen == number or (self._chosen is None and number == 0):
                publish(notice)
            elif self._chosen is None:
                held.append(notice)

        return show

    def _filter_partials(
        self, number: int, keep_partial: Callable[[Reply], None]
    ) -> Callable[[Reply], None]:
        def keep_heard(reply: Reply) -> None:
            if self._chosen in (None, number):
                keep_partial(reply)

        return keep_heard

    def _choose_attempt(self, number: int) -> None:
        self._chosen = number
        for other, runner in enumerate(self._runners):
            if other != number:
                runner.cancel()
