"""The codec of Anthropic's Messages wire. It holds no API key and no URL."""

from __future__ import annotations

from holdfast.codecs.anthropic.decode import AnthropicDecoder
from holdfast.codecs.anthropic.encode import (
    DEFAULT_MAX_TOKENS,
    encode_request,
    supports_prefill,
    supports_tool_search,
)
from holdfast.codecs.anthropic.errors import classify
from holdfast.codecs.anthropic.history import WIRE
from holdfast.codecs.retry_after import LIMITS
from holdfast.codecs.stitching import allows_continuation, refuse_prefill
from holdfast.codecs.wire import EncodedRequest, Failure, WireCodec
from holdfast.core.errors import ErrorInfo
from holdfast.core.model_request import ModelRequest


class AnthropicCodec(WireCodec):
    """Anthropic's Messages, version 2023-06-01.

    Args:
        profile: `prefill` enables continued replies, and `tool_search` the server's search for tools; no
            other field changes requests.

    >>> from holdfast.core.messages import user
    >>> request = ModelRequest(model="claude-sonnet-4-5", messages=[user("Hi")])
    >>> AnthropicCodec().encode(request).path
    '/v1/messages'
    """

    wire = WIRE
    default_max_tokens = DEFAULT_MAX_TOKENS
    settings_read = frozenset((
        "cache", "cache_key", "extra", "max_tokens", "parallel_tool_calls", "reasoning_effort",
        "reasoning_summary", "reasoning_tokens", "stop", "temperature", "tool_choice", "top_k",
        "top_p",
    ))  # fmt: skip
    settings_ignored = frozenset({"seed", "frequency_penalty", "presence_penalty", "verbosity"})
    # The usual names come first, because a gateway may add them.
    limit_headers = (
        *LIMITS,
        ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
        ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
        ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
        ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
    )

    def encode(self, request: ModelRequest) -> EncodedRequest:
        """Encode a request.

        Raises:
            ConfigurationError: this wire cannot express a field, or a call and its result do not match.
        """
        if not self.profile.prefill:
            refuse_prefill(request, "this provider")
        return encode_request(request, self._heads, self.dialects)

    def can_continue(self, request: ModelRequest, /) -> bool:
        """Whether provider and model continue the beginning of a reply."""
        return (
            bool(self.profile.prefill)
            and allows_continuation(request)
            and supports_prefill(request)
        )

    def has_tool_search(self, model: str) -> bool:
        """Whether provider and model search deferred tools."""
        return self.profile.tool_search and supports_tool_search(model)

    def make_decoder(
        self,
        content_type: str,
        provider: str = "",
        request: ModelRequest | None = None,  # noqa: ARG002 - it decides nothing on this wire
    ) -> AnthropicDecoder:
        """Return a decoder for one response body."""
        return AnthropicDecoder(content_type, provider)

    def classify(self, failure: Failure) -> ErrorInfo:
        """Classify an error response."""
        return classify(failure)
