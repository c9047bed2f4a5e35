"""What is shown live and not kept: text as it comes, attempts, retries, tools at work.

Notices may be lost, repeated by another attempt, or never read; a run must never depend on one.
They must never carry a secret: errors appear in their public form only.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from holdfast.core.deltas import ReasoningDelta, RefusalDelta, TextDelta, ToolCallDelta
from holdfast.core.errors import ErrorInfo


class AttemptStarted(Struct, frozen=True, gc=False):
    """Attempt `attempt` (from 1) of the effect `key` begins."""

    key: str
    attempt: int
    target: str = ""


class AttemptAbandoned(Struct, frozen=True):
    """Forget everything shown of this attempt: it failed, and another may follow."""

    key: str
    attempt: int
    error: ErrorInfo


class RetryScheduled(Struct, frozen=True):
    """Another attempt follows after `delay` seconds (seed 000: FunctionRetryEvent)."""

    key: str
    attempt: int
    max_retries: int
    delay: float
    error: ErrorInfo


class BreakerChanged(Struct, frozen=True, gc=False):
    """The circuit breaker of `target` went from one state to another; open for `seconds`.

    The states are "closed", "open", "half_open", and "isolated" when somebody opened it by hand.
    """

    target: str
    before: str
    after: str
    seconds: float | None = None


class ToolStarted(Struct, frozen=True):
    """A tool begins; the arguments are those of the model, as text."""

    key: str
    name: str
    arguments: str


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
)
