"""Counts in one place everything that a caller can use up, and refuses a request over a limit.

Each route declares the budgets that it takes from (`takes` of an operation, or of a route of a
protocol), and takes from no other. Counts are those of one process, except the bytes that a tenant has
stored, which the journal knows. This module must never know a route.

Rates are pure: a single number is the state of one caller (the generic cell rate algorithm). A table of
callers is bounded; the caller that was quiet the longest is forgotten first.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Collection
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from holdfast.core.errors import ConfigurationError
from holdfast.server.access.options import AccessLimits
from holdfast.server.access.principals import Principal
from holdfast.server.health.service_metrics import TurnCount
from holdfast.server.problem_responses import ProblemError, make_problem, make_wait_problem

Budget: TypeAlias = Literal["connections", "tries", "requests", "turns", "streams", "bytes"]
"""The budgets.

`connections`: those of callers without a known key. `tries`: wrong keys of one address. `requests`: of
one key, in a minute and at once. `turns`: of one key, in a minute, and of one tenant at once: whatever
calls a model. `streams`: open streams and held requests of one key. `bytes`: the size of everything that a tenant has stored.
"""

Takes: TypeAlias = tuple[Budget, ...]
"""The budgets that a route takes from."""

READS: Takes = ("requests",)
"""A route that only reads, or whose act makes room: to cancel, to delete."""

WRITES: Takes = ("requests", "bytes")
"""A route that stores something."""

STARTS: Takes = ("requests", "turns", "streams", "bytes")
"""A route that starts or continues a turn, and may wait for its end."""

SECONDS_BETWEEN_COUNTS = 10.0
"""Seconds for which a count of stored bytes is used, unless it took more than a twentieth of that."""

SECONDS_BEFORE_REFUSAL = 1.0
"""The age in seconds of the oldest count of stored bytes for which a request is refused."""

MORE_BYTES = 512
"""Bytes that are assumed to be stored besides the body of a request: keys, names and times."""


def check_takes(name: str, takes: Collection[Budget]) -> None:
    """Check the declaration of a route.

    Args:
        name: names the route.
        takes: the budgets that it takes from.

    Raises:
        ConfigurationError: it names none, or one that does not exist.

    >>> check_takes("start_turn", STARTS)
    """
    unknown = sorted(set(takes) - set(get_args(Budget)))
    if unknown or not takes:
        problem = f"{name} takes from {unknown[0]!r}" if unknown else f"{name} takes from no budget"
        raise ConfigurationError("takes", problem, fix=f"Use: {', '.join(get_args(Budget))}")


CountTurns: TypeAlias = Callable[[str], TurnCount]
"""Returns how many turns a tenant has."""

CountBytes: TypeAlias = Callable[[str], Awaitable[int]]
"""Returns how many bytes a tenant has stored."""


class RequestUse:
    """The shares that one request has taken until it ends.

    Args:
        principal: who sends it.
    """

    __slots__ = ("bytes", "has_stream", "is_counted", "principal")

    def __init__(self, principal: Principal) -> None:
        self.principal = principal
        self.is_counted = False
        self.has_stream = False
        self.bytes = 0

    @property
    def name(self) -> str:
        """Names the caller: its key, or itself if it has none."""
        principal = self.principal
        return principal.key_id or f"{principal.tenant}\0{principal.name}"


class CallerUsage:
    """Counts the use of callers, in this process.

    Args:
        limits: the limits.
        monotonic: a clock in seconds that does not go back.
    """

    def __init__(self, limits: AccessLimits, monotonic: Callable[[], float]) -> None:
        self._limits = limits
        self._monotonic = monotonic
        self._request_rate = RateTable(Rate(limits.requests_per_minute))
        self._turn_rate = RateTable(Rate(limits.turns_per_minute))
        self._requests: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()
        self._stored: dict[str, _StoredBytes] = {}
        self.count_turns: CountTurns | None = None
        """Counts the turns of a tenant; without it, only the keys have limits."""
        self.count_bytes: CountBytes | None = None
        """Counts the bytes that a tenant has stored; without it, they have no limit."""

    @property
    def open_streams(self) -> int:
        """How many streams are open."""
        return self._streams.total()

    def begin_request(self, use: RequestUse) -> None:
        """Count a request until it ends.

        Raises:
            ProblemError: the key sends too many in a minute, or has too many in progress.
        """
        limits = self._limits
        if self._requests[use.name] >= limits.requests_per_key:
            detail = f"The key may have {limits.requests_per_key} requests in progress."
            raise ProblemError(make_wait_problem(429, "open_requests", detail, 1.0))
        wait = self._request_rate.take(use.name, self._monotonic())
        if wait:
            detail = f"The key may send {limits.requests_per_minute} requests a minute."
            raise ProblemError(make_wait_problem(429, "request_rate", detail, wait))
        use.is_counted = True
        self._requests[use.name] += 1

    def take_turn(self, use: RequestUse, *, is_new: bool = True, is_driven: bool = False) -> None:
        """Count a turn that begins or continues, or another call of a model.

        Args:
            use: the request.
            is_new: whether it is a new turn, and not one that waited or was interrupted.
            is_driven: whether this process drives the turn already.

        Raises:
            ProblemError: the key starts too many, or its tenant has too many.
        """
        limits, tenant = self._limits, use.principal.tenant
        if self.count_turns is not None and not is_driven:
            counts = self.count_turns(tenant)
            if counts.running >= limits.running_turns:
                detail = f"{counts.running} turns are running, and that is the limit."
                raise ProblemError(make_wait_problem(429, "running_turns", detail, 1.0))
            if is_new and counts.waiting >= limits.waiting_turns:
                detail = f"{counts.waiting} turns wait for an answer, and that is the limit."
                raise ProblemError(
                    make_problem(429, "waiting_turns", detail, fix="Answer or cancel some of them")
                )
        wait = self._turn_rate.take(use.name, self._monotonic())
        if wait:
            detail = f"The key may start or continue {limits.turns_per_minute} turns a minute."
            raise ProblemError(make_wait_problem(429, "turn_rate", detail, wait))

    def check_ticks(self, ticks: float) -> None:
        """Check how many turns a minute the schedules of a tenant submit.

        Raises:
            ProblemError: they are more than one key may start.
        """
        most = self._limits.turns_per_minute
        if ticks > most:
            detail = f"The schedules would submit {ticks:g} turns a minute, and may submit {most}."
            fix = "Choose a longer interval, or delete another schedule"
            raise ProblemError(make_problem(429, "schedule_ticks", detail, field="every", fix=fix))

    def take_stream(self, use: RequestUse) -> None:
        """Count a stream, or a held request, until it ends. Raises ProblemError: there are too many."""
        most = self._limits.streams_per_key
        if use.has_stream:
            return
        if self._streams[use.name] >= most:
            raise ProblemError(
                make_problem(
                    429,
                    "open_streams",
                    f"The key may have {most} streams and held requests open.",
                    fix="Close one of them first",
                    retryable=True,
                )
            )
        use.has_stream = True
        self._streams[use.name] += 1
        self._end_counting(use)

    async def take_bytes(self, use: RequestUse, size: int) -> None:
        """Count bytes that a request is about to store.

        Args:
            use: the request.
            size: how many there are.

        Raises:
            ProblemError: the tenant would store more than it may.
            JournalError: its stored bytes cannot be counted.
        """
        if self.count_bytes is None:
            return
        tenant = use.principal.tenant
        stored = self._stored.setdefault(tenant, _StoredBytes(self._monotonic))
        most, count = self._limits.stored_bytes, self.count_bytes
        if not await stored.take(size, most, lambda: count(tenant)):
            detail = f"The tenant has stored {stored.total} bytes, and may store {most}."
            fix = "Delete sessions, or raise stored_bytes"
            raise ProblemError(make_problem(429, "stored_bytes", detail, fix=fix))
        use.bytes += size

    def end_request(self, use: RequestUse) -> None:
        """Note that a request has ended, and with it its stream."""
        self._end_counting(use)
        if use.has_stream:
            use.has_stream = False
            _subtract(self._streams, use.name)
        if use.bytes:
            self._stored[use.principal.tenant].end(use.bytes)
            use.bytes = 0

    def _end_counting(self, use: RequestUse) -> None:
        """Count a request no more among those in progress: it has ended, or is counted as a stream."""
        if use.is_counted:
            use.is_counted = False
            _subtract(self._requests, use.name)


def _subtract(counter: Counter[str], name: str) -> None:
    counter[name] -= 1
    if not counter[name]:
        del counter[name]


class _StoredBytes:
    """The stored bytes of one tenant: a count of the store, and the additions of requests since."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._counted_at = float("-inf")
        self._seconds_to_count = 0.0
        self._counted = 0
        self._in_progress = 0
        """Bytes of requests that have not ended."""
        self._ended = 0
        """Bytes of requests that have ended since the last count began."""
        self._counting: asyncio.Task[None] | None = None

    @property
    def total(self) -> int:
        """The bytes that are stored, or will be."""
        return self._counted + self._ended + self._in_progress

    async def take(self, size: int, most: int, count: Callable[[], Awaitable[int]]) -> bool:
        """Add the bytes of a request, unless there would be too many; return whether they were added."""
        rest = max(SECONDS_BETWEEN_COUNTS, 20 * self._seconds_to_count)
        if self._find_age() >= rest:
            await self._count(count)
        if self.total + size > most and self._find_age() >= SECONDS_BEFORE_REFUSAL:
            await self._count(count)  # something may have been deleted
        if self.total + size > most:
            return False
        self._in_progress += size
        return True

    def end(self, size: int) -> None:
        """Note the end of a request: the next count that begins includes its bytes."""
        self._in_progress -= size
        self._ended += size

    def _find_age(self) -> float:
        return self._monotonic() - self._counted_at

    async def _count(self, count: Callable[[], Awaitable[int]]) -> None:
        """Count, once for all requests that wait for it; a caller that leaves does not end it."""
        if self._counting is None:
            self._counting = asyncio.ensure_future(self._count_once(count))
            self._counting.add_done_callback(self._end_counting)
        await asyncio.shield(self._counting)

    async def _count_once(self, count: Callable[[], Awaitable[int]]) -> None:
        begun, ended = self._monotonic(), self._ended
        counted = await count()
        self._counted, self._counted_at = counted, begun
        self._ended -= ended
        self._seconds_to_count = self._monotonic() - begun

    def _end_counting(self, done: asyncio.Task[None]) -> None:
        self._counting = None
        if not done.cancelled():
            done.exception()  # each caller that waits has it already


class Rate(Struct, frozen=True):
    """How often something may happen.

    Args:
        count: how many times at once.
        seconds: the time in which that many become possible again.
    """

    count: int
    seconds: float = 60.0

    @property
    def interval(self) -> float:
        """Seconds until one more becomes possible."""
        return self.seconds / self.count


def find_wait(rate: Rate, state: float, now: float) -> float:
    """Return the seconds until it may happen again; 0 if it may happen now.

    Args:
        rate: how often it may happen.
        state: the state of the caller; 0 for a new one.
        now: the time in seconds, of a clock that does not go back.

    >>> state = add_use(Rate(1, 60), 0.0, now=10.0)
    >>> find_wait(Rate(1, 60), state, now=40.0)
    30.0
    """
    wait = state - now - (rate.count - 1) * rate.interval
    return wait if wait > 1e-9 else 0.0


def add_use(rate: Rate, state: float, now: float) -> float:
    """Return the state of a caller after it happened once more."""
    # Not further ahead than a full count: a caller that is refused must not wait ever longer.
    return min(max(state, now) + rate.interval, now + rate.seconds)


class RateTable:
    """The states of many callers under one rate.

    Args:
        rate: how often each may do it.
        size: how many callers are remembered.
    """

    def __init__(self, rate: Rate, size: int = 10_000) -> None:
        self._rate = rate
        self._size = size
        self._states: OrderedDict[str, float] = OrderedDict()

    def find_wait(self, caller: str, now: float) -> float:
        """Return the seconds until the caller may do it again; 0 if it may now."""
        return find_wait(self._rate, self._states.get(caller, 0.0), now)

    def add_use(self, caller: str, now: float) -> None:
        """Note that the caller did it."""
        self._states[caller] = add_use(self._rate, self._states.get(caller, 0.0), now)
        self._states.move_to_end(caller)
        if len(self._states) > self._size:
            self._states.popitem(last=False)

    def give_back(self, caller: str) -> None:
        """Take back one use of the caller."""
        if caller in self._states:
            self._states[caller] -= self._rate.interval

    def take(self, caller: str, now: float) -> float:
        """Note that the caller did it, if it may; otherwise return the seconds until then."""
        wait = self.find_wait(caller, now)
        if not wait:
            self.add_use(caller, now)
        return wait
