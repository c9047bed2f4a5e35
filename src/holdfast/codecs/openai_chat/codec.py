"""The codec of the Chat Completions wire.

It caches encoded request heads and holds no state of a run, so one object serves concurrent runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.openai_chat.decode import ChatDecoder
from holdfast.codecs.openai_chat.encode import ChatEncoder
from holdfast.codecs.openai_chat.errors import classify
from holdfast.codecs.openai_chat.vocabulary import WIRE
from holdfast.codecs.stitching import allows_continuation
from holdfast.codecs.wire import EncodedRequest, Failure, WireCodec
from holdfast.core.errors import ErrorInfo
from holdfast.core.model_request import ModelRequest

if TYPE_CHECKING:
    from holdfast.codecs.openai_chat.reply_habits import HabitDecoder


class OpenAIChat(WireCodec):
    """Chat Completions with the profile of one provider.

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
        "frequency_penalty", "presence_penalty", "verbosity",
    ))  # fmt: skip
    settings_ignored = frozenset({"top_k"})

    def __init__(self, profile: EndpointProfile | None = None) -> None:
        super().__init__(profile)
        self._encoder = ChatEncoder(self.profile, self._heads)
        self._habit_decoder: type[HabitDecoder] | None = None
        if self.profile.has_habits:  # imported only for an endpoint that has habits
            from holdfast.codecs.openai_chat.reply_habits import HabitDecoder

            self._habit_decoder = HabitDecoder

    def encode(self, request: ModelRequest) -> EncodedRequest:
        """Encode a request.

        Raises:
            ConfigurationError: this wire cannot express the request.
        """
        return self._encoder.encode(request)

    def can_continue(self, request: ModelRequest, /) -> bool:
        """Whether the provider continues the beginning of a reply."""
        # The beginning of a call, or of code around it, may be in the part that was received.
        profile = self.profile
        return bool(profile.prefill) and not profile.text_calls and allows_continuation(request)

    def make_decoder(
        self, content_type: str, provider: str = "", request: ModelRequest | None = None
    ) -> ChatDecoder | HabitDecoder:
        """Return a decoder for one response body of this content type."""
        decoder = ChatDecoder(content_type, classify, provider)
        if self._habit_decoder is None:
            return decoder
        return self._habit_decoder(decoder, self.profile, request)

    def classify(self, failure: Failure) -> ErrorInfo:
        """Classify an error response by its status, headers and body."""
        return classify(failure)
