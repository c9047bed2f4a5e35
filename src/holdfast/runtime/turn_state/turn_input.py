"""The arguments of one call of `run`, or of a method that continues a turn, checked before the turn starts.

Some change the plan: they stand in place of those of the agent, or besides them. Every mistake is a
ConfigurationError that names the argument. This module must not compile anything, or start a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from msgspec import Struct

from holdfast.core.argument_checks import check_value
from holdfast.core.client_tools import ClientTool
from holdfast.core.context_objects import OuterCall
from holdfast.core.errors import ConfigurationError
from holdfast.core.hosted_tools import HostedTool
from holdfast.core.limits import Limits
from holdfast.core.messages import Media, Message, Part, Text, user
from holdfast.core.transcript import Transcript
from holdfast.core.turn_options import TurnOptions
from holdfast.core.type_checks import compile_check
from holdfast.journal.journal_names import check_name
from holdfast.models.http_model import Model
from holdfast.models.resolve import ModelAt
from holdfast.runtime.plan import AgentPlan
from holdfast.sessions.names import check_session_name
from holdfast.tools.context import UsageSink
from holdfast.tools.tool import Tool
from holdfast.tools.toolset import Toolset

Prompt: TypeAlias = str | Message | Sequence[str | Text | Media]
"""The message of a user: a text, a `Message`, or a list of texts and media."""

# Compiled once: to make a type and to look up its check takes longer than the check.
_LIMITS_CHECK = compile_check(Limits | None)

_HISTORY_CHECK = compile_check(Sequence[Message])


class ParentCall(Struct, frozen=True):
    """The call of a subagent, as its turn sees it.

    Args:
        outer_calls: this call and the calls around it, the outermost first.
        meter: counts the tokens of the subagent for the caller; None with a budget of its own.
    """

    outer_calls: tuple[OuterCall, ...]
    meter: UsageSink | None


class PlanChanges(Struct, frozen=True, kw_only=True):
    """The values of one turn in place of those of its agent, or besides them; None or empty is nothing."""

    model: str | ModelAt | Model | None = None
    output: Any = None
    tools: tuple[Callable[..., object] | Tool | HostedTool | ClientTool, ...] = ()
    toolsets: tuple[Toolset, ...] = ()


NO_CHANGES = PlanChanges()
CHANGED_NAMES = PlanChanges.__struct_fields__


def read_changes(keywords: Mapping[str, Any]) -> PlanChanges:
    """Return the changes among the keywords of a method. Raises ConfigurationError."""
    given = {name: keywords[name] for name in CHANGED_NAMES if keywords.get(name) is not None}
    if not given:
        return NO_CHANGES
    if "tools" in given:
        check_value("tools", given["tools"], Iterable[object])
        given["tools"] = tuple(given["tools"])
    if "toolsets" in given:
        given["toolsets"] = check_toolsets(given["toolsets"])
    return PlanChanges(**given)


def check_toolsets(given: object) -> tuple[Toolset, ...]:
    """Return the toolsets. Raises ConfigurationError."""
    if given == ():
        return ()
    check_value("toolsets", given, Sequence[Toolset])
    return tuple(cast("Sequence[Toolset]", given))


class ContinuedTurn(Struct, frozen=True, kw_only=True):
    """The arguments that continue a turn; see `Agent.resume`."""

    run_id: str = ""
    deps: Any = None
    changes: PlanChanges = NO_CHANGES


def read_continued_turn(run_id: str, output: object, keywords: Mapping[str, Any]) -> ContinuedTurn:
    """Return the arguments of a method that continues a turn. Raises ConfigurationError."""
    if output is None and not keywords:
        return ContinuedTurn(run_id=run_id)
    changes = read_changes({"output": output, **keywords})
    return ContinuedTurn(run_id=run_id, deps=keywords.get("deps"), changes=changes)


class TurnInput(Struct, frozen=True, kw_only=True):
    """The arguments of one turn; see `Agent.run` for their meaning."""

    message: Message
    session: str | None = None
    history: Sequence[Message] = ()
    limits: Limits | None = None
    deps: object = None
    parent: ParentCall | None = None
    """The call of another agent, if this turn belongs to a subagent."""
    request: str | None = None
    plan: AgentPlan | None = None
    """The plan of this turn; None for the one of the agent."""
    changes: PlanChanges = NO_CHANGES
    """The changes from which the plan of this turn was compiled."""
    options: TurnOptions | None = None

    def __post_init__(self) -> None:
        if self.session is not None:
            check_session_name(self.session)
        if self.request is not None and not check_name("request", self.request).strip():
            raise ConfigurationError("request", "is empty", fix="Leave it out, or pass a key")
        if self.limits is not None:
            _LIMITS_CHECK.check("limits", self.limits)
        # The messages of a transcript are checked already.
        if type(self.history) is not Transcript and self.history != ():
            _HISTORY_CHECK.check("history", self.history)


BEGINNINGS = frozenset({"user", "system", "tool"})
"""The roles of messages that can begin a turn."""


def to_message(prompt: object) -> Message:
    """Convert a prompt to the message that begins a turn.

    It is a message of the user, or the end of a history that somebody else has kept: results of tools,
    or a message of the system.

    Args:
        prompt: a `Prompt`; for anything else ConfigurationError is raised.

    >>> to_message("Hello").text
    'Hello'
    """
    if isinstance(prompt, Message):
        if prompt.role not in BEGINNINGS or not prompt.parts:
            raise ConfigurationError(
                "prompt",
                "must be a message of the user, the system or tools with at least one part",
            )
        check_value("prompt.parts", prompt.parts, tuple[Part, ...])
        return prompt
    if isinstance(prompt, str) and prompt.strip():
        return Message("user", (Text(prompt),))
    if isinstance(prompt, bytes | Mapping) or not isinstance(prompt, Iterable):
        raise ConfigurationError(
            "prompt", f"must be a text, a Message or a list of parts, got {type(prompt).__name__}"
        )
    parts = (prompt,) if isinstance(prompt, str) else tuple(prompt)
    check_value("prompt", parts, tuple[str | Text | Media, ...])
    if not any(part.strip() if isinstance(part, str) else part for part in parts):
        raise ConfigurationError("prompt", "is empty", fix="Say something")
    return user(*parts)
