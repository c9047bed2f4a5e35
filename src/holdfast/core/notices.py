"""Notices: what a run streams and does not save, such as text deltas, attempts and retries.

A notice may be lost, repeated by another attempt, or never read, so a run must never depend on one.
A notice must never carry a secret: it holds an error in its public form only.
"""

from __future__ import annotations

from typing import TypeAlias

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
from holdfast.core.errors import ErrorInfo
from holdfast.core.events import Event


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
    """A hook replaced the reply of the model call `key`: discard the text that was streamed of it.

    The `ModelReplied` that follows has the reply that counts.
    """

    key: str


class RetryScheduled(Struct, frozen=True):
    """Another attempt follows after `delay` seconds."""

    key: str
    attempt: int
    max_retries: int
    delay: float
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
    """A tool begins. `arguments` are the arguments that it receives, as JSON text."""

    key: str
    name: str
    arguments: str


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
    TextDelta
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
    | BreakerChanged
    | ToolStarted
    | CircuitBreakerTriggered
    | MaxConsecutiveErrorsExceeded
    | TotalErrorThresholdExceeded
    | FromAgent
)
"""Everything that is shown while a run works and is not saved in the journal."""
