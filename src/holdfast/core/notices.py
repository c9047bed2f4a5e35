"""What is shown live and not kept: text as it comes, attempts, retries, tools at work.

Notices may be lost, repeated by another attempt, or never read; a run must never depend on one.
They must never carry a secret: errors appear in their public form only.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from holdfast.core.deltas import ReasoningDelta, RefusalDelta, TextDelta, ToolCallDelta
from holdfast.core.errors import ErrorInfo
from holdfast.core.events import Event


class AttemptStarted(Struct, frozen=True, gc=False):
    """Attempt `attempt` (from 1) of the effect `key` begins.

    `continues` says that it goes on with the text of the attempt before, which stays.
    """

    key: str
    attempt: int
    target: str = ""
    continues: bool = False


class AttemptAbandoned(Struct, frozen=True):
    """An attempt failed, and its text is void; another attempt may follow.

    An attempt that continues others has their text too: forget all that was shown of this `key`.
    """

    key: str
    attempt: int
    error: ErrorInfo


class RetryScheduled(Struct, frozen=True):
    """Another attempt follows after `delay` seconds."""

    key: str
    attempt: int
    max_retries: int
    delay: float
    error: ErrorInfo


class BreakerChanged(Struct, frozen=True, gc=False):
    """The circuit breaker of `target` changed its state; it stays open for `seconds`.

    The states are "closed", "open", "half_open", and "isolated" when somebody opened it by hand.
    """

    target: str
    before: str
    after: str
    seconds: float | None = None


class ToolStarted(Struct, frozen=True):
    """A tool begins; `arguments` are the arguments that it receives, as JSON text."""

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
    """An event or notice of an agent that is used as a tool.

    Args:
        key: the tool call, on the stream that this is read from, that the agent answers.
        chain: the agents between, by name: the one that was called first, the speaker last.
        item: what it showed; its key is one of the run of the speaker.
    """

    key: str
    chain: tuple[str, ...]
    item: Event | Notice


Notice: TypeAlias = (
    TextDelta
    | ReasoningDelta
    | ToolCallDelta
    | RefusalDelta
    | AttemptStarted
    | AttemptAbandoned
    | RetryScheduled
    | BreakerChanged
    | ToolStarted
    | CircuitBreakerTriggered
    | MaxConsecutiveErrorsExceeded
    | TotalErrorThresholdExceeded
    | FromAgent
)
