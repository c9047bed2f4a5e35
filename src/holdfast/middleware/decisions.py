"""Decisions: what a hook may return instead of None, which means to continue.

A decision is data: the runtime carries it out, and an event records the result.

| decision | before_turn | before_iteration | after_reply | after_iteration | before_tools | before_tool | after_tool | on_error |
|---|---|---|---|---|---|---|---|---|
| Patch | the user's message, instructions | what the model sees | | | | | | |
| UseReply | | replaces the call | replaces the reply | | | | | |
| Replace | | | | | | replaces the run | replaces the result | |
| Deny | refuses the message | | | | no tool runs | the tool does not run | | |
| Stop | ends the turn | ends the turn | ends the turn | ends the turn | ends the turn | ends the turn | ends the turn | ends the turn |
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from holdfast.core.argument_checks import check_fields
from holdfast.core.messages import Message, Reply, Text, ToolCall, ToolResult
from holdfast.core.model_request import ModelSettings, ToolSpec


class UseReply(Struct, frozen=True):
    """Use this reply instead of the model's.

    Later hooks still run, and see it. The last decision wins.

    >>> UseReply("cached").as_reply().text
    'cached'
    """

    reply: Reply | Message | str

    def __post_init__(self) -> None:
        check_fields(self)

    def as_reply(self) -> Reply:
        """Return it as a `Reply`, whatever form it was given in."""
        if isinstance(self.reply, Reply):
            return self.reply
        if isinstance(self.reply, str):
            return Reply((Text(self.reply),))
        return Reply(self.reply.parts)


class Patch(Struct, frozen=True, kw_only=True):
    """Change what the model sees in this call. None keeps a part; the history itself stays.

    Args:
        messages: replace the history; in `before_turn`, the one message of the user.
        instructions: replace the instructions; in `before_turn`, for the whole turn.
        settings: replace the settings.
        tools: replace the tools that are offered.
    """

    messages: tuple[Message, ...] | None = None
    instructions: str | None = None
    settings: ModelSettings | None = None
    tools: tuple[ToolSpec, ...] | None = None

    def __post_init__(self) -> None:
        check_fields(self)


class Replace(Struct, frozen=True):
    """Give the model this result. Before the tool has run, the tool does not run.

    Later hooks still run. The last decision wins. A text that replaces the result of a failed tool
    stays marked as an error, so that the guards count the failure. To turn a failure into a success,
    give a `ToolResult`.
    """

    result: ToolResult | str

    def __post_init__(self) -> None:
        check_fields(self)

    def for_call(self, call: ToolCall, *, is_error: bool = False) -> ToolResult:
        """Return the result of `call`.

        Args:
            call: the call.
            is_error: whether a text is marked as an error; a `ToolResult` is used as it is.
        """
        if isinstance(self.result, ToolResult):
            return self.result
        return ToolResult(call.id, call.name, (Text(self.result),), is_error=is_error)


class Deny(Struct, frozen=True):
    """Refuse the operation; the model reads the reason word for word. No further hook runs.

    Args:
        reason: why.
        save_message: in `before_turn`, whether the refused message is saved in the journal. It is
            not sent to a model in any case.
    """

    reason: str
    save_message: bool = True

    def __post_init__(self) -> None:
        check_fields(self)


class Stop(Struct, frozen=True):
    """End the turn with the status STOPPED. No further hook runs.

    Args:
        reason: why, for programs and logs; `Result.stop_reason`.
        message: the final text of the turn, word for word.
    """

    reason: str
    message: str

    def __post_init__(self) -> None:
        check_fields(self)


Decision: TypeAlias = UseReply | Patch | Replace | Deny | Stop
"""What a hook may return; None means that the hook changes nothing."""
