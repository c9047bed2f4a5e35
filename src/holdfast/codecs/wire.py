"""What every wire offers: encode a question, decode an answer, classify a refusal.

A codec is pure: bytes to types and back. It must never open a connection, read a clock or an
environment variable, or hold a key. Anything that differs between two providers of one wire is a
field of `Quirks`, never an `if` on a provider's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, Protocol

from msgspec import Struct

from holdfast.codecs.retry_after import LIMITS, LimitHeaders
from holdfast.core.deltas import Delta
from holdfast.core.errors import ErrorInfo
from holdfast.core.model_request import ModelRequest

RESPONSE_OBJECT = "response object"
"""`NotAReply.expected` of a body that is of another kind altogether: HTML, text, a list."""

CHOICES = "choices attribute"
"""`NotAReply.expected` of an object that is no reply of Chat Completions."""


class EncodedRequest(Struct, frozen=True):
    """A question as it goes to the server: the path below the base URL, headers, the body."""

    path: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


class Failure(Struct, frozen=True, kw_only=True):
    """A refusal as it came, for `classify`.

    Args:
        provider: the preset's name ("openai", "groq", ...), for rows that only it needs.
        status: the HTTP status; None for an error inside a stream.
        headers: names in lower case.
        body: the bytes as they came (may be HTML, cut, empty), or the JSON text of the event.
        now: seconds since the epoch, for dates in headers; None when unknown.
    """

    provider: str = ""
    status: int | None = None
    headers: Mapping[str, str] = {}
    body: bytes = b""
    now: float | None = None


class Quirks(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one provider's form of a wire differs from the vendor's document; all off by default.

    Args:
        ends_without_finish: a stream that ends with content and no finish reason is whole.
        ends_without_marker: a stream with a finish reason and no end marker is whole, unless content
            follows the reason or a call in it has no whole arguments.
        max_tokens_field: the name of the output limit in the request body.
        system_role: the role of instructions ("system" or "developer").
        stream_usage: ask for usage in the stream by `stream_options`.
        reasoning_field: the message field in which reasoning goes back ("reasoning_content",
            "reasoning", or "content" for blocks inside the content); "" sends none back.
        state_fields: fields of vendor state in messages and calls that go back as they came.
        reasoning_object: effort and budget of thinking stand in one object, `reasoning`.
        response_format: how a wanted shape is asked for: "json_schema", or "json_object", where
            the schema is told in the instructions.
        seed_field: the name of the seed in the request body.
        call_id_length: ids of tool calls have exactly so many letters and digits; 0 for any.
        media_in_results: a tool result may hold pictures; else they follow in a user message.
        output_mode: how a typed answer is asked for when the user has no tools: by the wire's own
            field, by a tool, or in words.
        output_mode_with_tools: the same when the user has tools.
        forces_tools: one tool can be made the only choice.
        prefill: how a reply that broke off goes on: its beginning is the last message of the
            assistant ("last_message"), with `prefix: true` on it ("prefix"; "prefix_echo" where the
            provider says the beginning again), or with `continue_final_message` on the request
            ("final_message"); "" where it cannot.
    """

    ends_without_finish: bool = False
    ends_without_marker: bool = True
    max_tokens_field: str = "max_tokens"
    system_role: str = "system"
    stream_usage: bool = True
    reasoning_field: str = ""
    state_fields: tuple[str, ...] = ("extra_content",)
    reasoning_object: bool = False
    response_format: Literal["json_schema", "json_object"] = "json_schema"
    seed_field: str = "seed"
    call_id_length: int = 0
    media_in_results: bool = False
    output_mode: Literal["native", "tool", "prompt"] = "native"
    output_mode_with_tools: Literal["native", "tool", "prompt"] = "native"
    forces_tools: bool = True
    prefill: Literal["", "last_message", "prefix", "prefix_echo", "final_message"] = ""


class Decoder(Protocol):
    """Bytes of one response body, in any pieces, to deltas. One object per response."""

    def feed(self, data: bytes) -> list[Delta]:
        """The deltas that these bytes complete; never raises on any bytes."""
        ...

    def close(self) -> list[Delta]:
        """The body is over: what was still held back."""
        ...


class Codec(Protocol):
    """One wire. Stateless, or holding only what is derived from its own constructor."""

    @property
    def name(self) -> str:
        """`openai_chat`, `anthropic`, ..."""
        ...

    @property
    def limit_headers(self) -> LimitHeaders:
        """The headers in which a reply on this wire tells about rate limits."""
        ...

    def encode(self, request: ModelRequest) -> EncodedRequest:
        """The request body; raises ConfigurationError for what this wire cannot express."""
        ...

    def can_continue(self, request: ModelRequest, /) -> bool:
        """Whether a reply to this question that broke off can go on, by `request.prefill`."""
        ...

    def make_decoder(self, content_type: str, provider: str = "") -> Decoder:
        """A decoder for a body of this content type: an event stream, or a whole reply."""
        ...

    def classify(self, failure: Failure) -> ErrorInfo:
        """What a refusal means."""
        ...


class QuirkyCodec:
    """What the wires of this package share: one provider's accent, and a name.

    Args:
        quirks: how this provider's form of the wire differs from the vendor's; not at all when absent.
    """

    wire: ClassVar[str]
    limit_headers: LimitHeaders = LIMITS

    def __init__(self, quirks: Quirks | None = None) -> None:
        self.quirks = quirks or Quirks()

    @property
    def name(self) -> str:
        """The name of the wire."""
        return self.wire

    def can_continue(self, request: ModelRequest, /) -> bool:  # noqa: ARG002 - a wire that can looks at it
        """Never, where a wire writes each reply from its beginning."""
        return False
