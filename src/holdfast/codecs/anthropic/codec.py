"""The wire as one object: encode, decode, classify. It must never hold a key or an address."""

from __future__ import annotations

from holdfast.codecs.anthropic.decode import AnthropicDecoder
from holdfast.codecs.anthropic.encode import encode_request, supports_prefill
from holdfast.codecs.anthropic.errors import classify
from holdfast.codecs.anthropic.history import WIRE
from holdfast.codecs.request_body import HeadCache
from holdfast.codecs.retry_after import LIMITS
from holdfast.codecs.stitching import allows_continuation, refuse_prefill
from holdfast.codecs.wire import EncodedRequest, Failure, Quirks, QuirkyCodec
from holdfast.core.errors import ErrorInfo
from holdfast.core.model_request import ModelRequest


class AnthropicCodec(QuirkyCodec):
    """Anthropic's Messages, version 2023-06-01.

    Args:
        quirks: `prefill` says whether a reply can be continued; no other field changes requests.

    >>> from holdfast.core.messages import user
    >>> request = ModelRequest(model="claude-sonnet-4-5", messages=[user("Hi")])
    >>> AnthropicCodec().encode(request).path
    '/v1/messages'
    """

    wire = WIRE
    # After the usual names, which a gateway in front of it may have.
    limit_headers = (
        *LIMITS,
        ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
        ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
        ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
        ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
    )

    def __init__(self, quirks: Quirks | None = None) -> None:
        super().__init__(quirks)
        self._heads = HeadCache()

    def encode(self, request: ModelRequest) -> EncodedRequest:
        """The request body.

        Raises:
            ConfigurationError: this wire cannot express a field, or the history is not whole.
        """
        if not self.quirks.prefill:
            refuse_prefill(request, "this provider")
        return encode_request(request, self._heads)

    def can_continue(self, request: ModelRequest, /) -> bool:
        """Where the provider takes the beginning of a reply, and the model does."""
        return (
            bool(self.quirks.prefill) and allows_continuation(request) and supports_prefill(request)
        )

    def make_decoder(self, content_type: str, provider: str = "") -> AnthropicDecoder:
        """A decoder for one response body."""
        return AnthropicDecoder(content_type, provider)

    def classify(self, failure: Failure) -> ErrorInfo:
        """What a refusal means."""
        return classify(failure)
