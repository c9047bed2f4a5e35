"""The phases of a session machine, the events that each allows, and its state as immutable values.

`core.machine` reads here whether an event may happen and which phase follows. The tables and the values are data: this
module must never call anything.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from holdfast.core import events as ev
from holdfast.core.error_info import ErrorInfo
from holdfast.core.events import Event, Status
from holdfast.core.limits import Limits
from holdfast.core.messages import Message, ToolResult, Usage
from holdfast.core.question_log import QuestionOutcome

SNAPSHOT_FORMAT = 2
"""The version of the fields of a snapshot and of the fold that computes them. Increase it when either
changes."""


class Phase(StrEnum):
    """The step that the machine waits for."""

    IDLE = "idle"
    OPENING = "opening"
    MODEL = "model"
    TOOLS = "tools"
    OUTPUT = "output"
    CLOSING = "closing"


TRANSITIONS: dict[Phase, dict[type[ev.Event], tuple[Phase, ...]]] = {
    Phase.IDLE: {
        ev.TurnOpened: (Phase.OPENING, Phase.MODEL),
        ev.SessionRewound: (Phase.IDLE,),
        ev.HistoryCompacted: (Phase.IDLE,),
        ev.SessionTitled: (Phase.IDLE,),
    },
    Phase.OPENING: {
        ev.TurnAccepted: (Phase.MODEL,),
        ev.QuestionAsked: (Phase.OPENING,),
        ev.QuestionAnswered: (Phase.OPENING,),
        ev.QuestionUnanswered: (Phase.OPENING,),
        ev.TurnResumed: (Phase.OPENING,),
        ev.TurnInterrupted: (Phase.CLOSING,),
        ev.TurnStopped: (Phase.CLOSING,),
    },
    Phase.MODEL: {
        ev.ModelReplied: (Phase.TOOLS, Phase.CLOSING, Phase.OUTPUT, Phase.MODEL),
        ev.ModelFailed: (Phase.CLOSING,),
        ev.ResultsWithheld: (Phase.MODEL,),
        ev.QuestionAsked: (Phase.MODEL,),
        ev.QuestionAnswered: (Phase.MODEL,),
        ev.QuestionUnanswered: (Phase.MODEL,),
        ev.TurnResumed: (Phase.MODEL,),
        ev.LimitExtended: (Phase.MODEL,),
        ev.TurnInterrupted: (Phase.CLOSING,),
        ev.TurnStopped: (Phase.CLOSING,),
    },
    Phase.TOOLS: {
        ev.ToolsBegun: (Phase.TOOLS,),
        ev.DoubtChecked: (Phase.TOOLS,),
        ev.ToolFinished: (Phase.TOOLS, Phase.CLOSING, Phase.MODEL),
        ev.QuestionAsked: (Phase.TOOLS,),
        ev.QuestionAnswered: (Phase.TOOLS,),
        ev.QuestionUnanswered: (Phase.TOOLS,),
        ev.TurnResumed: (Phase.TOOLS,),
        ev.TurnInterrupted: (Phase.CLOSING,),
        ev.TurnStopped: (Phase.CLOSING,),
    },
    Phase.OUTPUT: {
        ev.OutputChecked: (Phase.CLOSING, Phase.TOOLS, Phase.MODEL),
        ev.TurnInterrupted: (Phase.CLOSING,),
        ev.TurnStopped: (Phase.CLOSING,),
    },
    Phase.CLOSING: {
        ev.TurnClosed: (Phase.IDLE,),
        ev.QuestionAsked: (Phase.CLOSING,),
        ev.QuestionAnswered: (Phase.CLOSING,),
        ev.QuestionUnanswered: (Phase.CLOSING,),
        ev.TurnResumed: (Phase.CLOSING,),
    },
}
"""The events that each phase allows, and the phases that can follow. Any other event is an
IllegalEventError. The first phase that fits the state after the event follows, otherwise the last."""

ENDS_EFFECT = frozenset(
    {
        ev.ModelReplied,
        ev.ModelFailed,
        ev.ToolFinished,
        ev.OutputChecked,
        ev.TurnAccepted,
        ev.TurnClosed,
    }
)
"""The events that have the key of an effect, because they are its outcome."""


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
