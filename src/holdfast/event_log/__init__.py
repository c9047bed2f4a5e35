"""The event log of a session as its readers see it: the items of a stream, and positions in it.

The modules of this folder are pure: no clock, no network, no journal; `live/` reads the journal and what
is in progress. This room must never decide who may read, or how an item is sent.
"""

from __future__ import annotations

from holdfast import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.event_log.display.display_fold import DisplayFold as DisplayFold
    from holdfast.event_log.display.display_fold import show_records as show_records
    from holdfast.event_log.display.display_items import AgentStarted as AgentStarted
    from holdfast.event_log.display.display_items import AgentTextShown as AgentTextShown
    from holdfast.event_log.display.display_items import CallArgumentsShown as CallArgumentsShown
    from holdfast.event_log.display.display_items import CallReady as CallReady
    from holdfast.event_log.display.display_items import CallStarted as CallStarted
    from holdfast.event_log.display.display_items import DisplayItem as DisplayItem
    from holdfast.event_log.display.display_items import HostedCallShown as HostedCallShown
    from holdfast.event_log.display.display_items import MediaShown as MediaShown
    from holdfast.event_log.display.display_items import NoticeShown as NoticeShown
    from holdfast.event_log.display.display_items import QuestionClosed as QuestionClosed
    from holdfast.event_log.display.display_items import QuestionShown as QuestionShown
    from holdfast.event_log.display.display_items import ReasoningEnded as ReasoningEnded
    from holdfast.event_log.display.display_items import ReasoningShown as ReasoningShown
    from holdfast.event_log.display.display_items import ResultShown as ResultShown
    from holdfast.event_log.display.display_items import SourcesShown as SourcesShown
    from holdfast.event_log.display.display_items import StepFinished as StepFinished
    from holdfast.event_log.display.display_items import StepStarted as StepStarted
    from holdfast.event_log.display.display_items import StepWithdrawn as StepWithdrawn
    from holdfast.event_log.display.display_items import StreamCut as StreamCut
    from holdfast.event_log.display.display_items import TextEnded as TextEnded
    from holdfast.event_log.display.display_items import TextShown as TextShown
    from holdfast.event_log.display.display_items import TurnEnded as TurnEnded
    from holdfast.event_log.display.display_items import TurnWaits as TurnWaits
    from holdfast.event_log.display.display_items import UserShown as UserShown

_HOME: dict[str, str] = {
    "AgentStarted": "holdfast.event_log.display.display_items",
    "AgentTextShown": "holdfast.event_log.display.display_items",
    "CallArgumentsShown": "holdfast.event_log.display.display_items",
    "CallReady": "holdfast.event_log.display.display_items",
    "CallStarted": "holdfast.event_log.display.display_items",
    "DisplayFold": "holdfast.event_log.display.display_fold",
    "DisplayItem": "holdfast.event_log.display.display_items",
    "HostedCallShown": "holdfast.event_log.display.display_items",
    "MediaShown": "holdfast.event_log.display.display_items",
    "NoticeShown": "holdfast.event_log.display.display_items",
    "QuestionClosed": "holdfast.event_log.display.display_items",
    "QuestionShown": "holdfast.event_log.display.display_items",
    "ReasoningEnded": "holdfast.event_log.display.display_items",
    "ReasoningShown": "holdfast.event_log.display.display_items",
    "ResultShown": "holdfast.event_log.display.display_items",
    "SourcesShown": "holdfast.event_log.display.display_items",
    "StepFinished": "holdfast.event_log.display.display_items",
    "StepStarted": "holdfast.event_log.display.display_items",
    "StepWithdrawn": "holdfast.event_log.display.display_items",
    "StreamCut": "holdfast.event_log.display.display_items",
    "TextEnded": "holdfast.event_log.display.display_items",
    "TextShown": "holdfast.event_log.display.display_items",
    "TurnEnded": "holdfast.event_log.display.display_items",
    "TurnWaits": "holdfast.event_log.display.display_items",
    "UserShown": "holdfast.event_log.display.display_items",
    "show_records": "holdfast.event_log.display.display_fold",
}
"""Public name -> the module that defines it. Sorted."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_names(globals(), _HOME)
