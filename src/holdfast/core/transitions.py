"""The table of transitions: the events that each phase of a session allows, and the next phases.

`core.machine` reads from it whether an event may happen and which phase follows. This table is
data: it must never call anything.
"""

from __future__ import annotations

from holdfast.core import events as ev
from holdfast.core.session_state import Phase

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
