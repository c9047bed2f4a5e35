"""The state of endpoints that all runs of a process share: breaker, limiter, retry budget, latencies.

An endpoint is named by provider and model, and errors show that name; the account, which they must not
show, separates addresses and keys, since each has its own health and limits. Agents that talk to the same endpoint
with the same account and settings share its state, so that the experience of one run helps the others.
A state holds times, so agents with different clocks share none. The number of endpoints that are
remembered is bounded. Nothing of a run may be kept here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import Any, Protocol, TypeVar, cast

from msgspec import Struct

from holdfast.resilience.breaker.options import BreakerOptions
from holdfast.resilience.breaker.strategy import CircuitBreaker
from holdfast.resilience.budget.options import BudgetOptions
from holdfast.resilience.budget.retry_budget import RetryBudget
from holdfast.resilience.clock import Clock
from holdfast.resilience.hedge.options import HedgeOptions
from holdfast.resilience.hedge.strategy import Latencies
from holdfast.resilience.limiter.options import LimiterOptions
from holdfast.resilience.limiter.strategy import RateLimiter
from holdfast.resilience.system_clock import SystemClock

_MAX_CLOCKS = 64

S = TypeVar("S")

_FIELDS = {CircuitBreaker: "breaker", RateLimiter: "limiter", RetryBudget: "budget"}
"""The type of a state -> the field of `EndpointState`."""


class EndpointState(Struct, frozen=True):
    """The state of one endpoint with one account, as a process knows it.

    Args:
        endpoint: its name: provider and model.
        breaker: the circuit breaker that was used last, if there is one.
        limiter: the rate limiter that was used last, if there is one.
        budget: the retry budget that was used last, if there is one.
    """

    endpoint: str
    breaker: CircuitBreaker | None = None
    limiter: RateLimiter | None = None
    budget: RetryBudget | None = None


class LimiterObserver(Protocol):
    """Shares limiters with other processes; called from any thread. It must not ask for a limiter."""

    def record_limiter(self, endpoint: str, account: str, limiter: RateLimiter) -> None:
        """Learn of a new limiter, before its first call."""
        ...

    def record_pause(self, endpoint: str, account: str, limiter: RateLimiter) -> None:
        """Learn that a provider has asked this process to pause."""
        ...


class EndpointStates:
    """Finds or makes the shared state of an endpoint; safe to use from any thread.

    Args:
        max_states: how many states are remembered; the one that was not asked for longest goes first.

    >>> shared = EndpointStates()
    >>> shared.breaker_for("openai:x", BreakerOptions()) is shared.breaker_for("openai:x", BreakerOptions())
    True
    >>> shared.breaker_for("openai:x", BreakerOptions()) is shared.breaker_for("openai:y", BreakerOptions())
    False
    """

    __slots__ = ("_by_clock", "_lock", "_max_states", "_states", "observers")

    def __init__(self, max_states: int = 4096) -> None:
        self.observers: set[LimiterObserver] = set()
        """Learn of the limiters by the system's clock."""
        self._max_states = max_states
        self._lock = Lock()
        self._states: OrderedDict[Hashable, object] = OrderedDict()
        self._by_clock: OrderedDict[int, tuple[Clock, EndpointStates]] = OrderedDict()

    def for_clock(self, clock: Clock) -> EndpointStates:
        """The states of calls by this clock: these ones for the system's clock.

        The clocks that were used last are remembered.
        """
        if isinstance(clock, SystemClock):
            return self
        with self._lock:
            # A clock of a user need not be hashable, and is stored so that no other object gets its id.
            known = self._by_clock.setdefault(id(clock), (clock, EndpointStates(self._max_states)))
            self._by_clock.move_to_end(id(clock))
            if len(self._by_clock) > _MAX_CLOCKS:
                self._by_clock.popitem(last=False)
        return known[1]

    def breaker_for(
        self, endpoint: str, options: BreakerOptions, account: str = ""
    ) -> CircuitBreaker:
        """The circuit breaker of this endpoint with these settings."""
        return self._find_or_make(
            (endpoint, account, options), lambda: CircuitBreaker(endpoint, options)
        )

    def limiter_for(self, endpoint: str, options: LimiterOptions, account: str = "") -> RateLimiter:
        """The rate limiter of this endpoint with these settings."""
        return self._find_or_make(
            (endpoint, account, options), lambda: self._make_limiter(endpoint, options, account)
        )

    def _make_limiter(self, endpoint: str, options: LimiterOptions, account: str) -> RateLimiter:
        limiter = RateLimiter(endpoint, options)

        def record_pause() -> None:
            for observer in tuple(self.observers):
                observer.record_pause(endpoint, account, limiter)

        limiter.record_pause = record_pause
        for observer in tuple(self.observers):
            observer.record_limiter(endpoint, account, limiter)
        return limiter

    def find_limiters(self) -> Sequence[tuple[str, str, RateLimiter]]:
        """Return endpoint, account and limiter of each limiter by the system's clock."""
        with self._lock:
            states = list(self._states.items())
        return [
            (*cast("tuple[str, str]", cast("tuple[object, ...]", key)[:2]), state)
            for key, state in states
            if isinstance(state, RateLimiter)
        ]

    def budget_for(self, endpoint: str, options: BudgetOptions, account: str = "") -> RetryBudget:
        """The retry budget of this endpoint with these settings."""
        return self._find_or_make((endpoint, account, options), lambda: RetryBudget(options))

    def latencies_for(self, endpoint: str, options: HedgeOptions, account: str = "") -> Latencies:
        """The latencies of this endpoint with these settings."""
        return self._find_or_make((endpoint, account, options), lambda: Latencies(options))

    def all_breakers(self) -> tuple[CircuitBreaker, ...]:
        """Every remembered circuit breaker of every clock, to observe, isolate or reset it."""
        return tuple(state for state in self._all_states() if isinstance(state, CircuitBreaker))

    def all_limiters(self) -> tuple[RateLimiter, ...]:
        """Every remembered rate limiter; `load()` of each says how many calls run and wait."""
        return tuple(state for state in self._all_states() if isinstance(state, RateLimiter))

    def all_endpoints(self) -> tuple[EndpointState, ...]:
        """Every remembered endpoint by the system's clock, by name; accounts are separate entries without a name."""
        with self._lock:
            states = list(self._states.items())
        found: dict[tuple[str, str], dict[str, object]] = {}
        for key, state in states:
            endpoint, account, _options = cast("tuple[str, str, Struct]", key)
            named = found.setdefault((endpoint, account), {})
            kind = _FIELDS.get(type(state))
            if kind is not None:
                named[kind] = state
        return tuple(
            EndpointState(endpoint, **cast("dict[str, Any]", named))
            for (endpoint, _account), named in sorted(found.items(), key=lambda pair: pair[0])
        )

    def _all_states(self) -> list[object]:
        with self._lock:
            states = list(self._states.values())
            others = [others for _, others in self._by_clock.values()]
        for other in others:
            states += other._all_states()  # noqa: SLF001  # of the same class
        return states

    def _find_or_make(self, key: tuple[str, str, Struct], make: Callable[[], S]) -> S:
        with self._lock:
            state = self._states.get(key)
            if state is None:
                state = self._states[key] = make()
                if len(self._states) > self._max_states:
                    self._states.popitem(last=False)
            self._states.move_to_end(key)
        # The type of the options decides the type of the state.
        return cast("S", state)


PROCESS = EndpointStates()
"""The circuit breakers, rate limiters and retry budgets that all agents of this process share."""
