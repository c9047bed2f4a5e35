"""Decisions: the values that a hook may return instead of None, which means to continue.

A decision is data: the runtime carries it out, and an event records the result.

| decision | before_turn | before_iteration | after_reply | after_iteration | before_tools | before_tool | after_tool | on_error |
|---|---|---|---|---|---|---|---|---|
| Patch | the user's message, instructions | the request of the model | | | | | | |
| UseReply | | replaces the call | replaces the reply | | | | | |
| CallTools | | calls tools, no model call | calls tools in place of the reply | | | | | |
| Replace | | | | | | replaces the run | replaces the result | |
| Deny | refuses the message | | | | no tool runs | the tool does not run | | |
| Stop | ends the turn | ends the turn | ends the turn | ends the turn | ends the turn | ends the turn | ends the turn | ends the turn |
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import TypeAlias

import msgspec
from msgspec import Struct

from holdfast.core.argument_checks import check_fields, check_value
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import (
    FinishReason,
    Message,
    Reply,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from holdfast.core.model_request import ModelSettings, ToolSpec

_NO_USAGE = Usage()
_CALLS_FORM = 'Write CallTools(("name", {"argument": value}), ...)'


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
        """Return it as a `Reply`, in whichever form it was given."""
        if isinstance(self.reply, Reply):
            return self.reply
        if isinstance(self.reply, str):
            return Reply((Text(self.reply),))
        return Reply(self.reply.parts)


class CallTools:
    """Call these tools of the agent from code. The model is not asked, or its reply is not used.

    The calls take an iteration and are treated like a model's: they have keys, are saved, validated,
    passed to the hooks, retried and recovered. The next iteration follows them, in which the model
    sees the calls with their results. They use no tokens; `ModelReplied.by` names the middleware.

    Later hooks still run, and see the calls as a reply. The last decision wins.

    Args:
        calls: for each call the name of the tool and its arguments, which JSON must express.

    Raises:
        ConfigurationError: there is no call, or one is not a name with arguments.

    >>> decision = CallTools(("send_link", {"to": "Ada"}), ("log_out", {}))
    >>> [(call.name, call.arguments) for call in decision.as_reply("r1", "t1.i0.model").calls]
    [('send_link', '{"to":"Ada"}'), ('log_out', '{}')]
    """

    __slots__ = ("_calls",)

    def __init__(self, *calls: tuple[str, Mapping[str, object]]) -> None:
        if not calls:
            raise ConfigurationError("CallTools", "has no call", fix=_CALLS_FORM)
        self._calls = tuple([_write_call(call) for call in calls])

    def as_reply(self, run_id: str, key: str, usage: Usage = _NO_USAGE) -> Reply:
        """Return the calls as a reply. Their ids are the same whenever the turn is resumed.

        Args:
            run_id: the run.
            key: the key of the model call that they replace.
            usage: the tokens of the reply that they replace.
        """
        digest = blake2b(f"{run_id} {key}".encode(), digest_size=8).hexdigest()
        calls = [
            ToolCall(f"code_{digest}_{index}", name, arguments)
            for index, (name, arguments) in enumerate(self._calls)
        ]
        return Reply(tuple(calls), finish=FinishReason.TOOL_CALLS, usage=usage)

    def __repr__(self) -> str:
        # Without the arguments, which may be personal data.
        return f"CallTools({', '.join(name for name, _ in self._calls)})"


def _write_call(call: object) -> tuple[str, str]:
    """Return the name of a tool and the text of its arguments. Raises ConfigurationError."""
    if not isinstance(call, tuple) or len(call) != 2:
        raise ConfigurationError("CallTools", "a call must be a pair", fix=_CALLS_FORM)
    name, arguments = call
    check_value("CallTools", name, str)
    if not isinstance(arguments, Mapping):
        problem = f"the arguments of {name!r} must be a mapping, got {type(arguments).__name__}"
        raise ConfigurationError("CallTools", problem, fix=_CALLS_FORM)
    try:
        return name, msgspec.json.encode(dict(arguments)).decode()
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"JSON cannot express the arguments of {name!r}"
        raise ConfigurationError("CallTools", problem, fix="Pass texts, numbers, lists") from error


class Patch(Struct, frozen=True, kw_only=True):
    """Change the request of this model call. None keeps a part; the history itself stays.

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

    def for_call(self, call: ToolCall, *, replaced: ToolResult | None = None) -> ToolResult:
        """Return the result of `call`.

        Args:
            call: the call.
            replaced: the result that a text replaces, whose outcome it keeps.
        """
        if isinstance(self.result, ToolResult):
            return self.result
        content = (Text(self.result),)
        if replaced is not None:
            return msgspec.structs.replace(replaced, content=content)
        return ToolResult(call.id, call.name, content)


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


Decision: TypeAlias = UseReply | CallTools | Patch | Replace | Deny | Stop
"""A value that a hook may return; None means that the hook changes nothing."""
