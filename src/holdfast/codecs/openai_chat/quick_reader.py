"""A fast path for the most frequent objects of this wire, which are decoded into types.

In the types here, every field with another meaning must be absent or empty. Decoding any other
object fails, and `OpenAIChatChunkReader` reads it. Both give exactly the same deltas, so the fast
path must not accept anything that the reader does not support.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from holdfast.codecs.openai_chat.calls import CallFragment
from holdfast.codecs.openai_chat.vocabulary import PlainUsage, finish_reason
from holdfast.core.deltas import (
    Delta,
    ReasoningDelta,
    ReplyFinished,
    ReplyStarted,
    StreamEnded,
    TextDelta,
    ToolCallDelta,
    UsageReceived,
)

_Empty: TypeAlias = tuple[()] | None
_Filled: TypeAlias = Annotated[str, Meta(min_length=1)]


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
        out.append(UsageReceived(usage.tokens))
    out.append(StreamEnded(whole=True))
    return out
