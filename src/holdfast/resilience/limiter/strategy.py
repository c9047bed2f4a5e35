"""The limiter as a strategy, and the throttle that it shares: places, a fair queue, and a pace.

Places are handed over in the order of arrival. A call that is cancelled or gives up while it waits
leaves the queue, and if it was handed a place in the same moment, hands it on. A throttle serves
any number of threads and event loops; no lock may be held while anything is awaited.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock

from msgspec import Struct

from holdfast.core.errors import ErrorCategory, ErrorInfo, Landed, ProviderError
from holdfast.core.messages import Reply
from holdfast.resilience.clock import Clock
from holdfast.resilience.limiter import decision
from holdfast.resilience.limiter.decision import Reservation
from holdfast.resilience.limiter.options import LimiterOptions
from holdfast.resilience.limiter.waiter import Waiter
from holdfast.resilience.pipeline import (
    CallContext,
    Done,
    Failed,
    Operation,
    Outcome,
    P,
    T,
    settings_of,
    unsent_outcome,
)

_TOO_MANY = ErrorCategory.RATE_LIMIT_RETRYABLE


class LimiterError(ProviderError):
    """Our own limiter held the call back; nothing was sent.

    Args:
        message: what happened.
        retry_after: seconds after which it may be tried; None when waiting is no use.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        info = ErrorInfo(
            category=ErrorCategory.RATE_LIMIT_RETRYABLE,
            safe=message,
            landed=Landed.NO,
            retry_after=retry_after,
            code="limiter",
        )
        super().__init__(message, info=info)


class LimiterLoad(Struct, frozen=True):
    """What can be seen of a throttle at one moment."""

    target: str
    running: int
    waiting: int
    limit: int


def reply_tokens(value: object) -> int:
    """What a value costs of the tokens: those of a reply, nothing for anything else."""
    return value.usage.total if isinstance(value, Reply) else 0


class RateLimiter:
    """One limiter's state and queue, for all runs, threads and event loops of the process.

    Args:
        target: names what it protects.
        options: the settings.
        tokens_of: how many tokens a value cost, for `tokens_per_minute`.
    """

    __slots__ = (
        "_has_pace",
        "_lock",
        "_queue",
        "_running",
        "_state",
        "_tokens_of",
        "options",
        "target",
    )

    def __init__(
        self,
        target: str,
        options: LimiterOptions | None = None,
        *,
        tokens_of: Callable[[object], int] = reply_tokens,
    ) -> None:
        self.target = target
        self.options = options or LimiterOptions()
        self._tokens_of = tokens_of
        self._state = decision.initial_state(self.options)
        self._has_pace = decision.has_pace(self.options)
        self._running = 0
        self._queue: OrderedDict[Waiter[bool], None] = OrderedDict()
        self._lock = Lock()

    def load(self) -> LimiterLoad:
        """How much is going on."""
        state = self._state
        return LimiterLoad(self.target, self._running, len(self._queue), int(state.limit))

    def try_enter(self) -> Reservation | None:
        """A place where there is one and nothing else to heed; else None, and `enter` must be asked.

        Who got a reservation must give it to `leave`.
        """
        if self._has_pace:
            return None
        with self._lock:
            state = self._state
            if self._queue or state.paused_until or not decision.has_place(state, self._running):
                return None
            self._running += 1
            return decision.FREE

    async def enter(self, call: CallContext[P]) -> Reservation | LimiterError:
        """Wait for a place and for the pace; the error when that is not to be had.

        Who got a reservation must give it to `leave`.
        """
        waiter: Waiter[bool] | None = None
        taken = Reservation(0.0)
        now, patience = call.execution.clock.monotonic(), self._max_wait(call)
        with self._lock:
            if not self._queue and decision.has_place(self._state, self._running):
                self._running += 1
                self._state, taken = decision.reserve_call(self.options, self._state, now, patience)
                if taken.wait <= 0:
                    return taken
            elif len(self._queue) >= self.options.queue:
                return LimiterError(
                    f"{self.target}: not called, the queue is full: {self.options.queue} calls wait "
                    "already. LimiterOptions(queue=...) sets how many may"
                )
            else:
                waiter = Waiter()
                self._queue[waiter] = None
        if waiter is None:
            return await self._wait_for_pace(taken, call, patience)
        if not await self._wait_for_place(waiter, call):
            return LimiterError(
                f"{self.target}: not called, no place became free in {patience:.3g} s, "
                f"with {self._running} under way. "
                "LimiterOptions(concurrency=..., max_wait=...) sets how many may, and how long"
            )
        with self._lock:
            now, patience = call.execution.clock.monotonic(), self._max_wait(call)
            self._state, taken = decision.reserve_call(self.options, self._state, now, patience)
        return await self._wait_for_pace(taken, call, patience)

    async def _wait_for_place(self, waiter: Waiter[bool], call: CallContext[P]) -> bool:
        try:
            got = await waiter.wait(call.execution.clock, self._max_wait(call))
        except BaseException:
            self._leave_queue(waiter)
            raise
        return got is not None or not self._leave_queue(waiter, keep=True)

    def _leave_queue(self, waiter: Waiter[bool], *, keep: bool = False) -> bool:
        """Leave the queue. True when there was no place; one that came late is kept or handed on."""
        with self._lock:
            if not waiter.granted:
                self._queue.pop(waiter, None)
                return True
            if not keep:
                self._running -= 1
                self._grant_places()
            return False

    async def _wait_for_pace(
        self, reservation: Reservation, call: CallContext[P], max_wait: float
    ) -> Reservation | LimiterError:
        """Wait as long as reserved, and on if everybody pauses meanwhile; holds a place."""
        clock, wait = call.execution.clock, reservation.wait
        try:
            while wait > 0:
                if wait > max_wait:
                    self._return_reservation(reservation)
                    message = f"{self.target}: not called, its limits allow that in {wait:.3g} s"
                    return LimiterError(message, wait)
                await clock.sleep(wait)
                max_wait -= wait
                wait = decision.remaining_pause(
                    self.options, self._state, clock.monotonic(), max_wait
                )
        except BaseException:
            self._return_reservation(reservation)
            raise
        return reservation

    def _max_wait(self, call: CallContext[P]) -> float:
        remaining = call.remaining()
        return self.options.max_wait if remaining is None else min(remaining, self.options.max_wait)

    def _return_reservation(self, reservation: Reservation) -> None:
        """Give back a place and a reservation that were not used."""
        with self._lock:
            self._running -= 1
            self._state = decision.refund_call(self.options, self._state, reservation)
            self._grant_places()

    def leave(self, reservation: Reservation, outcome: Outcome[T] | None, clock: Clock) -> None:
        """Give the place back, and learn from how the call went; None when it was cancelled."""
        options = self.options
        tokens = 0
        if self._has_pace and isinstance(outcome, Done):
            tokens = self._tokens_of(outcome.value)
        with self._lock:
            state = self._state
            if self._has_pace:
                state = decision.settle_cost(options, state, reservation, tokens)
            if isinstance(outcome, Done):
                if state.limit < options.concurrency:
                    state = decision.record_success(options, state, self._running)
                if (resumes_at := outcome.resumes_at) is not None:
                    state = decision.record_exhaustion(
                        options, state, clock.monotonic(), resumes_at
                    )
            elif isinstance(outcome, Failed) and outcome.info.category is _TOO_MANY:
                now, told = clock.monotonic(), outcome.info.retry_after
                state = decision.record_refusal(options, state, self._running, now, told)
            self._state = state
            self._running -= 1
            if self._queue:
                self._grant_places()

    def _grant_places(self) -> None:
        """Hand free places to the first in the queue; the lock is held."""
        while self._queue and decision.has_place(self._state, self._running):
            waiter, _ = self._queue.popitem(last=False)
            if waiter.wake(True):
                waiter.granted = True
                self._running += 1


class LimiterStrategy(Struct, frozen=True):
    """The strategy: each call enters the throttle, and leaves it however it ends."""

    limiter: RateLimiter

    @property
    def name(self) -> str:
        """`limiter`"""
        return "limiter"

    def describe(self) -> Mapping[str, object]:
        """The target and the settings."""
        return {"target": self.limiter.target, **settings_of(self.limiter.options)}

    def wrap(self, operation: Operation[P, T]) -> Operation[P, T]:
        """The act, at the pace of the throttle."""
        throttle = self.limiter

        async def with_limiter(call: CallContext[P]) -> Outcome[T]:
            taken = throttle.try_enter() or await throttle.enter(call)
            if isinstance(taken, LimiterError):
                return unsent_outcome(taken)
            outcome: Outcome[T] | None = None
            try:
                outcome = await operation(call)
            finally:
                throttle.leave(taken, outcome, call.execution.clock)
            return outcome

        return with_limiter
