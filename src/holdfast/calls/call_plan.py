"""A call that is repeated until its answer can be read: the decisions, without a clock or a thread.

`plan_attempts` is a conversation: it asks for a call or for a wait, is told what came of it, and ends
with the outcome. The blocking and the asynchronous shell only do what it asks. This module must
never call, wait or read a clock, and never let an error pass for an answer.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from typing import TypeAlias

from msgspec import Struct

from holdfast.calls.call_result import ResultKind, kind_of_failure
from holdfast.calls.caught_error import ErrorCatcher, exception_text
from holdfast.calls.parsed_answers import AnswerType, ParsedAnswer, RawText, parse_answer
from holdfast.calls.reply_texts import read_texts
from holdfast.calls.sdk_errors import classify
from holdfast.core.errors import (
    ErrorCategory,
    ErrorInfo,
    OutputError,
    ProviderError,
)
from holdfast.core.redaction import redact
from holdfast.resilience.retry.backoff import pure_delay

logger = logging.getLogger(__name__)

_LONGEST = 500


class CallPlan(Struct, frozen=True, kw_only=True):
    """What is repeated how often, and how its answer is read.

    Args:
        max_retries: attempts after the first.
        delay: the first wait in seconds; each is twice the one before.
        session_id: for the log.
        label: what the call is called in the log and in messages.
        failure_prefix: how the message for a call that failed begins.
        routines: answers may name a routine.
        output_text_first: where the text of a response is looked for first.
        raw_text: what text that is no JSON object counts as.
        by_category: give up at once what cannot succeed, and wait as long as the provider says.
        deadline: seconds for everything together; no attempt begins after them.
    """

    max_retries: int
    delay: float
    session_id: str
    label: str
    failure_prefix: str
    routines: bool
    output_text_first: bool
    raw_text: RawText
    by_category: bool
    deadline: float | None


class CallOutcome(Struct, frozen=True, kw_only=True):
    """What became of the call.

    Args:
        response: the last response, whole or not; None when the last attempt gave none.
        answer: what it says; None when it failed.
        error_text: the message for a failure; "" for an answer. Never an answer.
        kind: what came back.
        error: why it failed.
        info: what is known about the error; its category decides whether a retry makes sense.
        attempts: how often the call was made.
        waits: the seconds that were waited between them.
    """

    response: object
    answer: ParsedAnswer | None
    error_text: str
    kind: ResultKind
    error: Exception | None
    info: ErrorInfo | None
    attempts: int
    waits: tuple[float, ...]

    @property
    def success(self) -> bool:
        """Whether there is an answer."""
        return self.answer is not None


class AttemptResult(Struct, frozen=True):
    """The call was made: its response, or what it raised; and how long everything has taken."""

    response: object
    error: Exception | None
    seconds: float


Wanted: TypeAlias = float | None
"""None: make the call. A number: wait so many seconds."""

Attempts: TypeAlias = Generator[Wanted, AttemptResult | None, CallOutcome]


def plan_attempts(plan: CallPlan) -> Attempts:
    """The conversation about one call."""
    total = plan.max_retries + 1
    wanted = AnswerType(routines=plan.routines)
    waits: tuple[float, ...] = ()
    for attempt in range(total):
        _log_line(plan, "%s AI call attempt %d/%d", plan.label, attempt + 1, total)
        made = yield None
        if made is None:
            raise TypeError("a call was wanted")
        found = _parse_response(plan, made, wanted)
        if isinstance(found, ParsedAnswer):
            _log_answer(plan, found, attempt)
            return CallOutcome(
                response=made.response,
                answer=found,
                error_text="",
                kind=ResultKind.TEXT,
                error=None,
                info=None,
                attempts=attempt + 1,
                waits=waits,
            )
        info = classify(found)
        _log_error(plan, made, found, attempt)
        wait = _next_wait(plan, attempt, info, made)
        if wait is None:
            return _failed_outcome(plan, made, found, info, waits)
        _log_line(plan, "Retrying in %s seconds...", wait)
        waits += (wait,)
        yield wait
    raise AssertionError("the last attempt ends the conversation")


def _parse_response(
    plan: CallPlan, result: AttemptResult, wanted: AnswerType
) -> ParsedAnswer | Exception:
    if result.error is not None:
        return result.error
    with ErrorCatcher() as caught:
        texts = read_texts(result.response, output_text_first=plan.output_text_first)
        return parse_answer(texts, wanted, plan.raw_text)
    return caught.required_error


# What is wrong is in the reply itself, and another sample is as likely to have it.
_FINAL = (ErrorCategory.CONTENT_FILTERED, ErrorCategory.TRUNCATED)


def _next_wait(
    plan: CallPlan, attempt: int, info: ErrorInfo, result: AttemptResult
) -> float | None:
    """Seconds until the next attempt; None when this was the last."""
    if attempt >= plan.max_retries:
        return None
    if result.error is None and info.category in _FINAL:
        return None
    wait = pure_delay(attempt, base=plan.delay)
    if plan.by_category:
        if not info.category.is_retryable:
            return None
        wait = max(wait, info.retry_after or 0.0)
    if plan.deadline is not None and result.seconds + wait >= plan.deadline:
        return None
    return wait


def _failed_outcome(
    plan: CallPlan,
    result: AttemptResult,
    error: Exception,
    info: ErrorInfo,
    waits: tuple[float, ...],
) -> CallOutcome:
    attempts = len(waits) + 1
    _log_line(plan, "All %d attempts failed, returning error", attempts)
    unread = _is_unreadable(result, error)
    text = f"Error: Could not parse {plan.label.lower()} AI response for frontend."
    if not unread:
        text = f"{plan.failure_prefix} failed after {attempts} attempts"
    return CallOutcome(
        response=result.response if unread else None,
        answer=None,
        error_text=text,
        kind=ResultKind.INVALID if isinstance(error, OutputError) else kind_of_failure(error),
        error=error,
        info=info,
        attempts=attempts,
        waits=waits,
    )


def _is_unreadable(result: AttemptResult, error: Exception) -> bool:
    """Whether there was a response that could not be read, and not a call that failed.

    A response that holds nothing but an error is a call that failed.
    """
    return result.error is None and not isinstance(error, ProviderError)


def _log_line(plan: CallPlan, message: str, *values: object) -> None:
    logger.info(f"--- Session [%s] {message} ---", plan.session_id, *values)  # noqa: G004  # a constant


def _log_error(plan: CallPlan, result: AttemptResult, error: Exception, attempt: int) -> None:
    kind = "Parse" if _is_unreadable(result, error) else f"{plan.label} AI call"
    said = exception_text(error)
    if isinstance(error, OutputError) and error.problems:
        said = f"{said}: {'; '.join(map(str, error.problems))}"
    _log_line(plan, "%s error on attempt %d: %s", kind, attempt + 1, redact(said)[:_LONGEST])


def _log_answer(plan: CallPlan, answer: ParsedAnswer, attempt: int) -> None:
    if answer.parsed_by == "raw_text":
        _log_line(plan, "JSON decode error on attempt %d: %s", attempt + 1, answer.note[:_LONGEST])
    _log_line(plan, "Successfully parsed %s AI response (%s)", plan.label, answer.parsed_by)
