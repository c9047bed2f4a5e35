"""The caller of a request, and the checks that routes make of it.

A middleware puts a `Caller` into `scope["state"]`. Routes call `require` and the functions that take
from a budget, which raise ProblemError; the routes never read a header themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.requests import HTTPConnection

from holdfast.server.access.budgets import MORE_BYTES, Budget, CallerUsage, RequestUse, Takes
from holdfast.server.access.key_ring import Credential
from holdfast.server.access.principals import Principal, Scope
from holdfast.server.problem_body import ProblemBody
from holdfast.server.problem_responses import ProblemError, make_problem

STATE = "holdfast.caller"


class Caller:
    """The caller of one request.

    Args:
        usage: counts the use of all callers.
        principal: who it is; None for a request that needs none.

    Attributes:
        credential: the key or the sign-in that it has shown; None if there is none of the store.
        takes: the budgets that the route declares; None before a route was found.
        use: the shares that the request has taken.
        is_waiting: whether the request only waits or reads now, so that it may be ended.
        last_event: makes the last event of a stream that is ended, from the reason.
    """

    def __init__(self, usage: CallerUsage, principal: Principal | None) -> None:
        self.usage = usage
        self.principal = principal
        self.credential: Credential | None = None
        self.takes: Takes | None = None
        self.use: RequestUse | None = None
        self.is_waiting = False
        self.last_event: Callable[[ProblemBody], bytes] | None = None

    def begin_request(self) -> None:
        """Count the request. Raises ProblemError: there are too many."""
        assert self.principal is not None  # noqa: S101  # REASON: the gate has found it
        use = RequestUse(self.principal)
        self.usage.begin_request(use)
        self.use = use

    def end_request(self) -> None:
        """Give back the shares that the request has taken."""
        use, self.use = self.use, None
        if use is not None:
            self.usage.end_request(use)

    def find_use(self, budget: Budget) -> RequestUse | None:
        """Return the shares that the request has taken; None if nobody counts them.

        Raises:
            TypeError: its route does not declare this budget.
        """
        if self.takes is not None and budget not in self.takes:
            raise TypeError(f"the route takes from {budget!r} and does not declare it")
        return self.use

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


def require(request: HTTPConnection, scope: Scope) -> Principal:
    """Return who calls, if it may do this.

    Args:
        request: the request.
        scope: the scope of the route.

    Raises:
        ProblemError: 401 without a principal, 403 without the scope.
    """
    return get_caller(request).require(scope)


def take_turn(request: HTTPConnection) -> Principal:
    """Return who calls, if it has the scope `run` and may start one more turn now.

    Raises:
        ProblemError: 401, 403, or 429.
    """
    principal = require(request, "run")
    caller = get_caller(request)
    if (use := caller.find_use("turns")) is not None:
        caller.usage.take_turn(use)
    return principal


def take_further_turn(request: HTTPConnection, *, is_driven: bool = False) -> None:
    """Count a call of a model that is no new turn: one that goes on, or a summary.

    Args:
        request: the request.
        is_driven: whether this process drives the turn already.

    Raises:
        ProblemError: 429 if the key starts or continues too many.
    """
    caller = get_caller(request)
    if (use := caller.find_use("turns")) is not None:
        caller.usage.take_turn(use, is_new=False, is_driven=is_driven)


def check_ticks(request: HTTPConnection, ticks: float) -> None:
    """Check how many turns a minute the schedules of the caller's tenant may submit.

    Raises:
        ProblemError: 429 if they are more than a key may start.
    """
    caller = get_caller(request)
    if caller.find_use("turns") is not None:
        caller.usage.check_ticks(ticks)


def take_stream(request: HTTPConnection) -> None:
    """Count a stream or a wait, which ends with the request.

    Raises:
        ProblemError: 429 if the key has too many streams open.
    """
    caller = get_caller(request)
    if (use := caller.find_use("streams")) is not None:
        caller.usage.take_stream(use)


async def take_bytes(request: HTTPConnection, size: int) -> None:
    """Count bytes that the request is about to store.

    Raises:
        ProblemError: 429 if the tenant would store more than it may.
        JournalError: its stored bytes cannot be counted.
    """
    caller = get_caller(request)
    if (use := caller.find_use("bytes")) is not None:
        await caller.usage.take_bytes(use, size + MORE_BYTES)


def set_takes(request: HTTPConnection, takes: Takes) -> None:
    """Note the budgets that the route of a request declares; it can take from no other."""
    get_caller(request).takes = takes


def set_last_event(request: HTTPConnection, make: Callable[[ProblemBody], bytes]) -> None:
    """Set the function that makes the last event of the stream of a request, if the stream is ended before its end.

    Args:
        request: the request.
        make: makes the event, from the problem that says why.
    """
    get_caller(request).last_event = make


@contextmanager
def waiting(request: HTTPConnection) -> Iterator[None]:
    """Let the request be ended in the block, which only waits: for instance if its key is revoked."""
    caller = get_caller(request)
    caller.is_waiting = True
    try:
        yield
    finally:
        caller.is_waiting = False


def make_key_problem(detail: str = "A key is needed.") -> ProblemBody:
    """Return the problem of a request without a valid key."""
    return make_problem(
        401,
        "unauthenticated",
        detail,
        field="Authorization",
        fix="Send Authorization: Bearer hf_...",
    )


def get_caller(request: HTTPConnection) -> Caller:
    """Return the caller of a request. Raises TypeError if the application is not protected."""
    caller = request.scope.get("state", {}).get(STATE)
    if not isinstance(caller, Caller):
        raise TypeError("the application is not protected: pass it to holdfast.server's protect()")
    return caller
