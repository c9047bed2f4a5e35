"""The cache as a strategy: equal requests at the same time are sent once, and later not at all.

A call whose request is already under way waits for its outcome. When the call that sent it is
cancelled, one of the waiting calls sends it again; when it fails, they share the failure, except
when only its own time was over. A saved reply is also streamed, as one delta for each text. No lock
may be held during an await.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.deltas import TextDelta
from holdfast.core.messages import Reply, Text, Usage
from holdfast.resilience.cache.decision import KeyOf, LruCache, Weigh, weigh_reply
from holdfast.resilience.cache.options import CacheOptions
from holdfast.resilience.limiter.waiter import Waiter
from holdfast.resilience.pipeline import (
    CallContext,
    Done,
    ExecutionContext,
    Failed,
    Operation,
    Outcome,
    P,
    T,
    settings_of,
)
from holdfast.resilience.timeout.strategy import timeout_outcome


class Stats(Struct, frozen=True):
    """The counts of a cache so far; `shared` are calls that waited for the outcome of another."""

    hits: int
    misses: int
    shared: int
    entries: int
    bytes: int


class _PendingCall:
    """A request under way, and the calls that wait for its outcome."""

    __slots__ = ("waiters",)

    def __init__(self) -> None:
        self.waiters: list[Waiter[Outcome[object] | _AskAgain]] = []


class _AskAgain(Struct, frozen=True):
    """The call that sent the request ended without an outcome: send it again."""


_RETAKE = _AskAgain()


class Store:
    """Saved values and requests under way, for all runs, threads and event loops of the process.

    Args:
        options: the settings.
    """

    __slots__ = ("_flights", "_hits", "_lock", "_misses", "_shared", "_shelf", "options")

    def __init__(self, options: CacheOptions | None = None) -> None:
        self.options = options or CacheOptions()
        self._shelf: LruCache[object] = LruCache(self.options)
        self._flights: dict[str, _PendingCall] = {}
        self._hits = self._misses = self._shared = 0
        self._lock = Lock()

    def stats(self) -> Stats:
        """The counts so far."""
        return Stats(self._hits, self._misses, self._shared, len(self._shelf), self._shelf.weight)

    def clear(self) -> None:
        """Remove every saved value; requests under way go on."""
        with self._lock:
            self._shelf.clear()

    def look_up(
        self, key: str, now: float
    ) -> Done[object] | Waiter[Outcome[object] | _AskAgain] | None:
        """The saved value, a waiter, or None: then the caller sends the request and calls `finish_call`."""
        with self._lock:
            entry = self._shelf.get(key, now)
            if entry is not None:
                self._hits += 1
                return Done(entry.value)
            flight = self._flights.get(key)
            if flight is None:
                self._misses += 1
                self._flights[key] = _PendingCall()
                return None
            self._shared += 1
            waiter: Waiter[Outcome[object] | _AskAgain] = Waiter()
            flight.waiters.append(waiter)
            return waiter

    def finish_call(
        self, key: str, outcome: Outcome[object] | None, weight: int | None, now: float
    ) -> None:
        """A request has ended: save its value if it may be saved, and wake the waiting calls."""
        with self._lock:
            flight = self._flights.pop(key)
            if isinstance(outcome, Done) and weight is not None:
                self._shelf.put(key, outcome.value, weight=weight, now=now)
        late = isinstance(outcome, Failed) and outcome.out_of_time
        answer = _RETAKE if outcome is None or late else outcome
        for waiter in flight.waiters:
            waiter.wake(answer)


class Cache(Struct, frozen=True):
    """The strategy: return saved values, and save those that may be saved.

    Args:
        store: where values are saved; several pipelines may share one.
        key_of: the key of a payload; `request_key(scope)` for model requests.
        weigh: the size of a value, or None for one that must not be saved; without it, complete
            replies are saved.
    """

    store: Store
    key_of: KeyOf
    weigh: Weigh | None = None

    @property
    def name(self) -> str:
        """`cache`"""
        return "cache"

    def describe(self) -> Mapping[str, object]:
        """The settings."""
        return settings_of(self.store.options)

    def wrap(self, operation: Operation[P, T]) -> Operation[P, T]:
        """The operation, called only when no value is saved."""
        store, key_of = self.store, self.key_of
        weigh = self.weigh or weigh_reply(store.options)

        async def call_and_store(call: CallContext[P], key: str) -> Outcome[T]:
            outcome: Outcome[T] | None = None
            weight: int | None = None
            try:
                outcome = await operation(call)
                if isinstance(outcome, Done):
                    weight = weigh(outcome.value)
            finally:
                now = call.execution.clock.monotonic()
                store.finish_call(key, cast("Outcome[object] | None", outcome), weight, now)
            return outcome

        async def with_cache(call: CallContext[P]) -> Outcome[T]:
            key = key_of(call.payload)
            if key is None:
                return await operation(call)
            known = await _find_answer(store, key, call)
            if known is None:
                return await call_and_store(call, key)
            if isinstance(known, Done):
                replay_reply(call.execution, known.value)
                known = Done(_without_usage(known.value), known.attempts, known.tried)
            # The key names the payload, so the value under it has the type of this operation.
            return cast("Outcome[T]", known)

        return with_cache


async def _find_answer(store: Store, key: str, call: CallContext[P]) -> Outcome[object] | None:
    """The saved value, or the outcome of another call; None means that the caller sends the request."""
    while True:
        found = store.look_up(key, call.execution.clock.monotonic())
        if not isinstance(found, Waiter):
            return found
        answer = await found.wait(call.execution.clock, call.remaining())
        if answer is None:
            return timeout_outcome(
                "no answer in time to the same request of another run", may_repeat=True
            )
        if not isinstance(answer, _AskAgain):
            return answer


def _without_usage(value: object) -> object:
    """The same value without tokens: the call that sent the request has counted them."""
    return replace(value, usage=Usage()) if isinstance(value, Reply) else value


def replay_reply(execution: ExecutionContext, value: object) -> None:
    """Stream a reply that no model has streamed, as one delta for each text."""
    if execution.publish is None or not isinstance(value, Reply):
        return
    for index, part in enumerate(value.parts):
        if isinstance(part, Text) and part.text:
            execution.publish(TextDelta(part.text, index))
