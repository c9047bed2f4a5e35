"""Anthropic's error responses on the Messages wire: status, headers and body, as data.

The texts are the provider's; account names and numbers are invented. An exhausted balance and a
refused prompt have status 400.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.testing.emulator.faults import ErrorKind
from holdfast.testing.emulator.wires.emulator_wire import EmulatedError

_ID = "req_emulated"


def make_error(
    status: int,
    kind: str,
    message: str,
    *,
    retryable: bool = False,
    headers: Mapping[str, str] = {},  # never changed
    details: Mapping[str, object] | None = None,
) -> EmulatedError:
    """Make an error response; `retryable` says whether the same request may succeed later."""
    error: dict[str, object] = {"type": kind, "message": message}
    if details is not None:
        error["details"] = details
    body = {"type": "error", "error": error, "request_id": _ID}
    own_headers = {"request-id": _ID, "x-should-retry": "true" if retryable else "false"}
    return EmulatedError(status, body, {**own_headers, **headers})


NO_THREAD = "thread: This request cannot be held in a thread"
"""The message for a request whose history the server would have to keep. The SDK then sends it all."""
NO_THREAD_DETAILS: Mapping[str, object] = {
    "error_code": "thread_unsupported_request",
    "unsupported": ["thread"],
}

_LIMITS = {
    "retry-after": "1",
    "anthropic-ratelimit-requests-limit": "50",
    "anthropic-ratelimit-requests-remaining": "49",
    "anthropic-ratelimit-requests-reset": "2026-01-01T00:00:01Z",
    "anthropic-ratelimit-input-tokens-limit": "30000",
    "anthropic-ratelimit-input-tokens-remaining": "0",
    "anthropic-ratelimit-input-tokens-reset": "2026-01-01T00:00:01Z",
    "anthropic-ratelimit-output-tokens-limit": "8000",
    "anthropic-ratelimit-output-tokens-remaining": "8000",
    "anthropic-ratelimit-output-tokens-reset": "2026-01-01T00:00:01Z",
    "anthropic-ratelimit-tokens-limit": "38000",
    "anthropic-ratelimit-tokens-remaining": "8000",
    "anthropic-ratelimit-tokens-reset": "2026-01-01T00:00:01Z",
}

ERRORS: dict[ErrorKind, EmulatedError] = {
    "rate_limit": make_error(
        429,
        "rate_limit_error",
        "This request would exceed the rate limit for your organization "
        "(00000000-0000-0000-0000-000000000000) of 30,000 input tokens per minute. For details, "
        "refer to: https://docs.anthropic.com/en/api/rate-limits. You can see the response "
        "headers for current usage. Please reduce the prompt length or the maximum tokens "
        "requested, or try again later.",
        retryable=True,
        headers=_LIMITS,
    ),
    "insufficient_quota": make_error(
        400,
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing "
        "to upgrade or purchase credits.",
    ),
    "bad_key": make_error(401, "authentication_error", "invalid x-api-key"),
    "server_error": make_error(500, "api_error", "Internal server error", retryable=True),
    "overloaded": make_error(529, "overloaded_error", "Overloaded", retryable=True),
    "context_length": make_error(
        400, "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"
    ),
    "model_not_found": make_error(404, "not_found_error", "model: emulated-missing"),
    "content_filtered": make_error(
        400, "invalid_request_error", "Output blocked by content filtering policy"
    ),
    "invalid_request": make_error(
        400, "invalid_request_error", "temperature: Input should be less than or equal to 1"
    ),
}
