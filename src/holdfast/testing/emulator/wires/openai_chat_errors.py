"""OpenAI's error responses on the Chat Completions wire: status, headers and body, as data.

The texts are the provider's; account names and numbers are invented.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.testing.emulator.faults import ErrorKind
from holdfast.testing.emulator.wires.emulator_wire import EmulatedError


def _make_error(
    status: int,
    message: str,
    kind: str,
    code: str | None = None,
    *,
    param: str | None = None,
    headers: Mapping[str, str] = {},  # never changed
) -> EmulatedError:
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return EmulatedError(status, body, headers)


_LIMITS = {
    "retry-after": "1",
    "retry-after-ms": "1000",
    "x-ratelimit-limit-requests": "500",
    "x-ratelimit-limit-tokens": "30000",
    "x-ratelimit-remaining-requests": "499",
    "x-ratelimit-remaining-tokens": "500",
    "x-ratelimit-reset-requests": "120ms",
    "x-ratelimit-reset-tokens": "1s",
}

ERRORS: dict[ErrorKind, EmulatedError] = {
    "rate_limit": _make_error(
        429,
        "Rate limit reached for gpt-4o in organization org-emulated on tokens per min (TPM): "
        "Limit 30000, Used 29500, Requested 1000. Please try again in 1s. "
        "Visit https://platform.openai.com/account/rate-limits to learn more.",
        "tokens",
        "rate_limit_exceeded",
        headers=_LIMITS,
    ),
    "insufficient_quota": _make_error(
        429,
        "You exceeded your current quota, please check your plan and billing details. "
        "For more information on this error, read the docs: "
        "https://platform.openai.com/docs/guides/error-codes/api-errors.",
        "insufficient_quota",
        "insufficient_quota",
    ),
    "bad_key": _make_error(
        401,
        "Incorrect API key provided: sk-emula**ated. You can find your API key at "
        "https://platform.openai.com/account/api-keys.",
        "invalid_request_error",
        "invalid_api_key",
        headers={"www-authenticate": "Bearer"},
    ),
    "server_error": _make_error(
        500,
        "The server had an error while processing your request. Sorry about that! You can retry "
        "your request, or contact us through our help center at help.openai.com if the error "
        "persists. (Please include the request ID req_emulated in your message.)",
        "server_error",
    ),
    "overloaded": _make_error(
        503,
        "That model is currently overloaded with other requests. You can retry your request, or "
        "contact us through our help center at help.openai.com if the error persists.",
        "server_error",
    ),
    "context_length": _make_error(
        400,
        "This model's maximum context length is 128000 tokens. However, your messages resulted "
        "in 131072 tokens. Please reduce the length of the messages.",
        "invalid_request_error",
        "context_length_exceeded",
        param="messages",
    ),
    "model_not_found": _make_error(
        404,
        "The model `emulated-missing` does not exist or you do not have access to it.",
        "invalid_request_error",
        "model_not_found",
    ),
    "content_filtered": _make_error(
        400,
        "Your request was rejected as a result of our safety system. Your prompt may contain "
        "text that is not allowed by our safety system.",
        "invalid_request_error",
        "content_policy_violation",
    ),
    "invalid_request": _make_error(
        400,
        "Invalid value for 'temperature': must be at most 2.",
        "invalid_request_error",
        "invalid_value",
        param="temperature",
    ),
}
