"""Retry: the one layer that repeats an act, and the pure decision when to.

Three tiers decide, as in seed 000: the user's own strategy (its answer is final), then what the
provider said (category, Retry-After), then exponential backoff. Cancellation is never retried, and
nothing below this layer may retry by itself.

An act that was held back (`Failed.sent` is False: an open breaker) is no attempt: the call waits
until it may go, if its deadline and `max_breaker_wait` allow that.

A reply that broke off may be kept (`Failed.kept`) and continued by the next attempt. When it is
not, because the retries are over or the provider refuses to go on, it is declared abandoned here.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from holdfast.core.errors import ErrorCategory, ErrorInfo, HoldfastError
from holdfast.core.messages import Usage
from holdfast.core.notices import RetryScheduled
from holdfast.resilience import ask, backoff, broken_off
from holdfast.resilience.budget import RetryBudget
from holdfast.resilience.clock import Dice
from holdfast.resilience.handling import DEFER, CustomRetry, ErrorHandling, ProviderHandler
from holdfast.resilience.pipeline import Act, Call, Done, Failed, Outcome, P, T, settings_of

__all__ = ["CustomRetry", "ErrorHandling", "Retry", "Stop", "Wait", "decide", "limit_for"]

Reason = Literal[
    "not_retryable",
    "in_doubt",
    "exhausted",
    "budget",
    "deadline",
    "delay_too_long",
    "breaker",
    "not_sent",
    "custom",
    "custom_invalid",
    "custom_failed",
    "custom_blocked",
]


class Wait(Struct, frozen=True):
    """Try again after `delay` seconds."""

    delay: float


class Stop(Struct, frozen=True):
    """Do not try again, for this reason; `detail` says more where there is more to say."""

    reason: Reason
    detail: str = ""


Decision: TypeAlias = Wait | Stop

_OURS = frozenset({ErrorCategory.PROGRAMMING, ErrorCategory.LIMIT, ErrorCategory.CANCELLED})
_SHORTEST_HOLD = 0.001

_log = logging.getLogger("holdfast")


def limit_for(handling: ErrorHandling, category: ErrorCategory) -> int:
    """How many retries this category has; one that is not named has the global limit."""
    by_category = handling.max_retries_by_category or {}
    return by_category.get(category, handling.max_retries)


def decide(
    handling: ErrorHandling,
    info: ErrorInfo,
    attempt: int,
    *,
    remaining: float | None,
    dice: Dice,
    previous: float = 0.0,
) -> Decision:
    """What to do after attempt number `attempt` (from 0) failed with `info`; tiers two and three.

    Args:
        handling: the settings.
        info: the classified failure.
        attempt: the number of the attempt that failed, from 0.
        remaining: seconds until the deadline; None without one.
        dice: for the jitter.
        previous: the wait before this attempt, in seconds.
    """
    known = handling.normalize_errors
    if not info.category.retryable and (known or info.category in _OURS):
        return Stop("not_retryable")
    limit = limit_for(handling, info.category) if known else handling.max_retries
    if attempt >= limit:
        return Stop("exhausted")
    if known and handling.use_provider_retry_delays and info.retry_after is not None:
        if info.retry_after > handling.max_provider_delay:
            return Stop("delay_too_long", f"{info.retry_after:g}")
        return within(remaining, info.retry_after)
    return within(remaining, wait_of(handling, attempt, dice, previous))


def decide_held(
    handling: ErrorHandling, info: ErrorInfo, *, waited: float, remaining: float | None
) -> Decision:
    """What to do with a call that was held back before it was sent.

    Args:
        handling: the settings.
        info: why it was held back; `retry_after` says when it may go, None that waiting is no use.
        waited: seconds that this call waited for the same reason already.
        remaining: seconds until the deadline; None without one.
    """
    if info.retry_after is None:
        return Stop("not_sent")
    if waited + info.retry_after > handling.max_breaker_wait:
        return Stop("breaker", f"{info.retry_after:g}")
    return within(remaining, max(info.retry_after, _SHORTEST_HOLD))


def wait_of(handling: ErrorHandling, attempt: int, dice: Dice, previous: float = 0.0) -> float:
    """The wait of the named backoff policy after attempt number `attempt` (from 0), in seconds."""
    base, cap = handling.retry_delay, handling.max_retry_delay
    if handling.backoff == "pure":
        return backoff.pure(attempt, base=base)
    if handling.backoff == "full_jitter":
        return backoff.full_jitter(attempt, base=base, cap=cap, dice=dice)
    if handling.backoff == "decorrelated":
        return backoff.decorrelated(previous, base=base, cap=cap, dice=dice)
    return backoff.exponential(
        attempt, base=base, multiplier=handling.backoff_multiplier, cap=cap, dice=dice
    )


def within(remaining: float | None, delay: float) -> Decision:
    """Wait, unless the wait would reach the deadline: then it is given up now and not later."""
    if remaining is not None and delay >= remaining:
        return Stop("deadline", f"{delay:.3g}")
    return Wait(delay)


_WHY: dict[Reason, str] = {
    "in_doubt": "it may have taken effect, and is not repeated unasked",
    "budget": "the retry budget of this endpoint is spent, so that retries do not add to its load",
    "deadline": "the wait of {detail} s would pass the deadline",
    "delay_too_long": "the provider asks to wait {detail} s, more than max_provider_delay",
    "breaker": "waiting another {detail} s would be more than max_breaker_wait",
    "custom_invalid": "custom_retry answered {detail}, which is no number of seconds",
    "custom_failed": "custom_retry or provider_handler raised {detail}",
    "custom_blocked": "custom_retry did not answer in {detail} s",
}


class Retry(Struct, frozen=True):
    """The strategy: repeats a failed act as `decide` says, out of a budget when there is one.

    Args:
        handling: the settings.
        budget: how many acts may be repeated.
        continue_streams: let the next attempt go on with a reply that broke off.
    """

    handling: ErrorHandling = ErrorHandling()
    budget: RetryBudget | None = None
    continue_streams: bool = False

    @property
    def name(self) -> str:
        """`retry`"""
        return "retry"

    def describe(self) -> Mapping[str, object]:
        """The settings that are not callables."""
        settings = dict(settings_of(self.handling))
        if self.budget is not None:
            settings["budget"] = self.budget.describe()
        if self.continue_streams:
            settings["continue_streams"] = True
        return settings

    def wrap(self, act: Act[P, T]) -> Act[P, T]:
        """The act, repeated while the decision says so."""
        handling, budget, continues = self.handling, self.budget, self.continue_streams

        async def with_retry(call: Call[P]) -> Outcome[T]:
            if budget is not None:
                budget.deposit()
            if continues:
                call = msgspec.structs.replace(call, continues=True)
            outcome = await act(call)
            if type(outcome) is Done:
                return outcome
            return await _repeat(_Progress(handling, budget, call.attempt), act, call, outcome)

        return with_retry


class _Progress:
    """How far one call is: attempts that were made, and seconds that it waited."""

    __slots__ = (
        "budget",
        "continues",
        "first",
        "handling",
        "held",
        "last",
        "lost",
        "made",
        "previous",
        "read",
        "refreshed",
        "uncounted",
    )

    def __init__(self, handling: ErrorHandling, budget: RetryBudget | None, first: int) -> None:
        self.handling = handling
        self.budget = budget
        self.first = first
        self.made = 0
        self.uncounted = 0
        self.continues = True
        self.held = 0.0
        self.previous = 0.0
        self.refreshed = False
        self.lost: Usage | None = None
        self.last: Failed | None = None
        self.read: ErrorInfo | None = None

    @property
    def failures(self) -> int:
        """Attempts that count: without those that were refused only for what they continued."""
        return self.made - self.uncounted


async def _repeat(
    progress: _Progress, act: Act[P, T], call: Call[P], outcome: Outcome[T]
) -> Outcome[T]:
    while isinstance(outcome, Failed):
        decision = await _decision(progress, call, outcome)
        if isinstance(decision, Stop):
            broken_off.abandon(call, outcome)
            return _stopped(progress, outcome, decision)
        call = _next(progress, call, outcome)
        await broken_off.wait_before(call, decision.delay)
        outcome = await act(call)
    return Done(outcome.value, progress.made + 1, outcome.tried, progress.lost)


def _next(progress: _Progress, call: Call[P], outcome: Failed) -> Call[P]:
    """The call for the next attempt, with what it can continue."""
    kept = broken_off.kept_after(call, outcome)
    if kept is None:
        broken_off.abandon(call, outcome)
        progress.lost = broken_off.added(progress.lost, broken_off.spent(outcome, call.kept))
    return msgspec.structs.replace(
        call,
        attempt=progress.first + progress.made,
        continues=call.continues and progress.continues,
        kept=kept,
    )


async def _decision(progress: _Progress, call: Call[P], outcome: Failed) -> Decision:
    """Decide, take from the budget, and tell those who listen."""
    handling = progress.handling
    if outcome.sent:
        progress.made += 1
        progress.read = None
        counts = not broken_off.refuses_to_continue(call, outcome)
        if counts:
            decision = await _after_attempt(progress, call, outcome)
        else:
            progress.continues = False
            progress.uncounted += 1
            decision = within(call.remaining(), 0.0)
        if isinstance(decision, Stop):
            return decision
        budget = progress.budget if counts else None
        if budget and not budget.withdraw(call.env.clock.monotonic()):
            return Stop("budget")
        progress.previous, progress.held = decision.delay, 0.0
        progress.last = msgspec.structs.replace(outcome, lost=progress.lost)
    else:
        decision = decide_held(
            handling, outcome.info, waited=progress.held, remaining=call.remaining()
        )
        if isinstance(decision, Stop):
            return decision
        progress.held += decision.delay
    info = progress.read or outcome.info
    attempt = max(progress.made, 1) + progress.first - 1
    limit = limit_for(handling, info.category)
    scheduled = RetryScheduled(call.key, attempt, limit, decision.delay, info.public())
    call.env.tell(scheduled)
    if call.env.note_retry is not None:
        call.env.note_retry(scheduled)
    _log.info("%s: attempt %d: %s; again in %.3g s", call.key, attempt, info.safe, decision.delay)
    return decision


async def _after_attempt(progress: _Progress, call: Call[P], outcome: Failed) -> Decision:
    """The three tiers, after the rule that an act in doubt is not repeated."""
    handling, attempt = progress.handling, progress.failures - 1
    if not outcome.may_repeat:
        return Stop("in_doubt")
    if handling.custom_retry is not None:
        remaining = call.remaining()
        if attempt >= handling.max_retries:
            return Stop("exhausted")
        if remaining == 0:
            return Stop("deadline", "0")
        answer = await ask.custom(handling.custom_retry, outcome.error, attempt, remaining)
        if isinstance(answer, ask.NoAnswer):
            return Stop(answer.reason, answer.detail)
        if answer is not DEFER:
            return within(call.remaining(), min(answer, handling.max_retry_delay))
    if outcome.info.category is ErrorCategory.AUTH_ERROR and not progress.refreshed:
        progress.refreshed = True
        if attempt < handling.max_retries and await ask.refresh(handling, outcome.info):
            return Wait(0.0)
    if handling.provider_handler is not None:
        return _by_handler(handling.provider_handler, progress, call, outcome)
    return decide(
        handling,
        outcome.info,
        attempt,
        remaining=call.remaining(),
        dice=call.env.dice,
        previous=progress.previous,
    )


def _by_handler(
    handler: ProviderHandler, progress: _Progress, call: Call[P], outcome: Failed
) -> Decision:
    """Tier two by the user's own handler; tier three, with full jitter, when it knows nothing."""
    handling, attempt = progress.handling, progress.failures - 1
    if outcome.info.category in _OURS:
        return Stop("not_retryable")
    answer = ask.handler(handler, handling, outcome.error, attempt)
    if isinstance(answer, ask.NoAnswer):
        return Stop(answer.reason, answer.detail)
    if answer.info is None:
        if attempt >= handling.max_retries:
            return Stop("exhausted")
        delay = backoff.full_jitter(
            attempt, base=handling.retry_delay, cap=handling.max_retry_delay, dice=call.env.dice
        )
        return within(call.remaining(), delay)
    progress.read = answer.info
    if attempt >= limit_for(handling, answer.info.category):
        return Stop("exhausted")
    if answer.delay is None:
        return Stop("not_retryable")
    return within(call.remaining(), min(answer.delay, handling.max_retry_delay))


def _stopped(progress: _Progress, outcome: Failed, stop: Stop) -> Failed:
    """The failure that counts, with the reason for giving up in it where that is news.

    A call that failed and then was held back failed for the first reason: the second only says
    why it was not tried again.
    """
    final = outcome if outcome.sent or progress.last is None else progress.last
    info = progress.read or final.info
    if progress.handling.include_provider_details:
        info = with_details(info)
    why = _WHY.get(stop.reason, "").format(detail=stop.detail)
    if final is not outcome:
        why = "; ".join(filter(None, (outcome.info.safe, why)))
    if why:
        info = msgspec.structs.replace(info, safe=f"{info.safe} (not tried again: {why})")
        final.error.add_note(f"not tried again: {why}")
    if isinstance(final.error, HoldfastError):
        final.error.info = info
    late = stop.reason == "deadline"
    lost = progress.lost if final is outcome else final.lost
    return msgspec.structs.replace(
        final, info=info, attempts=progress.made, out_of_time=late, lost=lost
    )


def with_details(info: ErrorInfo) -> ErrorInfo:
    """The same, with what the provider calls it in the safe text.

    >>> with_details(ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="overloaded", status=529)).safe
    'overloaded [status 529]'
    """
    known = [
        f"{word} {value}"
        for word, value in (
            ("provider", info.provider),
            ("status", info.status),
            ("code", info.code),
            ("request", info.request_id),
        )
        if value is not None
    ]
    if not known:
        return info
    return msgspec.structs.replace(info, safe=f"{info.safe} [{', '.join(known)}]")
