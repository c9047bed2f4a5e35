"""The error table of the Chat Completions wire, for OpenAI and all providers that use the wire.

Sources: the guides to error codes and the published clients of OpenAI and of the providers that the
rows name.
"""

from __future__ import annotations

from holdfast.codecs.classify import ErrorRule, classify_by_rules, error_rule
from holdfast.codecs.rules import SHARED
from holdfast.codecs.wire import Failure
from holdfast.core.errors import ErrorCategory as Category
from holdfast.core.errors import ErrorInfo

RULES: tuple[ErrorRule, ...] = (
    # Without these rows, the text patterns would classify these codes wrongly.
    error_rule(
        Category.CLIENT_ERROR,
        codes="invalid_image invalid_image_format invalid_image_url invalid_base64_image "
        "image_too_large image_too_small image_parse_error image_file_too_large empty_image_file "
        "unsupported_image_media_type failed_to_download_image image_file_not_found "
        "previous_response_not_found invalid_encrypted_content string_above_max_length",
    ),
    error_rule(Category.TRANSIENT, statuses=(498,), providers="groq"),  # flex capacity exceeded
    error_rule(
        Category.MODEL_NOT_FOUND,
        statuses=(404,),
        text=r"no endpoints found for",
        providers="openrouter",
    ),
    # The model exists, but no endpoint supports the request's tools or the account's rules.
    error_rule(
        Category.CLIENT_ERROR,
        statuses=(404,),
        text=r"no endpoints found (?:matching|that)",
        providers="openrouter",
    ),
    error_rule(
        Category.MODEL_NOT_FOUND,
        statuses=(400,),
        text=r"failed to load model",
        providers="lmstudio",
    ),
    # For other providers, this text is about the length of the prompt.
    error_rule(
        Category.RATE_LIMIT_RETRYABLE,
        statuses=(0, 400, 429),
        text=r"too many tokens(?! per day)",
        providers="xai bedrock bedrock-openai",
    ),
    # The model's text is not a valid tool call; another attempt may succeed.
    error_rule(
        Category.INVALID_RESPONSE,
        statuses=(0, 500),
        text=r"failed to parse input at pos",
        providers="llamacpp llama.cpp llama-cpp",
    ),
    # llama.cpp and servers built on it send 500 for requests that can never succeed.
    error_rule(
        Category.CLIENT_ERROR,
        statuses=(500,),
        text=r"is not supported|unsupported|failed to parse|invalid (?:json|grammar|schema)"
        r"|json schema conversion failed",
        providers="llamacpp llama.cpp llama-cpp lmstudio ollama",
    ),
    *SHARED,
)


def classify(failure: Failure) -> ErrorInfo:
    """Classify an error response of this wire.

    >>> info = classify(Failure(provider="openai", status=429, body=b'{"error": {'
    ...     b'"code": "rate_limit_exceeded", "message": "Please try again in 644ms."}}'))
    >>> info.category.value, info.retry_after, info.landed.value
    ('rate_limit_retryable', 0.644, 'no')
    """
    return classify_by_rules(RULES, failure)
