"""Turns a refusal into an `ErrorInfo` by a table: the first row that holds decides.

A row is conditions and a category; a wire passes its own rows, which are read before those that
every wire shares (`rules.SHARED`). To teach it a new error, add a row and a test with the
provider's words. This module must never branch on a provider, and never show text that `redact` has
not seen.
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
"""Seconds: a promised wait up to this long means that the limit clears by itself."""


class ErrorRule(Struct, frozen=True, kw_only=True):
    """One row: all the conditions that are given must hold.

    Args:
        category: what the refusal then is.
        statuses: any of these; 0 stands for "no status, or a success" (an error inside a stream).
        codes: any of these among the codes, types and reasons, in lower case.
        text: a regex found in the provider's words, which are in lower case; compiled when
            it is first needed, because most processes never see an error.
        providers: only for these presets.
        short_wait: whether the provider named a wait of at most an hour.
    """

    category: ErrorCategory
    statuses: frozenset[int] = frozenset()
    codes: frozenset[str] = frozenset()
    text: str = ""
    providers: frozenset[str] = frozenset()
    short_wait: bool | None = None

    def matches(self, provider: str, error_body: ErrorBody, short_wait: bool) -> bool:
        """Whether this row decides."""
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
    """A row as tables write it: codes and providers are words with blanks between, text a regex.

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
    """What a refusal means by these rows; the last row should hold for everything.

    Args:
        rules: in the order of belief.
        failure: as it came.
    """
    refusal = read_error_body(failure)
    wait = parse_requested_wait(
        refusal.headers, delays=refusal.delays, text=refusal.text, now=failure.now
    )
    category = _find_category(rules, failure.provider, refusal, wait)
    if wait is None and category is ErrorCategory.RATE_LIMIT_RETRYABLE:
        wait = parse_bucket_wait(refusal.headers, now=failure.now)
    return ErrorInfo(
        category=category,
        landed=_infer_landed(failure.status, category),
        retry_after=wait,
        safe=describe_error(failure.provider, category, refusal.status, refusal.message),
        private=_private_text(failure),
        status=refusal.status,
        code=refusal.code,
        request_id=refusal.request_id,
        provider=failure.provider or None,
    )


def _find_category(
    rules: Sequence[ErrorRule], provider: str, error_body: ErrorBody, wait: float | None
) -> ErrorCategory:
    promised = wait is not None and wait <= _SOON
    category = next(
        (rule.category for rule in rules if rule.matches(provider, error_body, promised)),
        ErrorCategory.SERVER_ERROR,
    )
    said = should_retry(error_body.headers)
    if said is None or said is category.is_retryable:
        return category
    return _OVERRULED.get((category, said), category)


# What the server knows better, by `x-should-retry`: whether this very request may be repeated.
_OVERRULED = {
    (ErrorCategory.RATE_LIMIT_RETRYABLE, False): ErrorCategory.RATE_LIMIT_TERMINAL,
    (ErrorCategory.SERVER_ERROR, False): ErrorCategory.CLIENT_ERROR,
    (ErrorCategory.TRANSIENT, False): ErrorCategory.CLIENT_ERROR,
    (ErrorCategory.TIMEOUT, False): ErrorCategory.CLIENT_ERROR,
    (ErrorCategory.CLIENT_ERROR, True): ErrorCategory.TRANSIENT,
}

# 4xx but these: the server looked at the request and did not begin. 408 and 499: it may have.
_BEGUN = frozenset({408, 424, 499})
# Not implemented, overloaded; and an edge that could not reach the server behind it at all.
_NEVER_BEGUN = frozenset({501, 503, 505, 521, 522, 523, 525, 526, 529})


def _infer_landed(status: int | None, category: ErrorCategory) -> Landed:
    """NO only when the refusal itself proves it: by HTTP status, before anything was streamed."""
    if status is None or category is ErrorCategory.INVALID_RESPONSE:
        return Landed.UNKNOWN
    refused = 300 <= status < 500 and status not in _BEGUN
    return Landed.NO if refused or status in _NEVER_BEGUN else Landed.UNKNOWN


_WHAT: dict[ErrorCategory, str] = {
    ErrorCategory.TRANSIENT: "is not available now",
    ErrorCategory.TIMEOUT: "did not answer in time",
    ErrorCategory.RATE_LIMIT_RETRYABLE: "limits the rate of requests",
    ErrorCategory.RATE_LIMIT_TERMINAL: "has a quota that this exceeds",
    ErrorCategory.CLIENT_ERROR: "refused the request",
    ErrorCategory.AUTH_ERROR: "denied access",
    ErrorCategory.CONTEXT_WINDOW: "has no room for a prompt of this length",
    ErrorCategory.SERVER_ERROR: "failed",
    ErrorCategory.MODEL_NOT_FOUND: "does not offer this model",
    ErrorCategory.INVALID_RESPONSE: "gave an answer that cannot be used",
    ErrorCategory.TRUNCATED: "cut the answer at its limit",
    ErrorCategory.CONTENT_FILTERED: "withheld an answer by its content policy",
}


def describe_error(provider: str, category: ErrorCategory, status: int | None, message: str) -> str:
    """What happened, at whom, and their words, without secrets.

    >>> describe_error("groq", ErrorCategory.AUTH_ERROR, 401, "Invalid API Key")
    'groq denied access (HTTP 401): Invalid API Key'
    """
    what = _WHAT.get(category, "refused the request")
    shown = f" (HTTP {status})" if (status or 0) >= 300 else ""
    said = redact_and_shorten(message, LONGEST_SAFE)
    return f"{provider or 'The provider'} {what}{shown}{': ' if said else ''}{said}"


def _private_text(failure: Failure) -> str:
    body = failure.body[: 4 * LONGEST_PRIVATE].decode("utf-8", "replace")
    return redact_and_shorten(body, LONGEST_PRIVATE)


def redact_and_shorten(text: str, longest: int) -> str:
    """`text` without secrets and control characters, and not longer than this.

    Redaction sees a little more than is shown and no half word: half a key is not recognised.
    """
    text = to_single_line(text)
    if len(text) > 2 * longest:
        text = text[: 2 * longest].rpartition(" ")[0] or "[cut]"
    said = redact(text)
    return said if len(said) <= longest else said[:longest].rstrip() + " [cut]"
