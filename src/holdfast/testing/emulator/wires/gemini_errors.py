"""Google's error responses on the Gemini wire: status and body, as data.

The texts are the provider's; project names and numbers are invented. A wrong key has status 400, the
delay after a 429 is in the body, and a refused prompt has status 200 with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.testing.emulator.faults import ErrorKind
from holdfast.testing.emulator.wires.emulator_wire import EmulatedError

_RPC = "type.googleapis.com/google.rpc."
_HEADERS = {"content-type": "application/json; charset=UTF-8"}


def make_error(
    code: int, status: str, message: str, details: Sequence[dict[str, object]] = ()
) -> EmulatedError:
    """Make an error response with this message."""
    error: dict[str, object] = {"code": code, "message": message, "status": status}
    if details:
        error["details"] = list(details)
    return EmulatedError(code, {"error": error}, _HEADERS)


def _make_quota_error(wait: str, window: str, value: str) -> EmulatedError:
    name = "generativelanguage.googleapis.com/generate_content_free_tier_requests"
    violation = {
        "quotaMetric": name,
        "quotaId": f"GenerateRequestsPer{window}PerProjectPerModel-FreeTier",
        "quotaDimensions": {"location": "global", "model": "gemini-2.5-flash"},
        "quotaValue": value,
    }
    help_link = {
        "description": "Learn more about Gemini API quotas",
        "url": "https://ai.google.dev/gemini-api/docs/rate-limits",
    }
    return make_error(
        429,
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota, please check your plan and billing details. For more "
        "information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits.\n"
        f"* Quota exceeded for metric: {name}, limit: {value}, model: gemini-2.5-flash\n"
        f"Please retry in {wait}.",
        (
            {"@type": f"{_RPC}Help", "links": [help_link]},
            {"@type": f"{_RPC}QuotaFailure", "violations": [violation]},
            {"@type": f"{_RPC}RetryInfo", "retryDelay": wait},
        ),
    )


_KEY_DETAILS: tuple[dict[str, object], ...] = (
    {
        "@type": f"{_RPC}ErrorInfo",
        "reason": "API_KEY_INVALID",
        "domain": "googleapis.com",
        "metadata": {"service": "generativelanguage.googleapis.com"},
    },
    {
        "@type": f"{_RPC}LocalizedMessage",
        "locale": "en-US",
        "message": "API key not valid. Please pass a valid API key.",
    },
)

ERRORS: dict[ErrorKind, EmulatedError] = {
    "rate_limit": _make_quota_error("1s", "Minute", "10"),
    "insufficient_quota": _make_quota_error("31425s", "Day", "250"),
    "bad_key": make_error(
        400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", _KEY_DETAILS
    ),
    "server_error": make_error(500, "INTERNAL", "Internal error encountered."),
    "overloaded": make_error(
        503, "UNAVAILABLE", "The model is overloaded. Please try again later."
    ),
    "context_length": make_error(
        400,
        "INVALID_ARGUMENT",
        "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
    ),
    "model_not_found": make_error(
        404,
        "NOT_FOUND",
        "models/emulated-missing is not found for API version v1beta, or is not supported for "
        "generateContent. Call ListModels to see the list of available models and their supported "
        "methods.",
    ),
    "content_filtered": EmulatedError(
        200,
        {
            "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
            "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9},
            "modelVersion": "emulated-model",
            "responseId": "emulated-blocked",
        },
        _HEADERS,
    ),
    "invalid_request": make_error(
        400,
        "INVALID_ARGUMENT",
        "* GenerateContentRequest.generation_config.temperature: value must be in the range [0, 2]",
    ),
}
