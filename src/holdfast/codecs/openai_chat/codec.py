"""The codec of the Chat Completions wire.

It caches encoded request heads and holds no state of a run, so one object serves concurrent runs.
"""

from __future__ import annotations

from holdfast.codecs.openai_chat.decode import ChatDecoder
from holdfast.codecs.openai_chat.encode import ChatEncoder
from holdfast.codecs.openai_chat.errors import classify
from holdfast.codecs.openai_chat.vocabulary import WIRE
from holdfast.codecs.stitching import allows_continuation
from holdfast.codecs.wire import EncodedRequest, Failure, Quirks, QuirkyCodec
from holdfast.core.errors import ErrorInfo
from holdfast.core.model_request import ModelRequest


class OpenAIChat(QuirkyCodec):
    """Chat Completions with the quirks of one provider.

    >>> from holdfast.core.messages import user
    >>> codec = OpenAIChat()
    >>> request = ModelRequest(model="gpt-5.2", messages=[user("Hi")], stream=False)
    >>> codec.encode(request).body
    b'{"model":"gpt-5.2","messages":[{"role":"user","content":"Hi"}]}'
    """

    wire = WIRE
    settings_read = frozenset((
        "cache", "cache_key", "extra", "max_tokens", "parallel_tool_calls", "reasoning_effort",
        "reasoning_summary", "reasoning_tokens", "seed", "stop", "temperature", "tool_choice", "top_p",
    ))  # fmt: skip

    def __init__(self, quirks: Quirks | None = None) -> None:
        super().__init__(quirks)
        self._encoder = ChatEncoder(self.quirks, self._heads)

    def encode(self, request: ModelRequest) -> EncodedRequest:
        """Encode a request.

        Raises:
            ConfigurationError: this wire cannot express the request.
        """
        return self._encoder.encode(request)

    def can_continue(self, request: ModelRequest, /) -> bool:
        """Whether the provider continues the beginning of a reply."""
        return bool(self.quirks.prefill) and allows_continuation(request)

    def make_decoder(self, content_type: str, provider: str = "") -> ChatDecoder:
        """Return a decoder for one response body of this content type."""
        return ChatDecoder(content_type, classify, provider)

    def classify(self, failure: Failure) -> ErrorInfo:
        """Classify an error response by its status, headers and body."""
        return classify(failure)
