"""The codec of Google's Gemini wire, for AI Studio and Vertex AI.

It caches encoded request heads and holds no state of a run, so one object serves concurrent runs.
"""

from __future__ import annotations

from holdfast.codecs.gemini.decode import GeminiDecoder
from holdfast.codecs.gemini.encode import encode_request
from holdfast.codecs.gemini.errors import classify
from holdfast.codecs.gemini.vocabulary import WIRE
from holdfast.codecs.stitching import refuse_prefill
from holdfast.codecs.wire import EncodedRequest, Failure, WireCodec
from holdfast.core.errors import ErrorInfo
from holdfast.core.model_request import ModelRequest


class Gemini(WireCodec):
    """Google's `generateContent`.

    Args:
        profile: accepted for a uniform signature; no field changes the requests of this wire.

    >>> from holdfast.core.messages import user
    >>> request = ModelRequest(model="gemini-2.5-flash", messages=[user("Hi")], stream=False)
    >>> Gemini().encode(request).path
    '/models/gemini-2.5-flash:generateContent'
    """

    wire = WIRE
    settings_read = frozenset((
        "cache", "cache_key", "extra", "max_tokens", "parallel_tool_calls", "reasoning_effort",
        "reasoning_summary", "reasoning_tokens", "seed", "stop", "temperature", "tool_choice", "top_p",
        "top_k", "frequency_penalty", "presence_penalty",
    ))  # fmt: skip
    settings_ignored = frozenset({"verbosity"})

    def encode(self, request: ModelRequest) -> EncodedRequest:
        """Encode a request as path and body.

        Raises:
            ConfigurationError: this wire cannot express a field, or there is no message to reply to.
        """
        refuse_prefill(request, "Gemini")
        return encode_request(request, self._heads, self.dialects)

    def make_decoder(
        self,
        content_type: str,
        provider: str = "",
        request: ModelRequest | None = None,  # noqa: ARG002 - it decides nothing on this wire
    ) -> GeminiDecoder:
        """Return a decoder for one response body."""
        return GeminiDecoder(content_type, classify, provider)

    def classify(self, failure: Failure) -> ErrorInfo:
        """Classify an error response."""
        return classify(failure)
