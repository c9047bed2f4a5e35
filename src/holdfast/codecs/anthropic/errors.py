"""The error table of Anthropic's Messages wire, for Anthropic and the clouds that offer it.

Source: Anthropic's reference of errors and its published client. Billing problems and disabled
accounts come as `400 invalid_request_error`, so the shared rows classify them by their text.
"""

from __future__ import annotations

from holdfast.codecs.classify import ErrorRule, classify_by_rules, error_rule
from holdfast.codecs.rules import SHARED
from holdfast.codecs.wire import Failure
from holdfast.core.errors import ErrorCategory as Category
from holdfast.core.errors import ErrorInfo

RULES: tuple[ErrorRule, ...] = (
    # The whole sentence of a 404 is "model: <name>".
    error_rule(Category.MODEL_NOT_FOUND, codes="not_found_error", text=r"^model: "),
    error_rule(
        Category.AUTH_ERROR,
        statuses=(0, 400, 403),
        text=r"credential is only authorized|oauth authentication is|not allowed for this organization",
    ),
    *SHARED,
)


def classify(failure: Failure) -> ErrorInfo:
    """Classify an error response of this wire, or the JSON of an `error` event.

    >>> event = b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}'
    >>> classify(Failure(provider="anthropic", body=event)).category.value
    'transient'
    """
    return classify_by_rules(RULES, failure)
