"""The error table of OpenAI's Responses wire: error responses, `error` events and failed responses.

The codes are OpenAI's (`response.error.code` in its reference).
"""

from __future__ import annotations

from holdfast.codecs.classify import ErrorRule, classify_by_rules, error_rule
from holdfast.codecs.openai_chat.errors import RULES as CHAT
from holdfast.codecs.wire import Failure
from holdfast.core.errors import ErrorCategory as Category
from holdfast.core.errors import ErrorInfo

RULES: tuple[ErrorRule, ...] = (
    error_rule(
        Category.CONTENT_FILTERED,
        codes="image_content_policy_violation bio_policy cyber_policy cyber_policy_violation",
    ),
    error_rule(Category.TIMEOUT, codes="vector_store_timeout"),
    *CHAT,
)


def classify(failure: Failure) -> ErrorInfo:
    """Classify an error response of this wire, or the JSON of an `error` or `response.failed` event.

    >>> event = b'{"type": "response.failed", "response": {"error": {"code": "server_error"}}}'
    >>> classify(Failure(provider="openai", body=event)).category.value
    'server_error'
    """
    return classify_by_rules(RULES, failure)
