"""What errors mean on OpenAI's chat completions wire, at OpenAI and at those who speak its wire.

Sources: OpenAI's guide to error codes and its published client, and the same of the providers named in
the rows. This module must hold rows and nothing that decides by itself.
"""

from __future__ import annotations

from holdfast.codecs.classify import ErrorRule, classify_by_rules, error_rule
from holdfast.codecs.rules import SHARED
from holdfast.codecs.wire import Failure
from holdfast.core.errors import ErrorCategory as Category
from holdfast.core.errors import ErrorInfo

RULES: tuple[ErrorRule, ...] = (
    # Codes that would be read by their words otherwise, and wrongly.
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
    # There are, but none that fits the request's tools, or the account's own rules.
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
    # Elsewhere these words are about the prompt.
    error_rule(
        Category.RATE_LIMIT_RETRYABLE,
        statuses=(0, 400, 429),
        text=r"too many tokens(?! per day)",
        providers="xai bedrock bedrock-openai",
    ),
    # What the model wrote does not fit the form of its tool calls: another sample may.
    error_rule(
        Category.INVALID_RESPONSE,
        statuses=(0, 500),
        text=r"failed to parse input at pos",
        providers="llamacpp llama.cpp llama-cpp",
    ),
    # llama.cpp and what is built on it say 500 for a request that can never work.
    error_rule(
        Category.CLIENT_ERROR,
        statuses=(500,),
        text=r"is not supported|unsupported|failed to parse|invalid (?:json|grammar|schema)",
        providers="llamacpp llama.cpp llama-cpp lmstudio ollama",
    ),
    *SHARED,
)


def classify(failure: Failure) -> ErrorInfo:
    """What a refusal on this wire means.

    >>> info = classify(Failure(provider="openai", status=429, body=b'{"error": {'
    ...     b'"code": "rate_limit_exceeded", "message": "Please try again in 644ms."}}'))
    >>> info.category.value, info.retry_after, info.landed.value
    ('rate_limit_retryable', 0.644, 'no')
    """
    return classify_by_rules(RULES, failure)
