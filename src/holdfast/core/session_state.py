"""The state of a session machine as an immutable value, to compare, inspect and test it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from holdfast.core.error_info import ErrorInfo
from holdfast.core.events import Status
from holdfast.core.limits import Limits
from holdfast.core.messages import Message, ToolResult, Usage
from holdfast.core.question_log import QuestionOutcome


class Phase(StrEnum):
    """What the machine waits for."""

    IDLE = "idle"
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
