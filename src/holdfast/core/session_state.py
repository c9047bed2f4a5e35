"""What a machine knows, as a value: for comparing, inspecting and testing; never to be changed."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from holdfast.core.error_info import ErrorInfo
from holdfast.core.events import Status
from holdfast.core.limits import Limits
from holdfast.core.messages import Message, ToolResult, Usage
from holdfast.core.question_log import QuestionOutcome


class Phase(StrEnum):
    """What a run waits for."""

    IDLE = "idle"
    MODEL = "model"
    TOOLS = "tools"
    OUTPUT = "output"
    CLOSING = "closing"


class SessionState(Struct, frozen=True):
    """Everything that a machine knows, as one value."""

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
