"""Retry: the only layer that repeats an operation.

Three sources decide, in this order: the user's own function (its answer is final), the provider's
answer (error category, Retry-After), exponential backoff. A cancellation is never retried, and what
is below this layer and repeats by itself says how many attempts it made, and they count here.

A call that a strategy inside rejected (`Failed.sent` is False, for example by an open breaker) is not
an attempt: it waits until it may be sent, if its deadline and `max_breaker_wait` allow that.

A failed attempt leaves a value to the next one (`Carry`), which is passed on and never read here.

A function of the user may raise, block, or return something that cannot be used. None of that hides the failure
that it was called for, or becomes a wait: the call ends with its own error, and a note names the mistake.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from asyncio import CancelledError
from collections.abc import Awaitable, Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from holdfast.core.detached_errors import detach_for_log
from holdfast.core.errors import ErrorCategory, ErrorInfo, HoldfastError, OutputError
from holdfast.core.notices import RetryScheduled
from holdfast.core.redaction import redact
from holdfast.core.type_checks import is_seconds
from holdfast.resilience.budget.retry_budget import RetryBudget
from holdfast.resilience.pipeline import (
    CallContext,
    Done,
    Failed,
    Operation,
    Outcome,
    P,
    T,
    settings_of,
)
from holdfast.resilience.retry import backoff
from holdfast.resilience.retry.decision import (
    NEVER_RETRIED,
    Decision,
    Reason,
    StopRetrying,
    WaitAndRetry,
    decide_retry,
    decide_unsent,
    limit_for,
    wait_within,
)
from holdfast.resilience.retry.options import (
    DEFER,
    CustomRetry,
    Defer,
    ProviderHandler,
    RetryAnswer,
    RetryOptions,
)

__all__ = [
    "CustomRetry",
    "Retry",
    "RetryOptions",
    "StopRetrying",
    "WaitAndRetry",
    "decide_retry",
    "limit_for",
]

_log = logging.getLogger("holdfast")


_WHY: dict[Reason, str] = {
    "in_doubt": "it may have taken effect, and is not repeated unasked",
    "answered": "the model was asked for its output as often as the limits of the output allow",
    "budget": "the retry budget of this endpoint is spent, so that retries do not add to its load",
    "out_of_time": "it used all the time that its turn could spare",
    "deadline": "the wait of {detail} s would pass the deadline",
    "delay_too_long": "the provider asks to wait {detail} s, more than max_provider_delay",
    "breaker": "waiting another {detail} s would be more than max_breaker_wait",
    "custom_invalid": "custom_retry answered {detail}, which is not a number of seconds",
    "custom_failed": "custom_retry or provider_handler raised {detail}",
    "custom_blocked": "custom_retry did not answer in {detail} s",
}


class Retry(Struct, frozen=True):
    """The strategy: repeats a failed operation as `decide_retry` says, within a budget if there is one.

    Args:
        options: the settings.
        budget: how many calls may be repeated.
    """

    options: RetryOptions = RetryOptions()
    budget: RetryBudget | None = None

    @property
    def name(self) -> str:
        """`retry`"""
        return "retry"

    def describe(self) -> Mapping[str, object]:
        """The settings that are not callables."""
        settings = dict(settings_of(self.options))
        if self.budget is not None:
            settings["budget"] = self.budget.describe()
        return settings

    def wrap(self, operation: Operation[P, T]) -> Operation[P, T]:
        """The operation, repeated while the decision says so."""
        options, budget = self.options, self.budget

        async def with_retry(call: CallContext[P]) -> Outcome[T]:
            if budget is not None:
                budget.deposit()
            outcome = await operation(call)
            if type(outcome) is Done:
                return outcome
            return await _repeat_call(
                _Progress(options, budget, call.attempt), operation, call, outcome
            )

        return with_retry


class _Progress:
    """The progress of one call: attempts that were made, and seconds that it waited."""

    __slots__ = (
        "attempts_made",
        "budget",
        "first_attempt",
        "handler_info",
        "last_failure",
        "options",
        "previous_delay",
        "refreshed",
        "uncounted",
        "unsent_seconds",
    )

    def __init__(
        self, options: RetryOptions, budget: RetryBudget | None, first_attempt: int
    ) -> None:
        self.options = options
        self.budget = budget
        self.first_attempt = first_attempt
        self.attempts_made = 0
        self.uncounted = 0
        self.unsent_seconds = 0.0
        self.previous_delay = 0.0
        self.refreshed = False
        self.last_failure: Failed | None = None
        self.handler_info: ErrorInfo | None = None

    @property
    def failures(self) -> int:
        """Attempts that count as retries."""
        return self.attempts_made - self.uncounted


async def _repeat_call(
    progress: _Progress, operation: Operation[P, T], call: CallContext[P], outcome: Outcome[T]
) -> Outcome[T]:
    while isinstance(outcome, Failed):
        decision = await _decide_next(progress, call, outcome)
        if isinstance(decision, StopRetrying):
            if call.carry is not None:
                call.carry.give_up(call, outcome)
            return _final_failure(progress, call, outcome, decision)
        call = _next_call(progress, call, outcome)
        await _wait_before_retry(call, decision.delay)
        outcome = await operation(call)
    attempts = progress.attempts_made + outcome.attempts
    return Done(outcome.value, attempts, outcome.tried, call.carry)


def _next_call(progress: _Progress, call: CallContext[P], outcome: Failed) -> CallContext[P]:
    """Return the call for the next attempt, with the carry of this one."""
    carry = None if call.carry is None else call.carry.after_attempt(call, outcome)
    return msgspec.structs.replace(
        call, attempt=progress.first_attempt + progress.attempts_made, carry=carry
    )


async def _wait_before_retry(call: CallContext[P], seconds: float) -> None:
    if seconds <= 0:
        return
    try:
        await call.execution.clock.sleep(seconds)
    except CancelledError:
        if call.carry is not None:
            call.carry.interrupt(call)
        raise


async def _decide_next(progress: _Progress, call: CallContext[P], outcome: Failed) -> Decision:
    """Decide, withdraw from the budget, and emit the notice of a retry."""
    options = progress.options
    if outcome.out_of_time:
        progress.attempts_made += 1
        return StopRetrying("out_of_time" if outcome.may_repeat else "in_doubt")
    if outcome.sent:
        progress.attempts_made += outcome.attempts
        progress.handler_info = None
        counts = call.carry is None or call.carry.is_attempt_counted(outcome)
        if counts:
            decision = await _decide_after_attempt(progress, call, outcome)
        else:
            progress.uncounted += 1
            decision = wait_within(call.remaining(), 0.0)
        if isinstance(decision, StopRetrying):
            return decision
        # The provider itself named the time of this retry, and the limiter spreads the calls.
        budget = progress.budget if counts and not decision.is_told else None
        if budget and not budget.withdraw(call.execution.clock.monotonic()):
            return StopRetrying("budget")
        progress.previous_delay, progress.unsent_seconds = decision.delay, 0.0
        progress.last_failure = msgspec.structs.replace(outcome, carry=call.carry)
    else:
        decision = decide_unsent(
            options, outcome.info, waited=progress.unsent_seconds, remaining=call.remaining()
        )
        if isinstance(decision, StopRetrying):
            return decision
        progress.unsent_seconds += decision.delay
    info = progress.handler_info or outcome.info
    attempt = max(progress.attempts_made, 1) + progress.first_attempt - 1
    limit = limit_for(options, info.category)
    scheduled = RetryScheduled(
        call.key, attempt, limit, decision.delay, info.to_public(), tool=call.tool
    )
    call.execution.emit(scheduled)
    if call.execution.note_retry is not None:
        call.execution.note_retry(scheduled)
    _log.info("%s: attempt %d: %s; again in %.3g s", call.key, attempt, info.safe, decision.delay)
    return decision


async def _decide_after_attempt(
    progress: _Progress, call: CallContext[P], outcome: Failed
) -> Decision:
    """The three sources, after the rule that an operation in doubt is not repeated."""
    options, attempt = progress.options, progress.failures - 1
    if not outcome.may_repeat:
        return StopRetrying("answered" if isinstance(outcome.error, OutputError) else "in_doubt")
    if options.custom_retry is not None:
        remaining = call.remaining()
        if attempt >= options.max_retries:
            return StopRetrying("exhausted")
        if remaining == 0:
            return StopRetrying("deadline", "0")
        answer = await ask_custom_retry(options.custom_retry, outcome.error, attempt, remaining)
        if isinstance(answer, NoAnswer):
            return StopRetrying(answer.reason, answer.detail)
        if answer is not DEFER:
            return wait_within(call.remaining(), min(answer, options.max_retry_delay))
    if outcome.info.category is ErrorCategory.AUTH_ERROR and not progress.refreshed:
        progress.refreshed = True
        if attempt < options.max_retries and await ask_for_credentials(options, outcome.info):
            return WaitAndRetry(0.0)
    if options.provider_handler is not None:
        return _decide_by_handler(options.provider_handler, progress, call, outcome)
    return decide_retry(
        options,
        outcome.info,
        attempt,
        remaining=call.remaining(),
        rng=call.execution.rng,
        previous=progress.previous_delay,
    )


def _decide_by_handler(
    handler: ProviderHandler, progress: _Progress, call: CallContext[P], outcome: Failed
) -> Decision:
    """Decide by the user's own handler; by backoff with full jitter where it knows nothing."""
    options, attempt = progress.options, progress.failures - 1
    if outcome.info.category in NEVER_RETRIED:
        return StopRetrying("not_retryable")
    answer = ask_provider_handler(handler, options, outcome.error, attempt)
    if isinstance(answer, NoAnswer):
        return StopRetrying(answer.reason, answer.detail)
    if answer.info is None:
        if attempt >= options.max_retries:
            return StopRetrying("exhausted")
        delay = backoff.full_jitter_delay(
            attempt, base=options.retry_delay, cap=options.max_retry_delay, rng=call.execution.rng
        )
        return wait_within(call.remaining(), delay)
    progress.handler_info = answer.info
    if attempt >= limit_for(options, answer.info.category):
        return StopRetrying("exhausted")
    if answer.delay is None:
        return StopRetrying("not_retryable")
    return wait_within(call.remaining(), min(answer.delay, options.max_retry_delay))


def _final_failure(
    progress: _Progress, call: CallContext[P], outcome: Failed, stop: StopRetrying
) -> Failed:
    """The failure to report, with the reason why it is not tried again where the failure does not say it.

    When an attempt failed and the next one was not sent, the failure of the attempt is reported,
    and the rejection is the reason why it was not tried again.
    """
    final = outcome if outcome.sent or progress.last_failure is None else progress.last_failure
    info = progress.handler_info or final.info
    if progress.options.include_provider_details:
        details = details_of(info)
        info = msgspec.structs.replace(info, safe=f"{info.safe}{details}")
        if isinstance(final.error, HoldfastError):
            final.error.args = (f"{final.error}{details}",)
    why = _WHY.get(stop.reason, "").format(detail=stop.detail)
    if final is not outcome:
        why = "; ".join(filter(None, (outcome.info.safe, why)))
    if why:
        info = msgspec.structs.replace(info, safe=f"{info.safe} (not tried again: {why})")
        final.error.add_note(f"not tried again: {why}")
    if isinstance(final.error, HoldfastError):
        final.error.info = info
    late = outcome.out_of_time or stop.reason == "deadline"
    carry = call.carry if final is outcome else final.carry
    return msgspec.structs.replace(
        final, info=info, attempts=progress.attempts_made, out_of_time=late, carry=carry
    )


def details_of(info: ErrorInfo) -> str:
    """Return the provider's name of the failure, to be put after a text; "" if that is unknown.

    >>> details_of(ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="overloaded", status=529))
    ' [status 529]'
    """
    known = [
        f"{word} {value}"
        for word, value in (
            ("provider", info.provider),
            ("status", info.status),
            ("code", info.code),
            ("type", info.type if info.type != info.code else None),
            ("request", info.request_id),
        )
        if value is not None
    ]
    return f" [{', '.join(known)}]" if known else ""


LONGEST_ANSWER = 30.0
"""Seconds that an asynchronous function may take when no deadline is nearer."""


class NoAnswer(Struct, frozen=True):
    """The function said stop, or returned nothing that can be used."""

    reason: Literal["custom", "custom_invalid", "custom_failed", "custom_blocked"]
    detail: str = ""


class HandlerAnswer(Struct, frozen=True):
    """The return value of a provider handler; without an info, it knows nothing about the error."""

    info: ErrorInfo | None
    delay: float | None = None


async def ask_custom_retry(
    strategy: CustomRetry, error: BaseException, attempt: int, remaining: float | None
) -> float | Defer | NoAnswer:
    """Call the user's function.

    Args:
        strategy: it may be a coroutine function or a plain one.
        error: the exception of the attempt.
        attempt: the number of the attempt, from 0.
        remaining: seconds until the deadline; a call that takes longer is cancelled.
    """
    seconds = LONGEST_ANSWER if remaining is None else min(remaining, LONGEST_ANSWER)
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            answer = strategy(error, attempt)
            if inspect.isawaitable(answer):
                answer = await answer
    except Exception as raised:  # noqa: BLE001  # REASON: a hook may raise anything; the call has its own error
        if limit.expired():
            return NoAnswer("custom_blocked", f"{seconds:g}")
        return _hook_failure(raised)
    return _parse_answer(answer)


def ask_provider_handler(
    provider_handler: ProviderHandler, options: RetryOptions, error: BaseException, attempt: int
) -> HandlerAnswer | NoAnswer:
    """Ask the user's provider handler for the meaning of the error and for a wait."""
    try:
        info = provider_handler.parse_error(error)
        if info is None:
            return HandlerAnswer(None)
        if nonsense := _check_info(info):
            return nonsense
        delay = provider_handler.retry_delay(info, attempt, options)
    except Exception as raised:  # noqa: BLE001  # REASON: as above
        return _hook_failure(raised)
    if delay is not None and not is_seconds(delay):
        return NoAnswer("custom_invalid", repr(delay)[:40])
    return HandlerAnswer(info, delay)


async def ask_for_credentials(options: RetryOptions, info: ErrorInfo) -> bool:
    """Ask for new credentials; anything but True, and any exception, means that there are none."""
    if options.refresh_credentials is None:
        return False
    try:
        async with asyncio.timeout(LONGEST_ANSWER):
            return await options.refresh_credentials(info.to_public()) is True
    except Exception as raised:  # noqa: BLE001  # REASON: as above
        _log.warning("refresh_credentials raised %s", type(raised).__name__)
        return False


def _parse_answer(answer: RetryAnswer | Awaitable[RetryAnswer]) -> float | Defer | NoAnswer:
    if answer is None:
        return NoAnswer("custom")
    if isinstance(answer, Defer):
        return answer
    if is_seconds(answer):
        return float(answer)  # type: ignore[arg-type]  # is_seconds says that it is a number
    return NoAnswer("custom_invalid", repr(answer)[:40])


def _check_info(value: object) -> NoAnswer | None:
    if isinstance(value, ErrorInfo):
        return None
    return NoAnswer("custom_invalid", f"a {type(value).__name__}")


def _hook_failure(error: Exception) -> NoAnswer:
    _log.warning("a retry hook raised", exc_info=detach_for_log(error))
    return NoAnswer("custom_failed", f"{type(error).__name__}: {redact(str(error))[:200]}")
