"""The table of transitions: the events that each phase of a session allows, and the next phases.

`core.machine` reads from it whether an event may happen and which phase follows. This table is
data: it must never call anything.
"""

from __future__ import annotations

from holdfast.core import events as ev
from holdfast.core.session_state import Phase

TRANSITIONS: dict[tuple[Phase, type[ev.Event]], tuple[Phase, ...]] = {
    (Phase.IDLE, ev.TurnOpened): (Phase.MODEL,),
    (Phase.IDLE, ev.SessionRewound): (Phase.IDLE,),
    (Phase.IDLE, ev.HistoryCompacted): (Phase.IDLE,),
    (Phase.IDLE, ev.SessionTitled): (Phase.IDLE,),
    (Phase.MODEL, ev.ModelReplied): (Phase.CLOSING, Phase.TOOLS, Phase.OUTPUT, Phase.MODEL),
    (Phase.MODEL, ev.ModelFailed): (Phase.CLOSING,),
    (Phase.MODEL, ev.QuestionAsked): (Phase.MODEL,),
    (Phase.MODEL, ev.QuestionAnswered): (Phase.MODEL,),
    (Phase.MODEL, ev.QuestionUnanswered): (Phase.MODEL,),
    (Phase.MODEL, ev.TurnResumed): (Phase.MODEL,),
    (Phase.MODEL, ev.LimitExtended): (Phase.MODEL,),
    (Phase.MODEL, ev.TurnInterrupted): (Phase.CLOSING,),
    (Phase.MODEL, ev.TurnStopped): (Phase.CLOSING,),
    (Phase.TOOLS, ev.ToolsBegun): (Phase.TOOLS,),
    (Phase.TOOLS, ev.ToolFinished): (Phase.CLOSING, Phase.TOOLS, Phase.MODEL),
    (Phase.TOOLS, ev.QuestionAsked): (Phase.TOOLS,),
    (Phase.TOOLS, ev.QuestionAnswered): (Phase.TOOLS,),
    (Phase.TOOLS, ev.QuestionUnanswered): (Phase.TOOLS,),
    (Phase.TOOLS, ev.TurnResumed): (Phase.TOOLS,),
    (Phase.TOOLS, ev.TurnInterrupted): (Phase.CLOSING,),
    (Phase.TOOLS, ev.TurnStopped): (Phase.CLOSING,),
    (Phase.OUTPUT, ev.OutputChecked): (Phase.CLOSING, Phase.MODEL),
    (Phase.OUTPUT, ev.TurnInterrupted): (Phase.CLOSING,),
    (Phase.OUTPUT, ev.TurnStopped): (Phase.CLOSING,),
    (Phase.CLOSING, ev.TurnClosed): (Phase.IDLE,),
}
"""The events that each phase allows, and the phases that can follow. Any other event is an
IllegalEventError. The first phase that fits the state after the event is entered."""
