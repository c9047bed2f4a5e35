"""The arguments of one call of `run`, checked before the turn starts.

Every mistake is a ConfigurationError that names the argument. This module must not start a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from holdfast.core.argument_checks import check_value
from holdfast.core.errors import ConfigurationError
from holdfast.core.limits import Limits
from holdfast.core.messages import Media, Message, Part, Text, user
from holdfast.core.outer_calls import OuterCall
from holdfast.core.transcript import Transcript
from holdfast.core.turn_options import TurnOptions
from holdfast.core.type_checks import compile_check
from holdfast.journal.journal_names import check_name
from holdfast.runtime.plan import AgentPlan
from holdfast.runtime.turn_state.plan_changes import NO_CHANGES, PlanChanges
from holdfast.sessions.names import check_session_name
from holdfast.tools.context import UsageSink

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
    """What the plan of this turn was compiled from."""
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


def to_message(prompt: object) -> Message:
    """Convert a prompt to a user message.

    Args:
        prompt: a `Prompt`; for anything else ConfigurationError is raised.

    >>> to_message("Hello").text
    'Hello'
    """
    if isinstance(prompt, Message):
        if prompt.role != "user" or not prompt.parts:
            raise ConfigurationError("prompt", "must be a user message with at least one part")
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
