"""Decides how often a call is repeated until its answer can be parsed, without a clock or a thread.

`plan_attempts` is a generator. It yields a request for a call or for a wait, receives the result of
the call, and returns the outcome. A blocking and an asynchronous caller drive it. All output items of
a response are read, because the first may be reasoning or a tool call. This module never calls, waits or
reads a clock, and never returns an error, or the text of a reply that was declined, blocked or cut, as an answer.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from typing import TypeAlias

from msgspec import Struct

from holdfast.calls.call_result import CallResult, ResultKind, kind_of_failure
from holdfast.calls.caught_error import ErrorCatcher, exception_text
from holdfast.calls.foreign_fields import find_request_secrets
from holdfast.calls.http_responses import HttpReply, read_http_response
from holdfast.calls.object_fold import ObjectFold
from holdfast.calls.object_json import to_json_object
from holdfast.calls.parsed_answers import AnswerType, ParsedAnswer, RawText, parse_answer
from holdfast.calls.response_reader import DEFAULT_READER, ResponseReader, unwrap_run_result
from holdfast.calls.sdk_errors import classify
from holdfast.codecs.reply_checks import Evidence, error_for_reply
from holdfast.core.errors import (
    EmptyResponseError,
    ErrorCategory,
    ErrorInfo,
    HoldfastError,
    NoTextError,
    OutputError,
    ProviderError,
    ResponseValidationError,
    UnexpectedTypeError,
)
from holdfast.core.messages import Reply, Text
from holdfast.core.output_retries import OUTPUT_INVALID
from holdfast.core.redaction import redact
from holdfast.resilience.retry.backoff import pure_delay

logger = logging.getLogger(__name__)

_LONGEST = 500


class CallPlan(Struct, frozen=True, kw_only=True):
    """How often a call is repeated, and how its answer is parsed.

    Args:
        max_retries: the number of attempts after the first.
        delay: the first wait in seconds; each wait is twice the one before.
        session_id: the session's id, for the log.
        label: the name of the call in the log and in messages.
        failure_prefix: the beginning of the message for a failed call.
        routines: whether answers may name a routine.
        output_text_first: whether the field `output_text` is read before the output items.
        raw_text: how text that is not a JSON object is treated.
        by_category: do not retry an error that cannot succeed, and wait as long as the provider asks.
        deadline: seconds for all attempts together; no attempt begins after them.
        longest_wait: seconds; a call that would have to wait longer is not tried again.
        max_breaker_wait: seconds that a call may wait in all while a circuit breaker or rate limiter
            rejects it. None: only the other limits count.
        reader: how responses are read.
        is_typed: the call is a typed question, whose `CallResult` has the answer.
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
    longest_wait: float | None = None
    max_breaker_wait: float | None = None
    reader: ResponseReader = DEFAULT_READER
    is_typed: bool = False


class CallOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of a call.

    Args:
        response: the last response, complete or not; None if the last attempt returned none.
        answer: the parsed answer; None if the call failed.
        error_text: the message for a failure; "" if there is an answer.
        kind: the kind of the result.
        error: the exception of a failed call.
        info: the classified error; its category decides whether a retry makes sense.
        attempts: the number of calls.
        waits: the waits between them, in seconds.
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
    """The result of one call: its response or its exception, and the seconds since the first attempt."""

    response: object
    error: Exception | None
    seconds: float


NextStep: TypeAlias = float | None
"""None: make the call. A number: wait that many seconds."""

Attempts: TypeAlias = Generator[NextStep, AttemptResult | None, CallOutcome]


def plan_attempts(plan: CallPlan) -> Attempts:
    """Yield the steps of one call, and return its outcome."""
    total = plan.max_retries + 1
    answer_type = AnswerType(routines=plan.routines)
    waits: tuple[float, ...] = ()
    breaker_wait = 0.0
    for attempt in range(total):
        _log_line(plan, "%s AI call attempt %d/%d", plan.label, attempt + 1, total)
        result = yield None
        if result is None:
            raise TypeError("the result of a call was expected")
        answer = _parse_response(plan, result, answer_type)
        if isinstance(answer, ParsedAnswer):
            _log_answer(plan, answer, attempt)
            return CallOutcome(
                response=result.response,
                answer=answer,
                error_text="",
                kind=ResultKind.TEXT,
                error=None,
                info=None,
                attempts=attempt + 1,
                waits=waits,
            )
        info = classify(answer)
        _log_error(plan, result, answer, attempt)
        wait = _next_wait(plan, attempt, info, result)
        if wait is not None and info.code in _REJECTED:
            breaker_wait += wait
            if plan.max_breaker_wait is not None and breaker_wait > plan.max_breaker_wait:
                wait = None
        if wait is None:
            return _failed_outcome(plan, result, answer, info, waits)
        _log_line(plan, "Retrying in %s seconds...", wait)
        waits += (wait,)
        yield wait
    raise AssertionError("the last attempt ends the loop")


def _parse_response(
    plan: CallPlan, result: AttemptResult, answer_type: AnswerType
) -> ParsedAnswer | Exception:
    if result.error is not None:
        return result.error
    with ErrorCatcher() as caught:
        if plan.is_typed and isinstance(result.response, CallResult):
            value: object = result.response.require_output()
            return ParsedAnswer(value, None, result.response.parsed_by)
        texts = read_texts(
            result.response, output_text_first=plan.output_text_first, reader=plan.reader
        )
        return parse_answer(texts, answer_type, plan.raw_text)
    return caught.required_error


# The codes of errors with which a circuit breaker or rate limiter of this library rejects a call.
_REJECTED = ("breaker_open", "limiter")

# The reply itself has the problem, and another attempt is as likely to have it.
_FINAL = (ErrorCategory.CONTENT_FILTERED, ErrorCategory.TRUNCATED)


def _next_wait(
    plan: CallPlan, attempt: int, info: ErrorInfo, result: AttemptResult
) -> float | None:
    """Return the seconds until the next attempt; None if this was the last."""
    if attempt >= plan.max_retries:
        return None
    if result.error is None and info.category in _FINAL:
        return None
    if plan.is_typed and info.code == OUTPUT_INVALID:
        return None  # the model was told what is wrong as often as the user allows
    wait = pure_delay(attempt, base=plan.delay)
    if plan.by_category:
        if not info.category.is_retryable:
            return None
        wait = max(wait, info.retry_after or 0.0)
    if plan.longest_wait is not None and wait > plan.longest_wait:
        return None
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
    unreadable = _is_unreadable(result, error)
    text = f"Error: Could not parse {plan.label.lower()} AI response for frontend."
    if not unreadable:
        text = f"{plan.failure_prefix} failed after {attempts} attempts"
    return CallOutcome(
        response=result.response if unreadable else None,
        answer=None,
        error_text=text,
        kind=ResultKind.INVALID if isinstance(error, OutputError) else kind_of_failure(error),
        error=error,
        info=info,
        attempts=attempts,
        waits=waits,
    )


def _is_unreadable(result: AttemptResult, error: Exception) -> bool:
    """Whether there was a response that could not be parsed; a response with only an error is a failed call."""
    return result.error is None and not isinstance(error, ProviderError)


def _log_line(plan: CallPlan, message: str, *values: object) -> None:
    logger.info(f"--- Session [%s] {message} ---", plan.session_id, *values)  # noqa: G004  # a constant


def _log_error(plan: CallPlan, result: AttemptResult, error: Exception, attempt: int) -> None:
    kind = "Parse" if _is_unreadable(result, error) else f"{plan.label} AI call"
    message = find_request_secrets(error).remove_from(exception_text(error))
    if isinstance(error, OutputError) and error.problems:
        message = f"{message}: {'; '.join(map(str, error.problems))}"
    _log_line(plan, "%s error on attempt %d: %s", kind, attempt + 1, redact(message)[:_LONGEST])


def _log_answer(plan: CallPlan, answer: ParsedAnswer, attempt: int) -> None:
    if answer.parsed_by == "raw_text":
        _log_line(plan, "JSON decode error on attempt %d: %s", attempt + 1, answer.note[:_LONGEST])
    _log_line(plan, "Successfully parsed %s AI response (%s)", plan.label, answer.parsed_by)


_HTML = ("<!doctype html", "<html")


def read_texts(
    response: object,
    *,
    output_text_first: bool = False,
    reader: ResponseReader = DEFAULT_READER,
) -> tuple[str, ...]:
    """Return the texts of a response that are not blank; several texts are followed by all texts joined.

    Args:
        response: the result of the call.
        output_text_first: read the field `output_text` before the output items; otherwise it is
            read only if the items have no text.
        reader: how the response is read.

    Raises:
        HoldfastError: the response has no text, or its text must not be used.

    >>> item = {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}
    >>> read_texts({"output": [{"type": "reasoning", "summary": []}, item]})
    ('Hi',)
    """
    response = read_http_response(unwrap_run_result(response, reader))
    if isinstance(response, str):
        if response.lstrip().lower().startswith(_HTML):
            # An SDK returns the page of a proxy like this.
            raise UnexpectedTypeError("response object", "HTML page")
        return _require_text((response,), None)
    if isinstance(response, CallResult):
        if response.error is not None:
            raise response.error
        return _require_text((response.text,), None)
    if isinstance(response, Reply):
        return _require_text(_reply_texts(response), error_for_reply(response, Evidence()))
    if not response:
        raise UnexpectedTypeError("response object", "None")
    fold = ObjectFold(reader)
    fold.read_whole(response)
    assembled = fold.finish()
    error: HoldfastError | None = assembled.error
    if not fold.wire:
        error = UnexpectedTypeError("response object", type(response).__name__)
    value = None if isinstance(response, HttpReply) else to_json_object(response)
    field = (value or {}).get("output_text")
    output_text = (field,) if isinstance(field, str) and field.strip() else ()
    items = _reply_texts(assembled.reply)
    first, second = (output_text, items) if output_text_first else (items, output_text)
    return _require_text(first or second, error)


def _reply_texts(reply: Reply) -> tuple[str, ...]:
    pieces = [part.text for part in reply.parts if isinstance(part, Text)]
    texts = tuple(text for text in pieces if text.strip())
    return texts if len(texts) < 2 else (*texts, "".join(pieces))


def _require_text(texts: tuple[str, ...], error: HoldfastError | None) -> tuple[str, ...]:
    """Return the texts, or raise the error; an error about missing text does not count if there is text."""
    if error is not None and not isinstance(error, EmptyResponseError | ResponseValidationError):
        raise error
    if any(text.strip() for text in texts):
        return texts
    raise error or NoTextError("no text in response")
