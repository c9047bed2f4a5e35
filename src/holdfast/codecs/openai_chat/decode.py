"""Decodes the body of a Chat Completions response, streamed or whole, into deltas.

The most frequent objects are decoded into types, in which every field with another meaning must be
absent or empty. Decoding any other object fails, and `OpenAIChatChunkReader` reads it. Both give
exactly the same deltas, so the fast path must not accept anything that the reader does not support.
This module never raises on any bytes. `codecs.reply_checks` decides whether the reply is accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from holdfast.codecs.body_reader import BodyReader, PairJoiner
from holdfast.codecs.call_arguments import spoil_mended
from holdfast.codecs.error_body import unwrap_error_array
from holdfast.codecs.event_decoder import wrap_error_text
from holdfast.codecs.json_text import UNREADABLE, json_kind, read_tier
from holdfast.codecs.openai_chat.calls import CallFragment
from holdfast.codecs.openai_chat.chunk_reader import OpenAIChatChunkReader
from holdfast.codecs.openai_chat.vocabulary import PlainUsage, finish_reason
from holdfast.codecs.sse import LARGEST_EVENT, EventTooLargeError, SseDecoder
from holdfast.codecs.wire import RESPONSE_OBJECT, Failure
from holdfast.core.deltas import (
    CharactersReplaced,
    Delta,
    EndMissing,
    NotAReply,
    ReasoningDelta,
    ReplyFinished,
    ReplyStarted,
    StreamEnded,
    TextDelta,
    ToolCallDelta,
    UsageReceived,
)
from holdfast.core.errors import ErrorInfo

_MARKERS = (b"[DONE]", b'"[DONE]"')

# An event of another name that is not JSON only keeps the connection open.
_NAMES = (b"", b"message", b"error", b"completion", b"chunk")

_Empty: TypeAlias = tuple[()] | None
_Filled: TypeAlias = Annotated[str, Meta(min_length=1)]


class ChatDecoder:
    """Decodes one response body into deltas.

    Args:
        content_type: the header's value, or "".
        classify: classifies an error inside a 200 response.
        provider: the preset's name, for `classify`.
        limit: the largest event or whole body, in bytes.
    """

    __slots__ = (
        "_body",
        "_can_read_quickly",
        "_classify",
        "_done",
        "_has_mended",
        "_has_text",
        "_joiner",
        "_provider",
        "_reader_or_none",
        "_sse",
    )  # fmt: skip

    def __init__(
        self,
        content_type: str,
        classify: Callable[[Failure], ErrorInfo],
        provider: str = "",
        limit: int = LARGEST_EVENT,
    ) -> None:
        self._classify = classify
        self._provider = provider
        self._reader_or_none: OpenAIChatChunkReader | None = None
        self._body = BodyReader(limit, content_type)
        self._sse: SseDecoder | None = None
        self._done = False
        self._joiner = PairJoiner()
        # Whether the next chunk may be read on the fast path.
        self._can_read_quickly = False
        # Whether a text was read on the fast path.
        self._has_text = False
        # Whether any event was repaired.
        self._has_mended = False

    @property
    def _reader(self) -> OpenAIChatChunkReader:
        """The reader for all objects, created at its first use."""
        if self._reader_or_none is None:
            self._reader_or_none = OpenAIChatChunkReader(self._classify, self._provider)
        return self._reader_or_none

    @property
    def unknown_counts(self) -> dict[str, int]:
        """The number of messages with each unknown field."""
        return self._reader.unknown_counts

    @property
    def other_choices(self) -> int:
        """The number of dropped chunks of choices other than the first."""
        return self._reader.other_choices

    def feed(self, data: bytes) -> list[Delta]:
        """Return the deltas that these bytes complete."""
        out: list[Delta] = []
        if self._done:
            return out
        try:
            # Once the body is known to be a stream, its decoder is called directly: this path runs
            # for every delta.
            events = self._sse.feed(data) if self._sse is not None else self._body.feed(data)
        except EventTooLargeError as error:
            events = self._body.note_too_large(error)
        for name, payload in events:
            if not self._can_read_quickly or name or not self._read_quickly(payload, out):
                for event_name, text in self._joiner.feed(name, payload):
                    self._read_event(event_name, text, out)
                self._can_read_quickly = self._can_read_quickly and not self._joiner.waiting
        if self._sse is None:
            self._sse = self._body.sse
        if self._body.problem is not None:
            self._reject_body(self._body.problem, out)
        return out

    def close(self) -> list[Delta]:
        """End the body, and return the remaining deltas; an event that was cut is dropped."""
        out: list[Delta] = []
        if self._done:
            return out
        events = self._body.close()
        for name, payload in self._joiner.close():
            self._read_event(name, payload, out)
        for at, (name, payload) in enumerate(events, 1):
            self._read_event(name, payload, out, cut=at == len(events))
        if self._body.sse is None:
            self._read_whole_body(out)
        elif (
            self._body.problem is None
            and self._reader.has_read_nothing
            and self._body.sse.unknown_lines
        ):
            self._body.problem = NotAReply(RESPONSE_OBJECT, "plain text")
        if self._body.problem is not None:
            self._reject_body(self._body.problem, out)
        elif not self._done:
            self._reader.close(out)
            out.append(EndMissing())
        self._done = True
        return out

    def _read_quickly(self, payload: bytes, out: list[Delta]) -> bool:
        """Read a chunk with only text, reasoning or arguments; return False for any other chunk."""
        try:
            plain = decode_chunk(payload).choices[0].delta
        except (ValueError, RecursionError):
            return False
        text, reasoning = plain.content, plain.reasoning_content or plain.reasoning
        if text and not (reasoning or plain.tool_calls):  # nearly every chunk
            self._has_text = True
            out.append(TextDelta(text))
            return True
        if not plain.tool_calls:
            if not (text or reasoning):
                return False
            if reasoning:
                self._reader.reasoning.has_text = True
                out.append(ReasoningDelta(reasoning))
            if text:
                self._has_text = True
                out.append(TextDelta(text))
            return True
        if text or reasoning:
            return False
        deltas = self._reader.calls.read_fragments(plain.tool_calls)
        out += deltas or ()
        return deltas is not None

    def _read_event(
        self, name: bytes, payload: bytes, out: list[Delta], *, cut: bool = False
    ) -> None:
        payload = payload.strip()
        if self._done or not payload:
            return
        if payload in _MARKERS:
            self._reader.end_reply(out)
            self._done, self._can_read_quickly = True, False
            return
        value = unwrap_error_array(self._body.json.read(payload))
        if isinstance(value, dict):
            self._take(value, out, failed=name == b"error")
            self._can_read_quickly = self._reader.allows_quick_read
        elif value is None:
            pass  # `null` only keeps the connection open
        elif value is UNREADABLE and name == b"error" and not self._reader.finished:
            self._reader.read_object(wrap_error_text(payload), out, failed=True)
        elif value is UNREADABLE and b"\n" in payload:
            # The blank lines between the events are missing: each line is one object.
            for line in payload.split(b"\n"):
                self._read_event(b"", line, out, cut=cut)
        elif self._reader.finished or cut or name not in _NAMES:
            self._pass_over(payload, out, cut=cut)
        elif value is UNREADABLE:
            self._reject_body(NotAReply("JSON in every event", "other text"), out)
        else:
            self._reject_body(NotAReply("chunk object", json_kind(value)), out)

    def _take(
        self,
        value: dict[str, object],
        out: list[Delta],
        *,
        failed: bool = False,
        whole: bool = False,
    ) -> None:
        start = len(out)
        self._reader.has_text |= self._has_text
        self._reader.read_object(value, out, failed=failed, whole=whole)
        if self._body.json.has_mended:
            spoil_mended(out, start)
            if not self._has_mended:
                self._has_mended = True
                out.append(CharactersReplaced())

    def _pass_over(self, payload: bytes, out: list[Delta], *, cut: bool) -> None:
        if cut and (b'"delta"' in payload or not self._reader.finished):
            out.append(EndMissing(inside_event=True))

    def _read_whole_body(self, out: list[Delta]) -> None:
        text = self._body.take_text()
        if (quick := read_whole_reply(text)) is not None:
            out += quick
            self._done = True
            return
        value = self._body.read_value(text)
        if isinstance(value, list):
            # Only errors come wrapped in an array.
            value = unwrap_error_array(value)
            self._body.problem = None if isinstance(value, dict) else self._body.problem
        if isinstance(value, dict):
            self._take(value, out, whole=True)
            self._reader.end_reply(out, whole=True)
            self._done = True

    def _reject_body(self, problem: NotAReply, out: list[Delta]) -> None:
        if not self._done:
            out.append(problem)
        self._done, self._can_read_quickly = True, False


class _Outcome(Struct, gc=False):
    status_code: Literal[0] | None = None


class _ReplyMetadata(Struct, gc=False, kw_only=True):
    """Fields beside the choices that need the full reader; they must be absent or empty."""

    error: None = None
    x_groq: None = None
    base_resp: _Outcome | None = None
    citations: _Empty = None
    search_results: _Empty = None
    related_questions: _Empty = None


class _MessageFields(Struct, gc=False, forbid_unknown_fields=True):
    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_text: None = None
    reasoning_details: _Empty = None
    reasoning_opaque: None = None
    reasoning_signature: None = None
    reasoning_id: None = None
    thought_signature: None = None
    extra_content: None = None
    function_call: None = None
    refusal: None = None
    audio: None = None
    images: _Empty = None
    annotations: _Empty = None


class PlainDelta(_MessageFields, gc=False, forbid_unknown_fields=True):
    """The delta of a chunk with only text, reasoning or arguments."""

    tool_calls: list[CallFragment] | None = None


class _OnlyChoice(Struct, gc=False):
    delta: PlainDelta
    index: Literal[0] = 0
    finish_reason: None = None
    native_finish_reason: None = None
    usage: None = None
    error: None = None


class _PlainChunk(_ReplyMetadata, gc=False):
    choices: tuple[_OnlyChoice]
    usage: None = None
    object: Literal["chat.completion.chunk", "", "chat.completion"] | None = None


class _Function(Struct, gc=False):
    name: str
    arguments: str


class _WholeCall(Struct, gc=False, forbid_unknown_fields=True):
    function: _Function
    id: _Filled
    type: Literal["function"] | None = None
    index: int | None = None


class _WholeMessage(_MessageFields, gc=False, forbid_unknown_fields=True):
    tool_calls: list[_WholeCall] | None = None


class _WholeChoice(Struct, gc=False):
    message: _WholeMessage
    finish_reason: _Filled
    index: Literal[0] = 0
    native_finish_reason: None = None
    usage: None = None
    error: None = None


class _WholeReply(_ReplyMetadata, gc=False):
    choices: tuple[_WholeChoice]
    id: _Filled
    model: str
    usage: PlainUsage | None = None
    service_tier: str | None = None
    object: Literal["chat.completion"] | None = None


decode_chunk = msgspec.json.Decoder(_PlainChunk).decode
"""Decodes a chunk with only text, reasoning or arguments; raises ValueError or RecursionError for any other.

>>> decode_chunk(b'{"choices": [{"delta": {"content": "Hi"}}]}').choices[0].delta.content
'Hi'
"""

_read_whole = msgspec.json.Decoder(_WholeReply).decode


def read_whole_reply(body: bytes) -> list[Delta] | None:
    """Return the deltas of a whole reply with only text, reasoning and calls; None for any other body."""
    try:
        reply = _read_whole(body)
    except (ValueError, RecursionError):
        return None
    (choice,) = reply.choices
    message, finish, usage = choice.message, choice.finish_reason, reply.usage
    out: list[Delta] = [ReplyStarted(reply.id, reply.model)]
    if reasoning := message.reasoning_content or message.reasoning:
        out.append(ReasoningDelta(reasoning))
    if message.content:
        out.append(TextDelta(message.content))
    for number, call in enumerate(message.tool_calls or ()):
        function = call.function
        out.append(ToolCallDelta(number, call.id, function.name, function.arguments))
    out.append(ReplyFinished(finish_reason(finish), finish))
    if usage is not None:
        out.append(UsageReceived(usage.tokens, read_tier(reply.service_tier)))
    out.append(StreamEnded(whole=True))
    return out
