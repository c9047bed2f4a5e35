"""What errors mean on Google's Gemini wire: `google.rpc.Status`, alone, in an array, or in a stream.

Source: Google's reference of the Gemini API, and `google.rpc` for codes and details. What every cloud
of Google says (RESOURCE_EXHAUSTED, API_KEY_INVALID, ...) stands in the shared rows, because other
vendors' wires run there too. This module must hold rows and nothing that decides by itself.
"""

from __future__ import annotations

from holdfast.codecs.classify import ErrorRule, classify_by_rules, error_rule
from holdfast.codecs.rules import SHARED
from holdfast.codecs.wire import Failure
from holdfast.core.errors import ErrorCategory as Category
from holdfast.core.errors import ErrorInfo

RULES: tuple[ErrorRule, ...] = (
    error_rule(Category.RATE_LIMIT_TERMINAL, codes="billing_disabled"),
    # Region and account come as a precondition of the request.
    error_rule(
        Category.AUTH_ERROR,
        codes="failed_precondition",
        text=r"location|country|region|enable billing",
    ),
    error_rule(Category.TRANSIENT, codes="aborted cancelled"),
    *SHARED,
)


def classify(failure: Failure) -> ErrorInfo:
    """What a refusal on this wire means.

    >>> body = b'[{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "Bad key.",'
    >>> body += b' "details": [{"reason": "API_KEY_INVALID"}]}}]'
    >>> classify(Failure(provider="gemini", status=400, body=body)).category.value
    'auth_error'
    """
    return classify_by_rules(RULES, failure)
