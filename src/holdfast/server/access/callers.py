"""What is known about the caller of a request, and what routes ask of it.

A middleware puts a `Caller` into `scope["state"]`. Routes call `require`, `take_turn` and
`take_stream`, which raise ProblemError; the routes never read a header themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, MutableMapping
from typing import Any, Protocol, TypeAlias

from holdfast.server.access.options import AccessLimits
from holdfast.server.access.principals import Principal, Scope
from holdfast.server.access.rates import Rate, RateTable
from holdfast.server.problem_body import ProblemBody
from holdfast.server.problem_responses import ProblemError, make_problem, make_wait_problem

STATE = "holdfast.caller"


class HasScope(Protocol):
    """A request of Starlette, or anything else with an ASGI scope."""

    @property
    def scope(self) -> MutableMapping[str, Any]:
        """The ASGI scope."""
        ...


class HasCounts(Protocol):
    """How many turns a tenant has."""

    @property
    def running(self) -> int:
        """Those that this process drives."""
        ...

    @property
    def waiting(self) -> int:
        """Those that wait for an answer."""
        ...


CountTurns: TypeAlias = Callable[[str], HasCounts]
"""Returns how many turns a tenant has."""


class Caller:
    """The caller of one request.

    Args:
        usage: counts the turns and streams of all callers.
        principal: who it is; None for a request that needs none.
    """

    def __init__(self, usage: CallerUsage, principal: Principal | None) -> None:
        self.usage = usage
        self.principal = principal
        self.has_stream = False

    def require(self, scope: Scope) -> Principal:
        """Return who calls, if it may do this. Raises ProblemError: 401 or 403."""
        if self.principal is None:
            raise ProblemError(make_key_problem())
        # The gate redacts whatever a redacted reader gets.
        wanted: Scope = "read:redacted" if scope == "read" else scope
        if not self.principal.may(wanted):
            raise ProblemError(
                make_problem(
                    403,
                    "forbidden",
                    f"The key does not have the scope {scope!r}.",
                    fix="Use a key that has it: holdfast keys create --scopes",
                )
            )
        return self.principal


class CallerUsage:
    """Counts the turns that keys started and the streams that they have open, in this process.

    Args:
        limits: the limits.
        monotonic: a clock in seconds that does not go back.
    """

    def __init__(self, limits: AccessLimits, monotonic: Callable[[], float]) -> None:
        self._limits = limits
        self._monotonic = monotonic
        self._turns = RateTable(Rate(limits.turns_per_minute))
        self._streams: Counter[str] = Counter()
        self.count_turns: CountTurns | None = None
        """Counts the turns of a tenant; without it, only the keys have limits."""

    @property
    def open_streams(self) -> int:
        """How many streams are open."""
        return self._streams.total()

    def take_turn(self, principal: Principal) -> None:
        """Count a turn.

        Raises:
            ProblemError: the key started too many, or its tenant has too many.
        """
        limits = self._limits
        if self.count_turns is not None:
            counts = self.count_turns(principal.tenant)
            if counts.running >= limits.running_turns:
                detail = f"{counts.running} turns are running, and that is the limit."
                raise ProblemError(make_wait_problem(429, "running_turns", detail, 1.0))
            if counts.waiting >= limits.waiting_turns:
                detail = f"{counts.waiting} turns wait for an answer, and that is the limit."
                raise ProblemError(
                    make_problem(429, "waiting_turns", detail, fix="Answer or cancel some of them")
                )
        wait = self._turns.take(_name(principal), self._monotonic())
        if wait:
            detail = f"The key may start {limits.turns_per_minute} turns a minute."
            raise ProblemError(make_wait_problem(429, "turn_rate", detail, wait))

    def take_stream(self, caller: Caller, principal: Principal) -> None:
        """Count a stream until its request ends. Raises ProblemError if the key has too many."""
        name, most = _name(principal), self._limits.streams_per_key
        if caller.has_stream:
            return
        if self._streams[name] >= most:
            raise ProblemError(
                make_problem(
                    429,
                    "open_streams",
                    f"The key may have {most} streams open.",
                    fix="Close one of them first",
                    retryable=True,
                )
            )
        caller.has_stream = True
        self._streams[name] += 1

    def end_request(self, caller: Caller) -> None:
        """Note that a request, and its stream, has ended."""
        if caller.has_stream and caller.principal is not None:
            name = _name(caller.principal)
            self._streams[name] -= 1
            if not self._streams[name]:
                del self._streams[name]


def _name(principal: Principal) -> str:
    return principal.key_id or f"{principal.tenant}\0{principal.name}"


def require(request: HasScope, scope: Scope) -> Principal:
    """Return who calls, if it may do this.

    Args:
        request: the request.
        scope: what the route does.

    Raises:
        ProblemError: 401 without a principal, 403 without the scope.
    """
    return _get_caller(request).require(scope)


def take_turn(request: HasScope) -> Principal:
    """Return who calls, if it has the scope `run` and may start one more turn now.

    Raises:
        ProblemError: 401, 403, or 429.
    """
    principal = require(request, "run")
    _get_caller(request).usage.take_turn(principal)
    return principal


def take_stream(request: HasScope) -> None:
    """Count a stream, which ends with the request.

    Raises:
        ProblemError: 429 if the key has too many streams open.
    """
    caller = _get_caller(request)
    if caller.principal is not None:
        caller.usage.take_stream(caller, caller.principal)


def make_key_problem(detail: str = "A key is needed.") -> ProblemBody:
    """Return the problem of a request without a valid key."""
    return make_problem(
        401,
        "unauthenticated",
        detail,
        field="Authorization",
        fix="Send Authorization: Bearer hf_...",
    )


def _get_caller(request: HasScope) -> Caller:
    caller = request.scope.get("state", {}).get(STATE)
    if not isinstance(caller, Caller):
        raise TypeError("the application is not protected: pass it to holdfast.server's protect()")
    return caller
