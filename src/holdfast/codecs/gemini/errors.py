"""The error table of Google's Gemini wire: `google.rpc.Status`, alone, in an array, or in a stream.

Source: Google's reference of the Gemini API, and `google.rpc` for codes and details. The codes of
all Google clouds (RESOURCE_EXHAUSTED, API_KEY_INVALID, ...) are in the shared rows, because other
vendors' wires are offered there too.
"""

from __future__ import annotations

from holdfast.codecs.classify import ErrorRule, classify_by_rules, error_rule
from holdfast.codecs.rules import SHARED
from holdfast.codecs.wire import Failure
from holdfast.core.errors import ErrorCategory as Category
from holdfast.core.errors import ErrorInfo

RULES: tuple[ErrorRule, ...] = (
    error_rule(Category.RATE_LIMIT_TERMINAL, codes="billing_disabled"),
    # Google reports problems of region and account as failed preconditions.
    error_rule(
        Category.AUTH_ERROR,
        codes="failed_precondition",
        text=r"location|country|region|enable billing",
    ),
    error_rule(Category.TRANSIENT, codes="aborted cancelled"),
    *SHARED,
)


def classify(failure: Failure) -> ErrorInfo:
    """Classify an error response of this wire.

    >>> body = b'[{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "Bad key.",'
    >>> body += b' "details": [{"reason": "API_KEY_INVALID"}]}}]'
    >>> classify(Failure(provider="gemini", status=400, body=body)).category.value
    'auth_error'
    """
    return classify_by_rules(RULES, failure)
