"""What a client does between its attempts: ours by the library's own functions, others as documented.

A policy belongs to one process of the fleet. It must never look at the provider: all it knows is
what its own attempts returned.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from typing_extensions import override

from holdfast import ErrorCategory, ErrorInfo, Resilience, RetryOptions
from holdfast.errors import Landed
from holdfast.resilience import BreakerOptions, BudgetOptions
from holdfast.resilience.breaker import decision as breaker
from holdfast.resilience.budget import decision as budget
from holdfast.resilience.defaults import MODEL_BREAKER_WAIT
from holdfast.resilience.retry.decision import WaitAndRetry, decide_retry, decide_unsent

REFUSED = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="503", landed=Landed.NO)
DOWN = ErrorInfo(category=ErrorCategory.TRANSIENT, safe="connection refused", landed=Landed.NO)


class Policy:
    """The rules of one process: this one sends at once, never tries again, and learns nothing."""

    def begin(self) -> None:
        """A call begins."""

    def hold(self, now: float, waited: float) -> float | None:  # noqa: ARG002 - for subclasses
        """Before each attempt: 0 to send it, seconds to wait first, None to give the call up."""
        return 0.0

    def ticket(self) -> object:
        """What the attempt that was let through must show when it ends."""
        return None

    def done(self, ticket: object, now: float, failure: ErrorInfo | None) -> None:
        """An attempt ended."""

    def again(
        self,
        now: float,  # noqa: ARG002 - for subclasses
        failure: ErrorInfo,  # noqa: ARG002 - for subclasses
        attempt: int,  # noqa: ARG002 - for subclasses
    ) -> float | None:
        """After attempt number `attempt` (from 0) failed: seconds to wait, None to give up."""
        return None


class Ours(Policy):
    """Holdfast's defaults: retry, retry budget and breaker, one of each for a process."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._handling = RetryOptions(max_breaker_wait=MODEL_BREAKER_WAIT)
        defaults = Resilience()
        self._budget = defaults.budget or BudgetOptions()
        self._breaker = defaults.breaker or BreakerOptions()
        self._bucket = budget.Bucket(self._budget.reserve, 0.0)
        self._state: breaker.BreakerState = breaker.ClosedState()
        self._ticket = breaker.Ticket(0)

    @override
    def begin(self) -> None:
        """Each call puts its share into the budget."""
        room = budget.bucket_capacity(self._budget)
        self._bucket = budget.deposit_tokens(self._bucket, self._budget.ratio, room)

    @override
    def hold(self, now: float, waited: float) -> float | None:
        """The breaker lets through, or says when to ask again."""
        self._state, answer = breaker.admit_call(self._breaker, self._state, now)
        if isinstance(answer, breaker.Ticket):
            self._ticket = answer
            return 0.0
        info = ErrorInfo(
            category=ErrorCategory.TRANSIENT, safe="open", retry_after=answer.retry_after
        )
        decision = decide_unsent(self._handling, info, waited=waited, remaining=None)
        return decision.delay if isinstance(decision, WaitAndRetry) else None

    @override
    def ticket(self) -> breaker.Ticket:
        """The breaker's."""
        return self._ticket

    @override
    def done(self, ticket: object, now: float, failure: ErrorInfo | None) -> None:
        """The breaker learns."""
        if isinstance(ticket, breaker.Ticket):
            verdict: breaker.Health = "unwell" if failure is not None else "well"
            self._state = breaker.record_result(
                self._breaker, self._state, ticket, verdict, now=now
            )

    @override
    def again(self, now: float, failure: ErrorInfo, attempt: int) -> float | None:
        """The library's decision, out of the budget."""
        dice = self._dice.random
        decision = decide_retry(self._handling, failure, attempt, remaining=None, rng=dice)
        if not isinstance(decision, WaitAndRetry):
            return None
        bucket = budget.withdraw_token(budget.refill_bucket(self._budget, self._bucket, now))
        if bucket is None:
            return None
        self._bucket = bucket
        return decision.delay


class Plain(Policy):
    """A number of retries (None: no end) and a wait, and nothing that is shared."""

    def __init__(self, retries: int | None, wait: Callable[[int], float]) -> None:
        self._retries = retries
        self._wait = wait

    @override
    def again(self, now: float, failure: ErrorInfo, attempt: int) -> float | None:
        """The wait, while there are retries left."""
        if self._retries is not None and attempt >= self._retries:
            return None
        return self._wait(attempt)


def _always(seconds: float) -> Callable[[int], float]:
    return lambda _attempt: seconds


def _sdk_wait(dice: Random, attempt: int) -> float:
    return min(0.5 * 2.0**attempt, 8.0) * (1.0 - 0.25 * dice.random())


def _middleware_wait(dice: Random, attempt: int) -> float:
    """Its own waits between three rounds of the SDK's three attempts."""
    rounds, inner = divmod(attempt, 3)
    if inner < 2:
        return _sdk_wait(dice, inner)
    return float(min(1.0 * 2.0**rounds, 60.0) * (0.75 + 0.5 * dice.random()))


POLICIES: dict[str, Callable[[Random], Policy]] = {
    "holdfast": Ours,
    "no retry": lambda _dice: Policy(),
    "fixed: 3 x 1 s": lambda _dice: Plain(3, _always(1.0)),
    "exponential: 1, 2, 4 s": lambda dice: Plain(
        3, lambda attempt: 2.0**attempt * (0.9 + 0.2 * dice.random())
    ),
    "openai SDK: 2 retries": lambda dice: Plain(2, lambda attempt: _sdk_wait(dice, attempt)),
    "LangChain retry middleware over it": lambda dice: Plain(
        8, lambda attempt: _middleware_wait(dice, attempt)
    ),
    "tenacity @retry: for ever, no wait": lambda _dice: Plain(None, _always(0.0)),
}
"""By name. Documented defaults: openai 2 retries, 0.5 s doubling to 8 s, up to a quarter less;
LangChain's ModelRetryMiddleware 2 retries, 1 s doubling to 60 s, plus or minus a quarter, over the
SDK's own; tenacity's bare decorator has no end and no wait."""
