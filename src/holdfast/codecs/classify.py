"""Turns an error response into an `ErrorInfo` by a table: the first row that matches decides.

A row holds conditions and a category. A wire passes its own rows, followed by those that all wires
share (`rules.SHARED`). To support a new error, add a row and a test with the provider's text.
This module never branches on a provider, and never shows text that `redact` has not processed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from msgspec import Struct

from holdfast.codecs.error_body import ErrorBody, read_error_body, to_single_line
from holdfast.codecs.retry_after import parse_bucket_wait, parse_requested_wait, should_retry
from holdfast.codecs.wire import Failure
from holdfast.core.errors import ErrorCategory, ErrorInfo, Landed
from holdfast.core.redaction import redact

LONGEST_SAFE = 600
LONGEST_PRIVATE = 4_000
_SOON = 3_600.0
"""Seconds. If the provider asks for a wait up to this long, the limit ends by itself."""


class ErrorRule(Struct, frozen=True, kw_only=True):
    """One row of an error table: it matches if all of its conditions match.

    Args:
        category: the category of a matching error.
        statuses: the HTTP status is one of these; 0 means no status or a success (an error inside a stream).
        codes: one of the error's codes, types and reasons (in lower case) is one of these.
        text: a regular expression that is searched in the error's text (in lower case). It is
            compiled at its first use, because most processes never see an error.
        providers: the preset is one of these.
        short_wait: whether the provider asks for a wait of at most an hour.
    """

    category: ErrorCategory
    statuses: frozenset[int] = frozenset()
    codes: frozenset[str] = frozenset()
    text: str = ""
    providers: frozenset[str] = frozenset()
    short_wait: bool | None = None

    def matches(self, provider: str, error_body: ErrorBody, short_wait: bool) -> bool:
        """Whether all conditions of this row match."""
        status = error_body.status if (error_body.status or 0) >= 300 else 0
        return (
            (not self.statuses or status in self.statuses)
            and (not self.codes or not self.codes.isdisjoint(error_body.codes))
            and (not self.providers or provider in self.providers)
            and (self.short_wait is None or self.short_wait is short_wait)
            and (not self.text or _compile_pattern(self.text).search(error_body.text) is not None)
        )


@cache
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def error_rule(
    category: ErrorCategory,
    *,
    statuses: Sequence[int] = (),
    codes: str = "",
    text: str = "",
    providers: str = "",
    short_wait: bool | None = None,
) -> ErrorRule:
    """Build a row. `codes` and `providers` are words separated by spaces.

    >>> error_rule(ErrorCategory.TIMEOUT, codes="DEADLINE_EXCEEDED timeout").codes == {
    ...     "deadline_exceeded", "timeout"}
    True
    """
    return ErrorRule(
        category=category,
        statuses=frozenset(statuses),
        codes=frozenset(codes.lower().split()),
        text=text,
        providers=frozenset(providers.split()),
        short_wait=short_wait,
    )


def classify_by_rules(rules: Sequence[ErrorRule], failure: Failure) -> ErrorInfo:
    """Classify an error response by a table; an error that matches no row is a SERVER_ERROR.

    Args:
        rules: the rows; the first that matches decides.
        failure: the error response.
    """
    error_body = read_error_body(failure)
    wait = parse_requested_wait(
        error_body.headers, delays=error_body.delays, text=error_body.text, now=failure.now
    )
    category = _find_category(rules, failure.provider, error_body, wait)
    if wait is None and category is ErrorCategory.RATE_LIMIT_RETRYABLE:
        wait = parse_bucket_wait(error_body.headers, now=failure.now)
    return ErrorInfo(
        category=category,
        landed=_infer_landed(failure.status, category),
        retry_after=wait,
        safe=describe_error(failure.provider, category, error_body.status, error_body.message),
        private=_private_text(failure),
        status=error_body.status,
        code=error_body.code,
        type=error_body.type,
        request_id=error_body.request_id,
        provider=failure.provider or None,
    )


def _find_category(
    rules: Sequence[ErrorRule], provider: str, error_body: ErrorBody, wait: float | None
) -> ErrorCategory:
    short_wait = wait is not None and wait <= _SOON
    category = next(
        (rule.category for rule in rules if rule.matches(provider, error_body, short_wait)),
        ErrorCategory.SERVER_ERROR,
    )
    retry = should_retry(error_body.headers)
    if retry is None or retry is category.is_retryable:
        return category
    return _OVERRULED.get((category, retry), category)


# `x-should-retry` takes precedence over the table: the server knows whether this request can be repeated.
_OVERRULED = {
    (ErrorCategory.RATE_LIMIT_RETRYABLE, False): ErrorCategory.RATE_LIMIT_TERMINAL,
    (ErrorCategory.SERVER_ERROR, False): ErrorCategory.CLIENT_ERROR,
    (ErrorCategory.TRANSIENT, False): ErrorCategory.CLIENT_ERROR,
    (ErrorCategory.TIMEOUT, False): ErrorCategory.CLIENT_ERROR,
    (ErrorCategory.CLIENT_ERROR, True): ErrorCategory.TRANSIENT,
}

# Any other 4xx means that the server rejected the request before it started. After these it may have started.
_BEGUN = frozenset({408, 424, 499})
# Not implemented, overloaded, or a proxy could not reach the server behind it.
_NEVER_BEGUN = frozenset({501, 503, 505, 521, 522, 523, 525, 526, 529})


def _infer_landed(status: int | None, category: ErrorCategory) -> Landed:
    """Return NO only if the HTTP status proves that the request had no effect."""
    if status is None or category is ErrorCategory.INVALID_RESPONSE:
        return Landed.UNKNOWN
    rejected = 300 <= status < 500 and status not in _BEGUN
    return Landed.NO if rejected or status in _NEVER_BEGUN else Landed.UNKNOWN


_PROBLEMS: dict[ErrorCategory, str] = {
    ErrorCategory.TRANSIENT: "is temporarily unavailable",
    ErrorCategory.TIMEOUT: "did not answer in time",
    ErrorCategory.RATE_LIMIT_RETRYABLE: "limits the rate of requests",
    ErrorCategory.RATE_LIMIT_TERMINAL: "reports an exceeded quota",
    ErrorCategory.CLIENT_ERROR: "refused the request",
    ErrorCategory.AUTH_ERROR: "denied access",
    ErrorCategory.CONTEXT_WINDOW: "cannot take a prompt of this length",
    ErrorCategory.SERVER_ERROR: "failed",
    ErrorCategory.MODEL_NOT_FOUND: "does not offer this model",
    ErrorCategory.INVALID_RESPONSE: "sent a reply that cannot be used",
    ErrorCategory.TRUNCATED: "cut the reply at its output limit",
    ErrorCategory.CONTENT_FILTERED: "withheld the reply because of its content policy",
}


def describe_error(provider: str, category: ErrorCategory, status: int | None, message: str) -> str:
    """Describe an error in one sentence: the provider, what happened, and its message without secrets.

    >>> describe_error("groq", ErrorCategory.AUTH_ERROR, 401, "Invalid API Key")
    'groq denied access (HTTP 401): Invalid API Key'
    """
    problem = _PROBLEMS.get(category, "refused the request")
    suffix = f" (HTTP {status})" if (status or 0) >= 300 else ""
    detail = redact_and_shorten(message, LONGEST_SAFE)
    return f"{provider or 'The provider'} {problem}{suffix}{': ' if detail else ''}{detail}"


def _private_text(failure: Failure) -> str:
    body = failure.body[: 4 * LONGEST_PRIVATE].decode("utf-8", "replace")
    return redact_and_shorten(body, LONGEST_PRIVATE)


def redact_and_shorten(text: str, longest: int) -> str:
    """Return `text` on one line, without secrets and control characters, shortened to `longest` characters.

    The text is redacted before it is shortened, because half a key is not recognised as a secret.
    """
    text = to_single_line(text)
    if len(text) > 2 * longest:
        text = text[: 2 * longest].rpartition(" ")[0] or "[cut]"
    redacted = redact(text)
    return redacted if len(redacted) <= longest else redacted[:longest].rstrip() + " [cut]"
