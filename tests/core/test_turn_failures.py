"""The table of failures that close a turn during recovery: every category and every exception."""

from __future__ import annotations

import pytest

from holdfast.core.errors import (
    ConfigurationError,
    EmptyResponseError,
    ErrorCategory,
    ErrorInfo,
    HoldfastError,
    LimitError,
    MiddlewareError,
    RefusedError,
    SessionBusyError,
    StoppedError,
    TransportError,
    UnterminatedError,
    exception_for,
)
from holdfast.core.output_retries import output_error_info
from holdfast.core.turn_failures import ABSENT_ENDPOINT, CLOSES, CLOSES_BY_CODE, closes_turn
from holdfast.journal.journal_errors import JournalUnreachableError
from holdfast.resilience.breaker.strategy import BreakerOpenError

CLOSING = {
    ErrorCategory.CLIENT_ERROR,
    ErrorCategory.CONTEXT_WINDOW,
    ErrorCategory.CONTENT_FILTERED,
    ErrorCategory.TRUNCATED,
    ErrorCategory.LIMIT,
    ErrorCategory.CANCELLED,
}


def info(category: ErrorCategory, **known: object) -> ErrorInfo:
    return ErrorInfo(category=category, safe="It failed.", **known)  # type: ignore[arg-type]


def test_every_category_is_decided() -> None:
    assert set(CLOSES) == set(ErrorCategory)


@pytest.mark.parametrize("category", list(ErrorCategory))
def test_each_category_closes_the_turn_or_leaves_it_open(category: ErrorCategory) -> None:
    closes = category in CLOSING
    assert closes_turn(info(category)) is closes
    assert closes_turn(info(category, code="something_else")) is closes
    assert closes_turn(info(category, status=400, code="something_else")) is closes


@pytest.mark.parametrize("category", list(ErrorCategory))
def test_a_retryable_failure_never_closes_a_turn(category: ErrorCategory) -> None:
    assert not (category.is_retryable and closes_turn(info(category)))


@pytest.mark.parametrize(("category", "code"), list(CLOSES_BY_CODE))
def test_a_local_error_code_counts_only_without_a_response(
    category: ErrorCategory, code: str
) -> None:
    assert closes_turn(info(category, code=code)) is CLOSES_BY_CODE[category, code]
    assert closes_turn(info(category, code=code)) is not CLOSES[category]
    assert closes_turn(info(category, code=code, status=400)) is CLOSES[category]


@pytest.mark.parametrize("status", [301, 404, 405, 501])
def test_a_wrong_address_is_a_configuration_error(status: int) -> None:
    assert status in ABSENT_ENDPOINT
    assert not closes_turn(info(ErrorCategory.CLIENT_ERROR, status=status))
    assert closes_turn(info(ErrorCategory.CONTENT_FILTERED, status=status))


@pytest.mark.parametrize(
    ("error", "closes"),
    [
        (ConfigurationError("api_key", "is missing"), False),
        (TransportError("reset"), False),
        (UnterminatedError("cut"), False),
        (BreakerOpenError("openai", 10.0), False),
        (JournalUnreachableError("talk.db", "does not answer"), False),
        (SessionBusyError("ada"), False),
        (MiddlewareError("Guard", "before_iteration", "raised KeyError"), False),
        (HoldfastError("something"), False),
        (RefusedError("no", info=info(ErrorCategory.CONTENT_FILTERED, code="refused")), True),
        (LimitError("The limit of 3 tool calls is reached.", limit="tool_calls"), True),
        (StoppedError("enough"), True),
        (HoldfastError("no answer", info=output_error_info(3, ())), True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_our_own_errors(error: HoldfastError, closes: bool) -> None:
    assert closes_turn(error.info) is closes


def test_the_prefix_of_an_empty_reply_is_not_repeated() -> None:
    error = EmptyResponseError("no text in response")
    assert str(exception_for(error.info)) == "Empty response: no text in response"
