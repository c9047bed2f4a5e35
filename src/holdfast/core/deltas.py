"""What a decoder says, piece by piece: the neutral form of every wire's chunks.

A whole reply is the same pieces, all at once; that is why streaming and not streaming are one
path. `codecs.assemble` folds them into one reply. The first three are also shown live to whoever
reads a stream. This module must never grow a piece that only one wire can make, except `PartReceived`.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from holdfast.core.errors import ErrorInfo
from holdfast.core.messages import Extra, FinishReason, Part, Usage


class TextDelta(Struct, frozen=True, gc=False):
    """A piece of text. `index` distinguishes parallel blocks of one reply."""

    text: str
    index: int = 0


class ReasoningDelta(Struct, frozen=True):
    """A piece of the model's reasoning, its signature, or vendor state that belongs to it."""

    text: str = ""
    index: int = 0
    signature: str | None = None
    extra: Extra | None = None


class ToolCallDelta(Struct, frozen=True):
    """More of one tool call: `arguments` is a fragment of JSON text to append."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""
    extra: Extra | None = None


class RefusalDelta(Struct, frozen=True, gc=False):
    """More of the model's words for declining."""

    text: str


class PartReceived(Struct, frozen=True):
    """A part that came whole: media, or a block that is kept verbatim.

    `note` marks a part that describes the reply and is not content of it, such as its citations.
    """

    part: Part
    index: int = 0
    note: bool = False


class ReplyStarted(Struct, frozen=True, gc=False):
    """The reply's id and the model that really answers."""

    id: str = ""
    model: str = ""


class ReplyFinished(Struct, frozen=True, gc=False):
    """The wire's word for why the reply ended, in our vocabulary and in its own.

    Content that follows makes it void: then only another `ReplyFinished` says that the reply is whole.
    `last` is false where content may follow all the same, as some servers do it.
    """

    reason: FinishReason
    raw: str = ""
    last: bool = True


class UsageReceived(Struct, frozen=True):
    """Tokens so far; a later one replaces an earlier one."""

    usage: Usage


class ErrorReceived(Struct, frozen=True):
    """An error inside a reply that began as a success."""

    error: ErrorInfo


class NoChoices(Struct, frozen=True, gc=False):
    """A whole reply, well formed, with no candidate in it."""

    reason: str = "no candidates in response"


class NotAReply(Struct, frozen=True, gc=False):
    """Bytes that are no reply of this wire: HTML, text, another JSON."""

    expected: str
    got: str


class StreamEnded(Struct, frozen=True, gc=False):
    """The wire's own end marker (`[DONE]`, `message_stop`, the end of a whole body).

    `whole` means that the body was one JSON text, which could not be read if it were cut.
    """

    whole: bool = False


class EndMissing(Struct, frozen=True, gc=False):
    """The body of a stream ended without the wire's end marker.

    `inside_event` means that it ended inside an event that may have held content.
    """

    inside_event: bool = False


Delta: TypeAlias = (
    TextDelta
    | ReasoningDelta
    | ToolCallDelta
    | RefusalDelta
    | PartReceived
    | ReplyStarted
    | ReplyFinished
    | UsageReceived
    | ErrorReceived
    | NoChoices
    | NotAReply
    | StreamEnded
    | EndMissing
)
