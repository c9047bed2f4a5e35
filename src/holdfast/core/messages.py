"""Messages, their parts, and the validated reply: the types that all packages share.

This module must never depend on a wire format. No part may hold a value that a caller can change
after construction. Parts are a closed union with a tag in their JSON form, so a person can read a
journal record, and it decodes to the same value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from msgspec import Struct

Extra: TypeAlias = Mapping[str, object]
"""Vendor state that is sent back unchanged in the next iteration (ids, signatures, item types)."""

ToolOutcome: TypeAlias = Literal["done", "failed", "in_doubt"]

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


class Text(Struct, frozen=True, tag="text", omit_defaults=True, gc=False):
    """Plain text."""

    text: str
    extra: Extra | None = None


class Reasoning(Struct, frozen=True, tag="reasoning", omit_defaults=True):
    """The model's reasoning.

    `signature` and `extra` are sent back unchanged to the wire that they came from, which `wire`
    names. Another wire drops them.
    """

    text: str = ""
    signature: str | None = None
    wire: str | None = None
    extra: Extra | None = None


class ToolCall(Struct, frozen=True, tag="tool_call", omit_defaults=True):
    """The model's call of a tool, with the text of the arguments exactly as the model wrote it.

    The text is not parsed here. It may be cut or malformed; only `tools.invoke` decides whether the
    call can run.
    """

    id: str
    name: str
    arguments: str = "{}"
    wire: str | None = None
    extra: Extra | None = None


class Media(Struct, frozen=True, tag="media", omit_defaults=True):
    """An image, a sound or a file: inline `data` (bytes) or a `url`, never both."""

    media_type: str
    data: bytes | None = None
    url: str | None = None
    name: str | None = None
    extra: Extra | None = None

    def __post_init__(self) -> None:
        if (self.data is None) == (self.url is None):
            raise ValueError("Media takes exactly one of data= and url=")


class ToolResult(Struct, frozen=True, tag="tool_result", omit_defaults=True):
    """The result of one call, as the model reads it.

    `in_doubt` says of an error that the call may have taken effect nevertheless: the process ended or
    the tool failed when it was already running, and it may not be repeated.
    """

    call_id: str
    name: str
    content: tuple[Text | Media, ...]
    is_error: bool = False
    in_doubt: bool = False

    @property
    def outcome(self) -> ToolOutcome:
        """Whether the call was done, has failed without effect as far as is known, or is in doubt.

        >>> ToolResult("1", "pay", (Text("Nobody knows."),), is_error=True, in_doubt=True).outcome
        'in_doubt'
        """
        if self.in_doubt:
            return "in_doubt"
        return "failed" if self.is_error else "done"

    @property
    def text(self) -> str:
        """The textual content, joined."""
        return "".join(part.text for part in self.content if isinstance(part, Text))


class Refusal(Struct, frozen=True, tag="refusal", omit_defaults=True):
    """The text with which the model declines."""

    text: str


class Opaque(Struct, frozen=True, tag="opaque"):
    """A block of one wire that has no neutral form. It is sent back unchanged, to that wire only."""

    wire: str
    data: Extra


Part: TypeAlias = Text | Reasoning | ToolCall | ToolResult | Media | Refusal | Opaque
"""One piece of a message."""


class Message(Struct, frozen=True):
    """One entry of a history. A tool message holds the results of one iteration, in call order."""

    role: Role
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The text parts, joined; reasoning is not text."""
        return "".join([part.text for part in self.parts if isinstance(part, Text)])

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in the order of the model."""
        return tuple([part for part in self.parts if isinstance(part, ToolCall)])


def system(text: str) -> Message:
    """A system message.

    >>> system("Be brief.").text
    'Be brief.'
    """
    return Message("system", (Text(text),))


def user(*content: str | Text | Media) -> Message:
    """A message of a user, made of texts and media.

    >>> user("What is this?").role
    'user'
    """
    parts = [Text(part) if isinstance(part, str) else part for part in content]
    return Message("user", tuple(parts))


def assistant(*content: str | Part) -> Message:
    """A message of the assistant, for histories that you write yourself."""
    return Message(
        "assistant", tuple(Text(part) if isinstance(part, str) else part for part in content)
    )


def tool_results(results: Iterable[ToolResult]) -> Message:
    """Make the tool message that answers one assistant message."""
    return Message("tool", tuple(results))


class FinishReason(StrEnum):
    """Why a reply ended, in one vocabulary for all wires. `Reply.raw_finish` has the wire's own word."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    REFUSAL = "refusal"
    PAUSE = "pause"
    ERROR = "error"
    UNKNOWN = "unknown"


class Usage(Struct, frozen=True, omit_defaults=True, gc=False):
    """The tokens of one or more replies. `input` counts everything that was sent, cached or not.

    The other counts of tokens are parts of a field that is there: `cached_input`, `cache_write` and
    `audio_input` of `input`, `cache_write_1h` (kept for an hour) of `cache_write`, `reasoning` and
    `audio_output` of `output`. `audio_input` has no sound that was cached. `hosted_calls` counts the calls of tools that the provider ran, such as
    web searches.
    """

    input: int = 0
    output: int = 0
    cached_input: int = 0
    cache_write: int = 0
    reasoning: int = 0
    hosted_calls: int = 0
    cache_write_1h: int = 0
    audio_input: int = 0
    audio_output: int = 0

    @property
    def total(self) -> int:
        """Input plus output; cached input and reasoning are included in these."""
        return self.input + self.output

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cached_input=self.cached_input + other.cached_input,
            cache_write=self.cache_write + other.cache_write,
            reasoning=self.reasoning + other.reasoning,
            hosted_calls=self.hosted_calls + other.hosted_calls,
            cache_write_1h=self.cache_write_1h + other.cache_write_1h,
            audio_input=self.audio_input + other.audio_input,
            audio_output=self.audio_output + other.audio_output,
        )

    def __sub__(self, earlier: Usage) -> Usage:
        """Return the tokens that came after an earlier count of the same replies."""
        return Usage(
            *[
                max(0, getattr(self, name) - getattr(earlier, name))
                for name in self.__struct_fields__
            ]
        )


NO_USAGE: Final = Usage()
"""No tokens; the usage of everything that asked no model."""


class ReplyKind(StrEnum):
    """The kind of a reply. `codecs.assemble` sets it: the same for the same content, streamed or not."""

    COMPLETE = "complete"
    PAUSED = "paused"
    TRUNCATED = "truncated"
    FILTERED = "filtered"
    REFUSED = "refused"
    EMPTY = "empty"
    ONLY_REASONING = "only_reasoning"
    UNTERMINATED = "unterminated"
    ERROR_REPLY = "error_reply"
    MALFORMED_CALL = "malformed_call"
    NOT_A_REPLY = "not_a_reply"


class Reply(Struct, frozen=True, omit_defaults=True):
    """One model response, complete or partial; `kind` says which, and only `assemble` sets it.

    `continued` counts how often its text broke off and another attempt continued it. `tier` is the
    service tier that the provider charges: "flex", "priority", "batch", "fast" or "provisioned"; ""
    for its standard one.
    """

    parts: tuple[Part, ...]
    kind: ReplyKind = ReplyKind.COMPLETE
    finish: FinishReason = FinishReason.STOP
    usage: Usage = NO_USAGE
    model: str = ""
    id: str = ""
    raw_finish: str = ""
    continued: int = 0
    tier: str = ""

    @property
    def text(self) -> str:
        """The text parts, joined; reasoning is not text."""
        return "".join([part.text for part in self.parts if isinstance(part, Text)])

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in the order of the model."""
        return tuple([part for part in self.parts if isinstance(part, ToolCall)])

    @property
    def message(self) -> Message:
        """This reply as an entry of the history."""
        return Message("assistant", self.parts)
