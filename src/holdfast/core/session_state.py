"""The state of a session machine as immutable values: to compare and inspect it, and to save it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from holdfast.core.error_info import ErrorInfo
from holdfast.core.events import Event, Status
from holdfast.core.limits import Limits
from holdfast.core.messages import Message, ToolResult, Usage
from holdfast.core.question_log import QuestionOutcome

SNAPSHOT_FORMAT = 2
"""The version of the fields of a snapshot and of the fold that computes them. Increase it when either
changes."""


class Phase(StrEnum):
    """What the machine waits for."""

    IDLE = "idle"
    OPENING = "opening"
    MODEL = "model"
    TOOLS = "tools"
    OUTPUT = "output"
    CLOSING = "closing"


class SessionState(Struct, frozen=True):
    """The whole state of a machine."""

    phase: Phase
    turn: int
    iteration: int
    messages: tuple[Message, ...]
    results: tuple[tuple[int, ToolResult], ...]
    usage: Usage
    tools_run: int
    status: Status
    error: ErrorInfo | None
    output: object
    limits: Limits
    questions: tuple[tuple[str, QuestionOutcome], ...]


class SessionSnapshot(Struct, frozen=True):
    """The state of a machine that waits for its next turn, so that a long session opens quickly.

    A snapshot is only a shortcut: replaying the records before it gives the same state, and a
    snapshot that does not match is discarded. It must never hold anything that is not in those
    records.

    Args:
        turn: the number of the latest turn or change.
        event_count: the number of records that were applied.
        last_event: the last of them.
        messages: the history.
        lengths: the length of the history after each turn or change.
        replaced_histories: histories that a change replaced, each with the number of that change.
        answered: how many messages were in the last request that a model answered.
    """

    turn: int
    event_count: int
    last_event: Event
    messages: tuple[Message, ...]
    lengths: tuple[int, ...]
    replaced_histories: tuple[tuple[int, tuple[Message, ...]], ...]
    answered: int
