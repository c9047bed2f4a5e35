"""The table of transitions: the events that each phase of a session allows, and the next phases.

This table is data: it must never call anything.
"""

from __future__ import annotations

from holdfast.core import events as ev
from holdfast.core.session_state import Phase

TRANSITIONS: dict[tuple[Phase, type[ev.Event]], tuple[Phase, ...]] = {
    (Phase.IDLE, ev.TurnOpened): (Phase.MODEL,),
    (Phase.IDLE, ev.SessionRewound): (Phase.IDLE,),
    (Phase.IDLE, ev.HistoryCompacted): (Phase.IDLE,),
    (Phase.IDLE, ev.SessionTitled): (Phase.IDLE,),
    (Phase.MODEL, ev.ModelReplied): (Phase.TOOLS, Phase.OUTPUT, Phase.MODEL, Phase.CLOSING),
    (Phase.MODEL, ev.ModelFailed): (Phase.CLOSING,),
    (Phase.MODEL, ev.QuestionAsked): (Phase.MODEL,),
    (Phase.MODEL, ev.QuestionAnswered): (Phase.MODEL,),
    (Phase.MODEL, ev.QuestionUnanswered): (Phase.MODEL,),
    (Phase.MODEL, ev.TurnResumed): (Phase.MODEL,),
    (Phase.MODEL, ev.LimitExtended): (Phase.MODEL,),
    (Phase.MODEL, ev.TurnInterrupted): (Phase.CLOSING,),
    (Phase.MODEL, ev.TurnStopped): (Phase.CLOSING,),
    (Phase.TOOLS, ev.ToolsBegun): (Phase.TOOLS,),
    (Phase.TOOLS, ev.ToolFinished): (Phase.TOOLS, Phase.MODEL, Phase.CLOSING),
    (Phase.TOOLS, ev.QuestionAsked): (Phase.TOOLS,),
    (Phase.TOOLS, ev.QuestionAnswered): (Phase.TOOLS,),
    (Phase.TOOLS, ev.QuestionUnanswered): (Phase.TOOLS,),
    (Phase.TOOLS, ev.TurnResumed): (Phase.TOOLS,),
    (Phase.TOOLS, ev.TurnInterrupted): (Phase.CLOSING,),
    (Phase.TOOLS, ev.TurnStopped): (Phase.CLOSING,),
    (Phase.OUTPUT, ev.OutputChecked): (Phase.MODEL, Phase.CLOSING),
    (Phase.OUTPUT, ev.TurnInterrupted): (Phase.CLOSING,),
    (Phase.OUTPUT, ev.TurnStopped): (Phase.CLOSING,),
    (Phase.CLOSING, ev.TurnClosed): (Phase.IDLE,),
}
"""The events that each phase allows, and the phases that can follow. Any other is an
IllegalEventError."""

# Keyed by event alone: hashing an enum for each event is slow.
PHASES: dict[type[ev.Event], tuple[Phase, ...]] = {
    kind: tuple(phase for phase, other in TRANSITIONS if other is kind) for _, kind in TRANSITIONS
}
