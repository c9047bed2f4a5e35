"""The door of this wire: `Gemini(quirks)` encodes, decodes and classifies, for AI Studio and Vertex AI.

It holds the request heads that it has encoded, and nothing of any one run: one object serves any
number of runs at once.
"""

from __future__ import annotations

from holdfast.codecs.gemini.decode import GeminiDecoder
from holdfast.codecs.gemini.encode import encode_request
from holdfast.codecs.gemini.errors import classify
from holdfast.codecs.gemini.vocabulary import WIRE
from holdfast.codecs.request_body import HeadCache
from holdfast.codecs.stitching import refuse_prefill
from holdfast.codecs.wire import EncodedRequest, Failure, Quirks, QuirkyCodec
from holdfast.core.errors import ErrorInfo
from holdfast.core.model_request import ModelRequest


class Gemini(QuirkyCodec):
    """Google's `generateContent`.

    Args:
        quirks: taken for the sake of the common shape; no field changes this wire's requests.

    >>> from holdfast.core.messages import user
    >>> question = ModelRequest(model="gemini-2.5-flash", messages=[user("Hi")], stream=False)
    >>> Gemini().encode(question).path
    '/models/gemini-2.5-flash:generateContent'
    """

    wire = WIRE

    def __init__(self, quirks: Quirks | None = None) -> None:
        super().__init__(quirks)
        self._heads = HeadCache()

    def encode(self, request: ModelRequest) -> EncodedRequest:
        """The request as path and body.

        Raises:
            ConfigurationError: this wire cannot express a field, or there is nothing to answer.
        """
        refuse_prefill(request, "Gemini")
        return encode_request(request, self._heads)

    def make_decoder(self, content_type: str, provider: str = "") -> GeminiDecoder:
        """A decoder for one response body."""
        return GeminiDecoder(content_type, classify, provider)

    def classify(self, failure: Failure) -> ErrorInfo:
        """What a refusal means."""
        return classify(failure)
