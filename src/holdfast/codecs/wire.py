"""The interface of a wire: encode a request, decode a response, classify an error.

A codec is pure: it opens no connection, reads no clock and no environment variable, and holds no
API key. A difference between two providers of one wire is a field of `Quirks`, never an `if` on a
provider's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, Protocol

from msgspec import Struct

from holdfast.codecs.request_body import HeadCache
from holdfast.codecs.retry_after import LIMITS, LimitHeaders
from holdfast.core.deltas import Delta
from holdfast.core.errors import ErrorInfo
from holdfast.core.model_request import ModelRequest

RESPONSE_OBJECT = "response object"
"""`NotAReply.expected` of a body that is not a JSON object: HTML, text, an array."""

CHOICES = "choices attribute"
"""`NotAReply.expected` of an object that is not a reply of Chat Completions."""


class EncodedRequest(Struct, frozen=True):
    """A request as it is sent to the server: the path below the base URL, headers and body."""

    path: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


class Failure(Struct, frozen=True, kw_only=True):
    """An error response, as the input of `classify`.

    Args:
        provider: the preset's name ("openai", "groq", ...), for rows of one provider.
        status: the HTTP status; None for an error inside a stream.
        headers: names in lower case.
        body: the raw bytes (perhaps HTML, truncated or empty), or the JSON text of the event.
        now: seconds since the epoch, for dates in headers; None when unknown.
    """

    provider: str = ""
    status: int | None = None
    headers: Mapping[str, str] = {}
    body: bytes = b""
    now: float | None = None


class Quirks(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one provider's form of a wire differs from the vendor's documentation.

    Args:
        ends_without_finish: a stream that ends with content and no finish reason is complete, with or
            without the end marker. Of any other provider, such a stream was cut.
        ends_without_marker: a stream with a finish reason and no end marker is complete, unless content
            follows the reason or a call has incomplete arguments.
        max_tokens_field: the name of the output limit in the request body.
        system_role: the role of instructions ("system" or "developer").
        stream_usage: ask for usage in the stream by `stream_options`.
        reasoning_field: the message field in which reasoning is sent back ("reasoning_content",
            "reasoning", or "content" for blocks inside the content); "" sends no reasoning back.
        state_fields: vendor fields of messages and calls that are sent back unchanged.
        reasoning: how the effort of thinking is sent: in `reasoning_effort` ("effort"); with a budget
            in one object, `reasoning` ("object"); or beside an object `thinking` that turns it on
            and off ("thinking").
        cache: how caching is requested: by OpenAI's fields `prompt_cache_key` and
            `prompt_cache_retention` ("key"), by Anthropic's field `cache_control` ("control"), or
            not at all, since the server caches by itself or never ("").
        response_format: how a typed output is requested: "json_schema", or "json_object" with the
            schema in the instructions.
        seed_field: the name of the seed in the request body.
        alternating_roles: user and assistant messages must alternate, also after results of tools.
        call_id_length: the exact number of letters and digits in ids of tool calls; 0 for any.
        media_in_results: a tool result may hold images; otherwise they follow in a user message.
        output_mode: how a typed output is requested if the user has no tools: by the wire's own
            field, by a tool, or by an instruction.
        output_mode_with_tools: the same if the user has tools.
        forces_tools: the model can be forced to call one tool.
        prefill: how a reply that broke off is continued: its beginning is sent as the last assistant
            message ("last_message"), marked by `prefix: true` ("prefix", or "prefix_echo" if the
            provider repeats the beginning) or by `continue_final_message` on the request
            ("final_message"); "" if the provider does not support it.
    """

    ends_without_finish: bool = False
    ends_without_marker: bool = True
    max_tokens_field: str = "max_tokens"
    system_role: str = "system"
    stream_usage: bool = True
    reasoning_field: str = ""
    state_fields: tuple[str, ...] = ("extra_content",)
    reasoning: Literal["effort", "object", "thinking"] = "effort"
    cache: Literal["", "key", "control"] = ""
    response_format: Literal["json_schema", "json_object"] = "json_schema"
    seed_field: str = "seed"
    alternating_roles: bool = False
    call_id_length: int = 0
    media_in_results: bool = False
    output_mode: Literal["native", "tool", "prompt"] = "native"
    output_mode_with_tools: Literal["native", "tool", "prompt"] = "native"
    forces_tools: bool = True
    prefill: Literal["", "last_message", "prefix", "prefix_echo", "final_message"] = ""


class Decoder(Protocol):
    """Decodes one response body, in any pieces, into deltas. One object per response."""

    def feed(self, data: bytes) -> list[Delta]:
        """Return the deltas that these bytes complete; never raises on any bytes."""
        ...

    def close(self) -> list[Delta]:
        """End the body, and return the remaining deltas."""
        ...


class Codec(Protocol):
    """One wire. Its state depends only on the arguments of its constructor."""

    @property
    def name(self) -> str:
        """`openai_chat`, `anthropic`, ..."""
        ...

    @property
    def limit_headers(self) -> LimitHeaders:
        """The rate limit headers of this wire."""
        ...

    def encode(self, request: ModelRequest) -> EncodedRequest:
        """Encode a request; raises ConfigurationError if this wire cannot express it."""
        ...

    def can_continue(self, request: ModelRequest, /) -> bool:
        """Whether a reply to this request that broke off can be continued by `request.prefill`."""
        ...

    def make_decoder(self, content_type: str, provider: str = "") -> Decoder:
        """Return a decoder for a body of this content type: an event stream or a whole reply."""
        ...

    def classify(self, failure: Failure) -> ErrorInfo:
        """Classify an error response."""
        ...


class QuirkyCodec:
    """The base class of the codecs: the quirks of one provider, and the heads of its last requests.

    Args:
        quirks: how this provider's form of the wire differs from the vendor's; None for no difference.

    A codec declares the fields of `ModelSettings` that its encoder reads, in `settings_read`. It sends
    them, or refuses what the wire cannot express. Fields in `settings_ignored` have no effect, as the
    documentation says. Any other field that a request sets is refused.
    """

    wire: ClassVar[str]
    settings_read: ClassVar[frozenset[str]]
    settings_ignored: ClassVar[frozenset[str]] = frozenset()
    limit_headers: LimitHeaders = LIMITS

    def __init__(self, quirks: Quirks | None = None) -> None:
        self.quirks = quirks or Quirks()
        self._heads = HeadCache(self.wire, self.settings_read | self.settings_ignored)

    @property
    def name(self) -> str:
        """The name of the wire."""
        return self.wire

    def can_continue(self, request: ModelRequest, /) -> bool:  # noqa: ARG002 - subclasses use it
        """Return False: by default a wire cannot continue a reply."""
        return False
