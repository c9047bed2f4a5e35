"""The wire as one object: encode, decode, classify. It must never hold a key or an address."""

from __future__ import annotations

from holdfast.codecs.openai_responses.decode import ResponsesDecoder
from holdfast.codecs.openai_responses.encode import encode_request
from holdfast.codecs.openai_responses.errors import classify
from holdfast.codecs.openai_responses.vocabulary import WIRE
from holdfast.codecs.request_body import HeadCache
from holdfast.codecs.stitching import refuse_prefill
from holdfast.codecs.wire import EncodedRequest, Failure, Quirks, QuirkyCodec
from holdfast.core.errors import ErrorInfo
from holdfast.core.model_request import ModelRequest


class ResponsesCodec(QuirkyCodec):
    """OpenAI's Responses, used without state at the server.

    Args:
        quirks: `system_role` names the role of system messages.

    >>> from holdfast.core.messages import user
    >>> request = ModelRequest(model="gpt-5.2", messages=[user("Hi")])
    >>> ResponsesCodec().encode(request).path
    '/responses'
    """

    wire = WIRE

    def __init__(self, quirks: Quirks | None = None) -> None:
        super().__init__(quirks)
        self._heads = HeadCache()

    def encode(self, request: ModelRequest) -> EncodedRequest:
        """The request body.

        Raises:
            ConfigurationError: this wire cannot express a field, or the history is not whole.
        """
        refuse_prefill(request, "Responses")
        return encode_request(request, self._heads, self.quirks)

    def make_decoder(self, content_type: str, provider: str = "") -> ResponsesDecoder:
        """A decoder for one response body."""
        return ResponsesDecoder(content_type, provider)

    def classify(self, failure: Failure) -> ErrorInfo:
        """What a refusal means."""
        return classify(failure)
