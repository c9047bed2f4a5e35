"""What a hook may return: None to go on, or one of these. A closed union, never a flag.

A decision must never act: the runtime carries it out, and what came of it is in an event.

| decision | before_turn | before_iteration | after_reply | after_iteration | before_tools | before_tool | after_tool | on_error |
|---|---|---|---|---|---|---|---|---|
| Patch | what the user said, instructions | what the model sees | | | | | | |
| UseReply | | in place of the call | in place of the reply | | | | | |
| Replace | | | | | | in place of the run | in place of the result | |
| Deny | the message is refused | | | | no tool runs | it does not run | | |
| Stop | ends the turn | ends the turn | ends the turn | ends the turn | ends the turn | ends the turn | ends the turn | ends the turn |
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from holdfast.core.argument_checks import check_instance, check_text
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Message, Reply, Text, ToolCall, ToolResult
from holdfast.core.model_request import ModelSettings, ToolSpec


class UseReply(Struct, frozen=True):
    """Use this reply instead of the model's.

    The hooks after this one still run, and see it. The last one wins.

    >>> UseReply("cached").as_reply().text
    'cached'
    """

    reply: Reply | Message | str

    def __post_init__(self) -> None:
        check_instance("reply", self.reply, Reply, Message, str)

    def as_reply(self) -> Reply:
        """The reply, whatever form it was given in."""
        if isinstance(self.reply, Reply):
            return self.reply
        if isinstance(self.reply, str):
            return Reply((Text(self.reply),))
        return Reply(self.reply.parts)


class Patch(Struct, frozen=True, kw_only=True):
    """Change what the model sees at this call; None changes nothing. The history stays unchanged.

    Args:
        messages: in place of the history. In `before_turn`: what the user said, one message.
        instructions: in place of the instructions; in `before_turn`, for the whole turn.
        settings: in place of the settings.
        tools: in place of the tools that are offered.
    """

    messages: tuple[Message, ...] | None = None
    instructions: str | None = None
    settings: ModelSettings | None = None
    tools: tuple[ToolSpec, ...] | None = None

    def __post_init__(self) -> None:
        _check_all("messages", self.messages, Message)
        check_instance("instructions", self.instructions, str, optional=True)
        check_instance("settings", self.settings, ModelSettings, optional=True)
        _check_all("tools", self.tools, ToolSpec)


class Replace(Struct, frozen=True):
    """Give the model this result. Before the tool has run, it replaces the tool.

    The hooks after this one still run. The last one wins.
    """

    result: ToolResult | str

    def __post_init__(self) -> None:
        check_instance("result", self.result, ToolResult, str)

    def for_call(self, call: ToolCall) -> ToolResult:
        """The result as the answer to `call`."""
        if isinstance(self.result, ToolResult):
            return self.result
        return ToolResult(call.id, call.name, (Text(self.result),))


class Deny(Struct, frozen=True):
    """Refuse the operation; the model reads the reason. Ends the chain of hooks."""

    reason: str

    def __post_init__(self) -> None:
        check_text("reason", self.reason)


class Stop(Struct, frozen=True):
    """End the turn with the status STOPPED; ends the chain of hooks at once.

    Args:
        reason: why, for programs and logs; `Result.stop_reason`.
        message: the answer of the turn, word for word.
    """

    reason: str
    message: str

    def __post_init__(self) -> None:
        check_text("reason", self.reason)
        check_text("message", self.message)


Decision: TypeAlias = UseReply | Patch | Replace | Deny | Stop


def _check_all(argument: str, values: object, kind: type) -> None:
    """Raise ConfigurationError unless all of them are of that class."""
    if values is None:
        return
    check_instance(argument, values, tuple, list)
    for odd in set(map(type, values)) - {kind}:  # type: ignore[call-overload]  # a tuple or a list
        raise ConfigurationError(argument, f"must hold {kind.__name__}s, got {odd.__name__}")
