"""The replies of the emulated model: a list, or a function of the request.

A reply is removed from the list only when it was delivered completely, so that a client that retries
after a fault gets the same reply.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct

from holdfast.core.argument_checks import check_value
from holdfast.core.messages import FinishReason, Part, Reasoning, Reply, Text, ToolCall
from holdfast.testing.emulator.emulated_request import EmulatedRequest
from holdfast.testing.emulator.hosted_parts import Hosted, expand_hosted

ReplyLike: TypeAlias = Reply | str | Part | Hosted | Sequence[Part | Hosted | str]
"""A reply, or a short form of one: text, one part, or parts in order."""

Rule: TypeAlias = Callable[[EmulatedRequest], ReplyLike | Awaitable[ReplyLike]]
Replies: TypeAlias = Rule | Sequence[ReplyLike | Rule]


def call(name: str, arguments: dict[str, object] | None = None, *, id: str = "") -> ToolCall:  # noqa: A002
    """Make a tool call; without an id the emulator sets a unique one.

    >>> call("weather", {"city": "Porto"}).arguments
    '{"city":"Porto"}'
    """
    return ToolCall(id=id, name=name, arguments=msgspec.json.encode(arguments or {}).decode())


def thinking(text: str) -> Reasoning:
    """Make a reasoning part.

    >>> thinking("Porto is in Portugal.").text
    'Porto is in Portugal.'
    """
    return Reasoning(text)


def echo(request: EmulatedRequest) -> str:
    """Reply with the user's text; this is the default of `Emulator`.

    >>> echo(EmulatedRequest())
    'You said: '
    """
    return f"You said: {request.text}"


def as_reply(value: ReplyLike, number: int, wire: str = "") -> Reply:
    """Make a `Reply` from a short form, with an id for each tool call.

    Args:
        value: the reply or its short form.
        number: the number of the request, which is part of the ids.
        wire: the wire of the request, on which calls of the provider's own tools have their form.

    Raises:
        ConfigurationError: the value is not a reply, or the wire has no such part.
    """
    if isinstance(value, Reply):
        reply = value
    else:
        reply = Reply(parts=expand_hosted(_to_parts(value), wire, number))
    parts = tuple(
        msgspec.structs.replace(part, id=f"call_{number}_{index}")
        if isinstance(part, ToolCall) and not part.id
        else part
        for index, part in enumerate(reply.parts)
    )
    finish = reply.finish
    if finish is FinishReason.STOP and reply.calls:
        finish = FinishReason.TOOL_CALLS
    return msgspec.structs.replace(reply, parts=parts, finish=finish)


def _to_parts(
    value: str | Part | Hosted | Sequence[Part | Hosted | str],
) -> tuple[Part | Hosted, ...]:
    check_value("one of replies", value, ReplyLike)
    if isinstance(value, str | Struct):
        value = (value,)
    return tuple(Text(part) if isinstance(part, str) else part for part in value)


class Script:
    """Returns replies in order, each until it was delivered completely, or calls one function.

    Args:
        replies: a list of replies (and functions of the request), or one function.
    """

    def __init__(self, replies: Replies) -> None:
        self._rule = replies if callable(replies) else None
        self._remaining: list[ReplyLike | Rule] = [] if callable(replies) else list(replies)
        self._total = len(self._remaining)

    def next_turn(self) -> EmulatedTurn:
        """Return the next reply. Raises LookupError at the end of the list."""
        if self._rule is not None:
            return EmulatedTurn(self._rule, None)
        if not self._remaining:
            replies = "1 reply" if self._total == 1 else f"{self._total} replies"
            raise LookupError(f"the script has {replies}, and all were delivered")
        return EmulatedTurn(self._remaining.pop(0), self._remaining)


class EmulatedTurn:
    """One reply of a script."""

    __slots__ = ("_remaining", "_reply")

    def __init__(self, reply: ReplyLike | Rule, remaining: list[ReplyLike | Rule] | None) -> None:
        self._reply = reply
        self._remaining = remaining

    async def reply_to(self, request: EmulatedRequest) -> ReplyLike:
        """Return the reply to this request."""
        if not callable(self._reply):
            return self._reply
        reply = self._reply(request)
        return await reply if isinstance(reply, Awaitable) else reply

    def give_back(self) -> None:
        """Return an undelivered reply to the script, for the next request."""
        if self._remaining is not None:
            self._remaining.insert(0, self._reply)
            self._remaining = None
