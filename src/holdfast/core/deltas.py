"""Deltas: the output of a decoder, the neutral form of the chunks of every wire.

A complete reply decodes to the same deltas, all at once; so streaming and not streaming are one
path. `codecs.assemble` joins them into one reply. The first four are also streamed to the reader of
a run, and so are `CharactersReplaced`, `HostedToolStarted` and `HostedToolFinished`. Do not add a delta that only one wire can produce, except
through `PartReceived`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

from holdfast.core.errors import ErrorInfo
from holdfast.core.messages import Extra, FinishReason, Part, Usage


class TextDelta(Struct, frozen=True, gc=False):
    """More text. `index` distinguishes parallel blocks of one reply."""

    text: str
    index: int = 0


class ReasoningDelta(Struct, frozen=True):
    """More of the model's reasoning, or its signature, or vendor state that belongs to it."""

    text: str = ""
    index: int = 0
    signature: str | None = None
    extra: Extra | None = None


class ToolCallDelta(Struct, frozen=True):
    """A piece of a tool call: `arguments` is JSON text to append."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""
    extra: Extra | None = None


class RefusalDelta(Struct, frozen=True, gc=False):
    """A piece of the text with which the model declines."""

    text: str


class CharactersReplaced(Struct, frozen=True, gc=False):
    """U+FFFD stands in the reply for bytes or escapes that are not characters."""


class HostedToolStarted(Struct, frozen=True, gc=False):
    """The provider began to run one of its own tools, such as "web_search".

    Args:
        id: the provider's id of the call, or "".
        name: the tool; see `HostedCall`.
        arguments: the arguments of the model, as JSON text; "" if they are not known yet.
    """

    id: str
    name: str
    arguments: str = ""


class HostedToolFinished(Struct, frozen=True, gc=False):
    """A tool that the provider ran has ended.

    Args:
        id: the provider's id of the call, or "".
        name: the tool.
        arguments: the arguments of the model, if the provider sends them only now.
        result: the result, as text.
        is_error: the tool failed; `result` says why.
    """

    id: str
    name: str
    arguments: str = ""
    result: str = ""
    is_error: bool = False


class PartReceived(Struct, frozen=True):
    """A part that arrived complete: media, or a block that is passed on unchanged.

    `note` marks a part that describes the reply and is not part of its content, such as citations.
    """

    part: Part
    index: int = 0
    note: bool = False


class ReplyStarted(Struct, frozen=True, gc=False):
    """The reply's id, and the model that really answered."""

    id: str = ""
    model: str = ""


class ReplyFinished(Struct, frozen=True, gc=False):
    """Why the reply ended, in the neutral vocabulary and, as `raw`, in the wire's own.

    Content that follows makes it void: then only another `ReplyFinished` completes the reply. `last`
    is false where content may still follow, as some servers send it.
    """

    reason: FinishReason
    raw: str = ""
    last: bool = True


class UsageReceived(Struct, frozen=True):
    """The tokens so far; a later delta replaces an earlier one. `tier` is as in `Reply`."""

    usage: Usage
    tier: str = ""


class ErrorReceived(Struct, frozen=True):
    """An error inside a successful response."""

    error: ErrorInfo


class NoChoices(Struct, frozen=True, gc=False):
    """A complete and well-formed reply without any candidate."""

    reason: str = "no candidates in response"


class NotAReply(Struct, frozen=True, gc=False):
    """Bytes that are not a reply of this wire: HTML, text, other JSON."""

    expected: str
    got: str


class StreamEnded(Struct, frozen=True, gc=False):
    """The wire's own end marker (`[DONE]`, `message_stop`, the end of a whole body).

    `whole` means that the body was one JSON text, which cannot be parsed when it is cut.
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
    | CharactersReplaced
    | HostedToolStarted
    | HostedToolFinished
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
"""One piece of a response, in the neutral form of all wires."""


class Decoder(Protocol):
    """Decodes one response body, in any pieces, into deltas. One object per response."""

    def feed(self, data: bytes) -> list[Delta]:
        """Return the deltas that these bytes complete; never raises on any bytes."""
        ...

    def close(self) -> list[Delta]:
        """End the body, and return the remaining deltas."""
        ...


_CONTENT = frozenset({TextDelta, ReasoningDelta, ToolCallDelta, RefusalDelta, PartReceived})


def holds_content(deltas: Sequence[Delta]) -> bool:
    """Whether one of the deltas is content of the reply, and not only information about it.

    >>> holds_content([UsageReceived(Usage())]), holds_content([TextDelta("Hi")])
    (False, True)
    """
    return not _CONTENT.isdisjoint(map(type, deltas))
