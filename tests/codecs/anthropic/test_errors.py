"""Errors of the anthropic wire: the vendors' words, and what each must mean."""

from tests.codecs.bodies import Case, anthropic, failure, google, name

from holdfast.codecs.anthropic.errors import classify

# fmt: off
CASES: list[Case] = [
    ("anthropic", 400, anthropic("invalid_request_error", "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."), "rate_limit_terminal"),
    ("anthropic", 400, anthropic("invalid_request_error", "This organization has been disabled."), "auth_error"),
    ("anthropic", 400, anthropic("invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"), "context_window"),
    ("anthropic", 400, anthropic("invalid_request_error", "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again"), "context_window"),
    ("anthropic", 400, anthropic("invalid_request_error", "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4"), "client_error"),
    ("anthropic", 400, anthropic("invalid_request_error", "You have reached your specified API usage limits. You will regain access on 2025-09-01 at 00:00 UTC."), "rate_limit_terminal"),
    ("anthropic", 413, anthropic("request_too_large", "Request exceeds the maximum size"), "client_error"),
    ("anthropic", 413, anthropic("request_too_large", "Prompt is too long"), "context_window"),
    ("anthropic", 403, anthropic("permission_error", "Your API key does not have permission to use the specified resource."), "auth_error"),
    ("anthropic", 401, anthropic("authentication_error", "OAuth token has expired. Please obtain a new token or refresh your existing token."), "auth_error"),
    ("anthropic", 429, anthropic("rate_limit_error", "Number of request tokens has exceeded your per-minute rate limit (https://docs.anthropic.com/en/api/rate-limits); see the response headers for current usage."), "rate_limit_retryable"),
    ("anthropic", 429, anthropic("rate_limit_error", "This request would exceed your account's rate limit. Please try again later."), "rate_limit_retryable"),
    ("anthropic", 429, anthropic("rate_limit_error", "Extra usage is required for long context requests."), "rate_limit_terminal"),
    ("anthropic", 429, anthropic("rate_limit_error", "Number of concurrent connections has exceeded your rate limit. Please try again later"), "rate_limit_retryable"),
    ("anthropic", 504, anthropic("timeout_error", "Request timed out."), "timeout"),
    ("anthropic", None, anthropic("overloaded_error", "Overloaded"), "transient"),
    ("anthropic", None, anthropic("rate_limit_error", "x"), "rate_limit_retryable"),
    ("anthropic", 402, anthropic("billing_error", "x"), "rate_limit_terminal"),
    ("anthropic", 400, anthropic("invalid_request_error", "messages: text content blocks must be non-empty"), "client_error"),
    ("anthropic", 400, anthropic("invalid_request_error", "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 5396708 bytes > 5242880 bytes"), "client_error"),
    ("anthropic", 400, anthropic("invalid_request_error", "messages.5.content.0.image.source.base64.data: At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels"), "client_error"),
    ("anthropic", 400, anthropic("invalid_request_error", "Could not process image"), "client_error"),
    ("anthropic", 400, anthropic("invalid_request_error", "A maximum of 100 PDF pages may be provided."), "client_error"),
    ("anthropic", 400, anthropic("invalid_request_error", "The long context beta is not yet available for this subscription."), "client_error"),
    ("anthropic", 400, anthropic("invalid_request_error", "`temperature` may only be set to 1 when thinking is enabled."), "client_error"),
    ("anthropic", 400, anthropic("invalid_request_error", "tools.0.input_schema: JSON schema is invalid - please consult"), "client_error"),
    ("anthropic", 400, anthropic("invalid_request_error", "This credential is only authorized for use with Claude Code and cannot be used for other API requests."), "auth_error"),
    ("anthropic", 400, anthropic("invalid_request_error", "Output blocked by content filtering policy"), "content_filtered"),
    ("anthropic", 403, {"error": {"type": "forbidden", "message": "Request not allowed"}}, "auth_error"),
    ("anthropic", 404, anthropic("not_found_error", "model: claude-nonexistent"), "model_not_found"),
    ("anthropic", 404, anthropic("not_found_error", "File not found"), "client_error"),
    ("anthropic", 403, anthropic("permission_error", "OAuth authentication is currently not allowed for this organization."), "auth_error"),
    ("anthropic", 400, anthropic("invalid_request_error", "OAuth authentication is currently not supported."), "auth_error"),
    ("anthropic", 400, anthropic("invalid_request_error", "This is not allowed for this organization."), "auth_error"),
    ("anthropic", 529, anthropic("overloaded_error", "Overloaded"), "transient"),
    ("anthropic", 500, anthropic("api_error", "Internal server error"), "server_error"),
    ("anthropic", None, anthropic("api_error", "Internal server error"), "server_error"),
    ("anthropic", 429, anthropic("rate_limit_error", "Number of request tokens has exceeded your daily rate limit."), "rate_limit_terminal"),
    ("anthropic", 400, anthropic("invalid_request_error", "The request body is not valid JSON: unexpected end of data: line 1 column 9 (char 8)"), "server_error"),
    ("google_vertex", 429, google(429, "RESOURCE_EXHAUSTED", "Quota exceeded for aiplatform.googleapis.com/online_prediction_requests_per_base_model with base model: anthropic-claude."), "rate_limit_retryable"),
    ("bedrock", None, {"message": "Too many requests", "__type": "throttlingException"}, "rate_limit_retryable"),
]
# fmt: on


def test_the_vendors_words_mean() -> None:
    found = [(name(case), classify(failure(case)).category.value, case[3]) for case in CASES]
    assert [row for row in found if row[1] != row[2]] == []
