"""The Gemini wire as a `Codec`: AI Studio and Vertex AI alike."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.codecs.gemini.decode import GeminiDecoder
from holdfast.codecs.gemini.encode import encode_request
from holdfast.codecs.gemini.errors import classify
from holdfast.codecs.gemini.vocabulary import WIRE
from holdfast.codecs.pairing import check_pairs
from holdfast.codecs.request_body import Head
from holdfast.codecs.wire import Decoder, Encoded, Failure, Quirks
from holdfast.core.errors import ConfigurationError, ErrorInfo
from holdfast.core.messages import Message
from holdfast.core.request import ModelRequest


class GeminiCodec:
    """Encodes questions, decodes answers, classifies refusals.

    Args:
        quirks: how this provider's form of the wire differs.

    >>> from holdfast.core.messages import user
    >>> question = ModelRequest(model="gemini-2.5-flash", messages=[user("Hi")], stream=False)
    >>> GeminiCodec().encode(question).path
    '/models/gemini-2.5-flash:generateContent'
    """

    def __init__(self, quirks: Quirks | None = None) -> None:
        self.quirks = quirks or Quirks()
        self._head: Head | None = None
        self._checked: tuple[Sequence[Message], int, Message | None] = ((), 0, None)

    @property
    def name(self) -> str:
        """`gemini`"""
        return WIRE

    def encode(self, request: ModelRequest) -> Encoded:
        """The request as path and body.

        Raises:
            ConfigurationError: this wire cannot express a field, or there is nothing to answer.
        """
        self._check(request.messages)
        # One head is kept: a run asks the same question again, with a longer history.
        encoded, self._head = encode_request(request, self._head)
        return encoded

    def _check(self, messages: Sequence[Message]) -> None:
        """Check calls and results, only in what came since the last time."""
        known, count, last = self._checked
        if known is messages and 0 < count <= len(messages) and messages[count - 1] is last:
            try:
                # No call was open there, so that the rest can be judged by itself.
                check_pairs(messages[count:])
            except ConfigurationError:
                check_pairs(messages)
                raise
        else:
            check_pairs(messages)
        self._checked = (messages, len(messages), messages[-1] if messages else None)

    def decoder(self, content_type: str, provider: str = "") -> Decoder:
        """A decoder for one response body."""
        return GeminiDecoder(content_type, classify, provider)

    def classify(self, failure: Failure) -> ErrorInfo:
        """What a refusal means."""
        return classify(failure)
