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

from holdfast.codecs.hints import bucket_wait, should_retry, told_wait
from holdfast.codecs.refusal import Refusal, one_line, read_refusal
from holdfast.codecs.wire import Failure
from holdfast.core.errors import ErrorCategory, ErrorInfo, Landed
from holdfast.core.redaction import redact

LONGEST_SAFE = 600
LONGEST_PRIVATE = 4_000
_SOON = 3_600.0
"""Seconds: a promised wait up to this long means that the limit clears by itself."""


class Rule(Struct, frozen=True, kw_only=True):
    """One row: all the conditions that are given must hold.

    Args:
        category: what the refusal then is.
        statuses: any of these; 0 stands for "no status, or a success" (an error inside a stream).
        codes: any of these among the codes, types and reasons, in lower case.
        text: a regex found in the provider's words, which are in lower case; compiled when
            it is first needed, because most processes never see an error.
        providers: only for these presets.
        promised: whether the provider named a wait of at most an hour.
    """

    category: ErrorCategory
    statuses: frozenset[int] = frozenset()
    codes: frozenset[str] = frozenset()
    text: str = ""
    providers: frozenset[str] = frozenset()
    promised: bool | None = None

    def holds(self, provider: str, refusal: Refusal, promised: bool) -> bool:
        """Whether this row decides."""
        status = refusal.status if (refusal.status or 0) >= 300 else 0
        return (
            (not self.statuses or status in self.statuses)
            and (not self.codes or not self.codes.isdisjoint(refusal.codes))
            and (not self.providers or provider in self.providers)
            and (self.promised is None or self.promised is promised)
            and (not self.text or _compiled(self.text).search(refusal.text) is not None)
        )


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def rule(
    category: ErrorCategory,
    *,
    statuses: Sequence[int] = (),
    codes: str = "",
    text: str = "",
    providers: str = "",
    promised: bool | None = None,
) -> Rule:
    """A row as tables write it: codes and providers are words with blanks between, text a regex.

    >>> rule(ErrorCategory.TIMEOUT, codes="DEADLINE_EXCEEDED timeout").codes == {
    ...     "deadline_exceeded", "timeout"}
    True
    """
    return Rule(
        category=category,
        statuses=frozenset(statuses),
        codes=frozenset(codes.lower().split()),
        text=text,
        providers=frozenset(providers.split()),
        promised=promised,
    )


def classify_by(rules: Sequence[Rule], failure: Failure) -> ErrorInfo:
    """What a refusal means by these rows; the last row should hold for everything.

    Args:
        rules: in the order of belief.
        failure: as it came.
    """
    refusal = read_refusal(failure)
    wait = told_wait(refusal.headers, delays=refusal.delays, text=refusal.text, now=failure.now)
    category = _category(rules, failure.provider, refusal, wait)
    if wait is None and category is ErrorCategory.RATE_LIMIT_RETRYABLE:
        wait = bucket_wait(refusal.headers, now=failure.now)
    return ErrorInfo(
        category=category,
        landed=_landed(failure.status, category),
        retry_after=wait,
        safe=safe_text(failure.provider, category, refusal.status, refusal.message),
        private=_private(failure),
        status=refusal.status,
        code=refusal.code,
        request_id=refusal.request_id,
        provider=failure.provider or None,
    )


def _category(
    rules: Sequence[Rule], provider: str, refusal: Refusal, wait: float | None
) -> ErrorCategory:
    promised = wait is not None and wait <= _SOON
    category = next(
        (rule.category for rule in rules if rule.holds(provider, refusal, promised)),
        ErrorCategory.SERVER_ERROR,
    )
    said = should_retry(refusal.headers)
    if said is None or said is category.retryable:
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


def _landed(status: int | None, category: ErrorCategory) -> Landed:
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


def safe_text(provider: str, category: ErrorCategory, status: int | None, message: str) -> str:
    """What happened, at whom, and their words, without secrets.

    >>> safe_text("groq", ErrorCategory.AUTH_ERROR, 401, "Invalid API Key")
    'groq denied access (HTTP 401): Invalid API Key'
    """
    what = _WHAT.get(category, "refused the request")
    shown = f" (HTTP {status})" if (status or 0) >= 300 else ""
    said = shortened(message, LONGEST_SAFE)
    return f"{provider or 'The provider'} {what}{shown}{': ' if said else ''}{said}"


def _private(failure: Failure) -> str:
    body = failure.body[: 4 * LONGEST_PRIVATE].decode("utf-8", "replace")
    return shortened(body, LONGEST_PRIVATE)


def shortened(text: str, longest: int) -> str:
    """`text` without secrets and control characters, and not longer than this.

    Redaction sees a little more than is shown and no half word: half a key is not recognised.
    """
    text = one_line(text)
    if len(text) > 2 * longest:
        text = text[: 2 * longest].rpartition(" ")[0] or "[cut]"
    said = redact(text)
    return said if len(said) <= longest else said[:longest].rstrip() + " [cut]"
