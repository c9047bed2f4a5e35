"""Notices: streamed and not saved, such as text deltas, attempts and retries.

A notice may be lost, repeated by another attempt, or never read, so a run must never depend on one.
A notice must never carry a secret: it holds an error in its public form only.
"""

from __future__ import annotations

from typing import TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from holdfast.core.deltas import (
    CharactersReplaced,
    HostedToolFinished,
    HostedToolStarted,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallDelta,
)
from holdfast.core.errors import ConfigurationError, ErrorInfo
from holdfast.core.events import Event

N = TypeVar("N", bound="Notice")


class TurnContinued(Struct, frozen=True, gc=False):
    """This process continues a turn that another drive has begun. `key` is that of the turn.

    An observer that did not see the `TurnOpened` learns of the turn here. `opened_at` is the time of its
    `TurnOpened`, in seconds since the epoch.
    """

    key: str
    opened_at: float


class AttemptStarted(Struct, frozen=True, gc=False):
    """Attempt `attempt` (from 1) of the effect `key` begins.

    `continues` means that it continues the text of the attempt before, which remains valid.
    """

    key: str
    attempt: int
    target: str = ""
    continues: bool = False


class AttemptAbandoned(Struct, frozen=True):
    """The attempt failed: discard everything that was streamed of it. Another attempt may follow.

    If the attempt continued others, discard the text of those too: all that belongs to this `key`.
    """

    key: str
    attempt: int
    error: ErrorInfo


class ReplyReplaced(Struct, frozen=True, gc=False):
    """The reply of the model call `key` was replaced: discard everything that was streamed of it.

    A hook gave another one, or the streamed arguments of a call turned out to be repeated. The new reply
    is streamed after it, and the `ModelReplied` that follows has the reply that counts.
    """

    key: str


class RetryScheduled(Struct, frozen=True):
    """Attempt `attempt` failed with `error`, and another one follows after `delay` seconds.

    `tool` is the name of the tool; it is empty for a model call.
    """

    key: str
    attempt: int
    max_retries: int
    delay: float
    error: ErrorInfo
    tool: str = ""


class OutputModeChanged(Struct, frozen=True):
    """The endpoint refused the way in which a typed output is requested, and is asked in another way.

    Args:
        key: the key of the model call.
        attempt: the attempt, from 1; the second request belongs to it too.
        target: the endpoint.
        before: the mode that was refused: "native" or "tool".
        after: the mode that follows: "tool" or "prompt".
        error: the refusal.
    """

    key: str
    attempt: int
    target: str
    before: str
    after: str
    error: ErrorInfo


class RequestFormChanged(Struct, frozen=True):
    """The endpoint refused a role or a field that its profile chose, and is asked in the next form of the same meaning.

    Args:
        key: the key of the model call.
        attempt: the attempt, from 1; the second request belongs to it too.
        target: the endpoint.
        field: the field of `EndpointProfile`, such as "system_role", or "stream".
        before: the word of the wire that was refused, such as "developer" or "stream_options"; "whole reply" if
            the endpoint wants streams again.
        after: the word that follows; "" if it is left out.
        error: the refusal.
    """

    key: str
    attempt: int
    target: str
    field: str
    before: str
    after: str
    error: ErrorInfo


class BreakerChanged(Struct, frozen=True, gc=False):
    """The circuit breaker of `target` changed its state; `seconds` says how long it stays open.

    The states are "closed", "open", "half_open", and "isolated" when it was opened by hand.
    """

    target: str
    before: str
    after: str
    seconds: float | None = None


class ToolStarted(Struct, frozen=True):
    """An attempt of a tool begins; it is number `attempt`, from 1.

    `arguments` are the arguments that the tool receives, as JSON text.
    """

    key: str
    name: str
    arguments: str
    attempt: int = 1


class DuplicateCall(Struct, frozen=True, gc=False):
    """The reply has the same call twice: the call `key` does not run for a second time.

    It gets the result of the call with the key `same_as`. `name` is the name of the tool.
    """

    key: str
    same_as: str
    name: str


class CircuitBreakerTriggered(Struct, frozen=True, gc=False):
    """The model repeats a call: call number `count` of the tool does not run, and the turn ends."""

    agent: str
    tool: str
    count: int
    iteration: int
    at: float


class MaxConsecutiveErrorsExceeded(Struct, frozen=True, gc=False):
    """Too many iterations in a row had an error, and the turn ends."""

    agent: str
    consecutive_errors: int
    max_consecutive_errors: int
    iteration: int
    at: float


class TotalErrorThresholdExceeded(Struct, frozen=True, gc=False):
    """Too many tools failed in this turn, and it ends."""

    agent: str
    total_errors: int
    max_total_errors: int
    iteration: int
    at: float


class PermissionRuleUnmatched(Struct, frozen=True, gc=False):
    """A rule of `ToolPermission` names a tool that the turn was never offered, so it matched no call.

    This is told of an agent with toolsets that list their tools before each model call; any other
    agent with such a rule cannot be made. `near` is the tool that was probably meant, or "".
    """

    key: str
    permission: str
    rule: str
    near: str = ""


class CustomNotice(Struct, frozen=True, kw_only=True):
    """The base class of notices of your own, which hooks and tools stream with `context.emit(...)`.

    Write your own notice as a frozen struct. `emit` sets the two fields that it inherits.

    Args:
        run_id: the id of the run, or the name of its session.
        key: the effect or turn that emitted the notice, such as `t1.i0.tool.2`: turn 1, iteration 0,
            third call of the reply.

    Raises:
        ConfigurationError: a subclass has a field `run_id` or `key` of its own.

    >>> class Progress(CustomNotice, frozen=True):
    ...     percent: int
    >>> Progress(50).percent
    50
    """

    run_id: str = ""
    key: str = ""

    def __init_subclass__(cls) -> None:
        taken = sorted({"run_id", "key"} & cls.__annotations__.keys())
        if taken:
            raise ConfigurationError(
                f"{cls.__name__}.{taken[0]}",
                "is a field of every CustomNotice, which the run sets",
                fix="Rename the field",
            )


class FromAgent(Struct, frozen=True):
    """An event or a notice of an agent that runs as a tool.

    Args:
        key: the key of the tool call in the run whose stream this is.
        chain: the names of the nested agents, from the one that was called first to the one that
            emitted the item.
        item: the event or notice; its key belongs to the run of that agent.
    """

    key: str
    chain: tuple[str, ...]
    item: Event | Notice


Notice: TypeAlias = (
    TurnContinued
    | TextDelta
    | ReasoningDelta
    | ToolCallDelta
    | RefusalDelta
    | CharactersReplaced
    | HostedToolStarted
    | HostedToolFinished
    | AttemptStarted
    | AttemptAbandoned
    | ReplyReplaced
    | RetryScheduled
    | OutputModeChanged
    | RequestFormChanged
    | BreakerChanged
    | ToolStarted
    | DuplicateCall
    | CircuitBreakerTriggered
    | MaxConsecutiveErrorsExceeded
    | TotalErrorThresholdExceeded
    | PermissionRuleUnmatched
    | FromAgent
    | CustomNotice
)
"""Everything that is shown while a run works and is not saved in the journal."""


def add_origin(notice: N, run_id: str, key: str) -> N:
    """Return a notice of a hook or a tool with the place where it was emitted.

    Args:
        notice: the notice. Only a `CustomNotice` has room for the place.
        run_id: the run.
        key: the effect or turn.

    Raises:
        ConfigurationError: the object is not a notice.
    """
    if isinstance(notice, CustomNotice):
        return msgspec.structs.replace(notice, run_id=run_id, key=key)
    given: object = notice
    if not isinstance(given, Notice):
        raise ConfigurationError(
            "notice",
            f"must be a CustomNotice, got {_describe_wrong_notice(given)}",
            fix="Write `class Progress(CustomNotice, frozen=True)` with your fields, and emit "
            "an object of it",
        )
    return notice


def _describe_wrong_notice(given: object) -> str:
    return f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__


def is_custom(notice: Event | Notice) -> bool:
    """Whether a hook or a tool emitted its own notice, here or in an agent that runs as a tool."""
    item = notice.item if isinstance(notice, FromAgent) else notice
    return isinstance(item, CustomNotice)
