"""The codec of OpenAI's Responses wire. It holds no API key and no URL."""

from __future__ import annotations

from holdfast.codecs.openai_responses.decode import ResponsesDecoder
from holdfast.codecs.openai_responses.encode import encode_request, supports_tool_search
from holdfast.codecs.openai_responses.errors import classify
from holdfast.codecs.openai_responses.vocabulary import WIRE
from holdfast.codecs.stitching import refuse_prefill
from holdfast.codecs.wire import EncodedRequest, Failure, WireCodec
from holdfast.core.errors import ErrorInfo
from holdfast.core.model_request import ModelRequest


class ResponsesCodec(WireCodec):
    """OpenAI's Responses wire, used without server-side state.

    Args:
        profile: `system_role` names the role of system messages, and `tool_search` enables the server's
            search for tools.

    >>> from holdfast.core.messages import user
    >>> request = ModelRequest(model="gpt-5.2", messages=[user("Hi")])
    >>> ResponsesCodec().encode(request).path
    '/responses'
    """

    wire = WIRE
    settings_read = frozenset((
        "cache", "cache_key", "extra", "max_tokens", "parallel_tool_calls", "reasoning_effort",
        "reasoning_summary", "reasoning_tokens", "stop", "temperature", "tool_choice", "top_p",
        "verbosity",
    ))  # fmt: skip
    settings_ignored = frozenset({"seed", "top_k", "frequency_penalty", "presence_penalty"})

    def encode(self, request: ModelRequest) -> EncodedRequest:
        """Encode a request.

        Raises:
            ConfigurationError: this wire cannot express a field, or a call and its result do not match.
        """
        refuse_prefill(request, "Responses")
        return encode_request(request, self._heads, self.profile, self.dialects)

    def has_tool_search(self, model: str) -> bool:
        """Whether provider and model search deferred tools."""
        return self.profile.tool_search and supports_tool_search(model)

    def make_decoder(
        self,
        content_type: str,
        provider: str = "",
        request: ModelRequest | None = None,  # noqa: ARG002 - it decides nothing on this wire
    ) -> ResponsesDecoder:
        """Return a decoder for one response body."""
        return ResponsesDecoder(content_type, provider)

    def classify(self, failure: Failure) -> ErrorInfo:
        """Classify an error response."""
        return classify(failure)
