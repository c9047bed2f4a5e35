"""The rate limiter as a strategy, and the shared object that holds its state and its queue.

Places are given in the order of arrival. A call that is cancelled or gives up while it waits leaves
the queue; a place that it was given in the same moment goes to the next one. One `RateLimiter` serves
any number of threads and event loops. No lock may be held during an await.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from math import inf
from threading import Lock

from msgspec import Struct

from holdfast.core.errors import ErrorCategory, ErrorInfo, Landed, ProviderError
from holdfast.core.messages import Reply
from holdfast.resilience.clock import Clock
from holdfast.resilience.limiter import decision
from holdfast.resilience.limiter.decision import EndpointPause, Reservation
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
    """The rate limiter rejected the call; nothing was sent.

    Args:
        message: the reason.
        retry_after: seconds after which it may be tried; None when waiting does not help.
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
    """The visible state of a rate limiter at one moment."""

    target: str
    running: int
    waiting: int
    limit: int


def reply_tokens(value: object) -> int:
    """The tokens of a value: those of a reply, 0 for anything else."""
    return value.usage.total if isinstance(value, Reply) else 0


class RateLimiter:
    """The rate limiter of an endpoint, shared by all runs, threads and event loops.

    Args:
        target: the name of the protected endpoint.
        options: the settings.
        tokens_of: how many tokens a value cost, for `tokens_per_minute`.
    """

    __slots__ = (
        "_has_pace",
        "_lock",
        "_queue",
        "_running",
        "_share",
        "_state",
        "_tokens_of",
        "options",
        "record_pause",
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
        self._share = inf
        self.record_pause: Callable[[], None] | None = None
        """Called without a lock when the provider has caused a pause."""
        self._queue: OrderedDict[Waiter[bool], None] = OrderedDict()
        self._lock = Lock()

    def load(self) -> LimiterLoad:
        """How many calls run and wait now."""
        state = self._state
        limit = int(min(state.limit, self._share))
        return LimiterLoad(self.target, self._running, len(self._queue), limit)

    def share(self, places: int | None) -> None:
        """Let at most so many calls run at once, since other processes call too; None ends that."""
        share = inf if places is None else places
        if share != self._share:
            with self._lock:
                self._share = share
                self._grant_places()

    def pause(self, seconds: float, refused: float, now: float) -> None:
        """Pause all calls, since a provider asked another process to pause.

        Args:
            seconds: how long.
            refused: so many of these seconds were asked for by a refusal.
            now: the monotonic clock of the calls.
        """
        with self._lock:
            pause = EndpointPause(seconds, refused)
            self._state = decision.extend_pause(self.options, self._state, now, pause)

    def measure_pause(self, now: float) -> tuple[float, float]:
        """Return the seconds for which calls pause by this clock, and those that a refusal asked for."""
        pause = decision.measure_pause(self._state, now)
        return pause.all, pause.refused

    def _has_place(self) -> bool:
        return self._running < self._share and decision.has_place(self._state, self._running)

    def try_enter(self) -> Reservation | None:
        """A place, if one is free and nothing has to be waited for; otherwise None, and then call `enter`.

        A reservation must be given to `leave` when the call has ended.
        """
        if self._has_pace:
            return None
        with self._lock:
            state = self._state
            if self._queue or state.paused_until or not self._has_place():
                return None
            self._running += 1
            return decision.FREE

    async def enter(self, call: CallContext[P]) -> Reservation | LimiterError:
        """Wait for a place and for calls and tokens per minute; an error when the wait is too long.

        A reservation must be given to `leave` when the call has ended.
        """
        waiter: Waiter[bool] | None = None
        taken = Reservation(0.0)
        now, patience = call.execution.clock.monotonic(), self._max_wait(call)
        with self._lock:
            if not self._queue and self._has_place():
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
        """Leave the queue. True when there was no place; a place that came late is kept or passed on."""
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
        """Wait as long as reserved, and longer if all calls pause meanwhile; the call has a place."""
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
        """Return a place and a reservation that were not used."""
        with self._lock:
            self._running -= 1
            self._state = decision.refund_call(self.options, self._state, reservation)
            self._grant_places()

    def leave(self, reservation: Reservation, outcome: Outcome[T] | None, clock: Clock) -> None:
        """Return the place, and adapt to the outcome; None means that the call was cancelled."""
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
                now, asked = clock.monotonic(), outcome.info.retry_after
                state = decision.record_refusal(options, state, self._running, now, asked)
            is_paused = state.paused_until > self._state.paused_until
            self._state = state
            self._running -= 1
            if self._queue:
                self._grant_places()
        if is_paused and self.record_pause is not None:
            self.record_pause()

    def _grant_places(self) -> None:
        """Give free places to the first calls in the queue. The caller holds the lock."""
        while self._queue and self._has_place():
            waiter, _ = self._queue.popitem(last=False)
            if waiter.wake(True):
                waiter.granted = True
                self._running += 1


class LimiterStrategy(Struct, frozen=True):
    """The strategy: each call enters the limiter, and leaves it however it ends."""

    limiter: RateLimiter

    @property
    def name(self) -> str:
        """`limiter`"""
        return "limiter"

    def describe(self) -> Mapping[str, object]:
        """The target and the settings."""
        return {"target": self.limiter.target, **settings_of(self.limiter.options)}

    def wrap(self, operation: Operation[P, T]) -> Operation[P, T]:
        """The operation, limited."""
        limiter = self.limiter

        async def with_limiter(call: CallContext[P]) -> Outcome[T]:
            taken = limiter.try_enter()
            if taken is None:
                entered = await limiter.enter(call)
                if isinstance(entered, LimiterError):
                    return unsent_outcome(entered)
                taken = entered
            outcome: Outcome[T] | None = None
            try:
                outcome = await operation(call)
            finally:
                limiter.leave(taken, outcome, call.execution.clock)
            return outcome

        return with_limiter
