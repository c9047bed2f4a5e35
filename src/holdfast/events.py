"""Events, which are saved in the journal, and notices, which are only streamed.

Nothing inside the package may import this module: it collects names for the users of the package.
"""

from __future__ import annotations

from holdfast import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.deltas import CharactersReplaced as CharactersReplaced
    from holdfast.core.deltas import HostedToolFinished as HostedToolFinished
    from holdfast.core.deltas import HostedToolStarted as HostedToolStarted
    from holdfast.core.deltas import ReasoningDelta as ReasoningDelta
    from holdfast.core.deltas import RefusalDelta as RefusalDelta
    from holdfast.core.deltas import TextDelta as TextDelta
    from holdfast.core.deltas import ToolCallDelta as ToolCallDelta
    from holdfast.core.events import DoubtChecked as DoubtChecked
    from holdfast.core.events import Event as Event
    from holdfast.core.events import FailedTarget as FailedTarget
    from holdfast.core.events import HistoryCompacted as HistoryCompacted
    from holdfast.core.events import LimitExtended as LimitExtended
    from holdfast.core.events import ModelFailed as ModelFailed
    from holdfast.core.events import ModelReplied as ModelReplied
    from holdfast.core.events import OutputChecked as OutputChecked
    from holdfast.core.events import QuestionAnswered as QuestionAnswered
    from holdfast.core.events import QuestionAsked as QuestionAsked
    from holdfast.core.events import QuestionUnanswered as QuestionUnanswered
    from holdfast.core.events import ResultsWithheld as ResultsWithheld
    from holdfast.core.events import SessionRewound as SessionRewound
    from holdfast.core.events import SessionTitled as SessionTitled
    from holdfast.core.events import Status as Status
    from holdfast.core.events import ToolFinished as ToolFinished
    from holdfast.core.events import ToolsBegun as ToolsBegun
    from holdfast.core.events import TurnAccepted as TurnAccepted
    from holdfast.core.events import TurnClosed as TurnClosed
    from holdfast.core.events import TurnInterrupted as TurnInterrupted
    from holdfast.core.events import TurnOpened as TurnOpened
    from holdfast.core.events import TurnResumed as TurnResumed
    from holdfast.core.events import TurnStopped as TurnStopped
    from holdfast.core.notices import AttemptAbandoned as AttemptAbandoned
    from holdfast.core.notices import AttemptStarted as AttemptStarted
    from holdfast.core.notices import BreakerChanged as BreakerChanged
    from holdfast.core.notices import CircuitBreakerTriggered as CircuitBreakerTriggered
    from holdfast.core.notices import CustomNotice as CustomNotice
    from holdfast.core.notices import DuplicateCall as DuplicateCall
    from holdfast.core.notices import FromAgent as FromAgent
    from holdfast.core.notices import MaxConsecutiveErrorsExceeded as MaxConsecutiveErrorsExceeded
    from holdfast.core.notices import Notice as Notice
    from holdfast.core.notices import OutputModeChanged as OutputModeChanged
    from holdfast.core.notices import PermissionRuleUnmatched as PermissionRuleUnmatched
    from holdfast.core.notices import ReplyReplaced as ReplyReplaced
    from holdfast.core.notices import RequestFormChanged as RequestFormChanged
    from holdfast.core.notices import RetryScheduled as RetryScheduled
    from holdfast.core.notices import ToolStarted as ToolStarted
    from holdfast.core.notices import TotalErrorThresholdExceeded as TotalErrorThresholdExceeded
    from holdfast.core.notices import TurnContinued as TurnContinued
    from holdfast.core.question_log import UnknownQuestion as UnknownQuestion
    from holdfast.telemetry.observers import EventObserver as EventObserver
    from holdfast.telemetry.observers import Observation as Observation
    from holdfast.telemetry.observers import ObservedAttempt as ObservedAttempt
    from holdfast.telemetry.observers import ObservedCall as ObservedCall
    from holdfast.telemetry.observers import ObservedTarget as ObservedTarget
    from holdfast.telemetry.observers import ObservedTool as ObservedTool
    from holdfast.telemetry.observers import ObservedTurn as ObservedTurn
    from holdfast.telemetry.observers import Observer as Observer

_HOME: dict[str, str] = {
    "AttemptAbandoned": "holdfast.core.notices",
    "AttemptStarted": "holdfast.core.notices",
    "BreakerChanged": "holdfast.core.notices",
    "CharactersReplaced": "holdfast.core.deltas",
    "CircuitBreakerTriggered": "holdfast.core.notices",
    "CustomNotice": "holdfast.core.notices",
    "DoubtChecked": "holdfast.core.events",
    "DuplicateCall": "holdfast.core.notices",
    "Event": "holdfast.core.events",
    "EventObserver": "holdfast.telemetry.observers",
    "FailedTarget": "holdfast.core.events",
    "FromAgent": "holdfast.core.notices",
    "HistoryCompacted": "holdfast.core.events",
    "HostedToolFinished": "holdfast.core.deltas",
    "HostedToolStarted": "holdfast.core.deltas",
    "LimitExtended": "holdfast.core.events",
    "MaxConsecutiveErrorsExceeded": "holdfast.core.notices",
    "ModelFailed": "holdfast.core.events",
    "ModelReplied": "holdfast.core.events",
    "Notice": "holdfast.core.notices",
    "Observation": "holdfast.telemetry.observers",
    "ObservedAttempt": "holdfast.telemetry.observers",
    "ObservedCall": "holdfast.telemetry.observers",
    "ObservedTarget": "holdfast.telemetry.observers",
    "ObservedTool": "holdfast.telemetry.observers",
    "ObservedTurn": "holdfast.telemetry.observers",
    "Observer": "holdfast.telemetry.observers",
    "OutputChecked": "holdfast.core.events",
    "OutputModeChanged": "holdfast.core.notices",
    "PermissionRuleUnmatched": "holdfast.core.notices",
    "QuestionAnswered": "holdfast.core.events",
    "QuestionAsked": "holdfast.core.events",
    "QuestionUnanswered": "holdfast.core.events",
    "ReasoningDelta": "holdfast.core.deltas",
    "RefusalDelta": "holdfast.core.deltas",
    "ReplyReplaced": "holdfast.core.notices",
    "RequestFormChanged": "holdfast.core.notices",
    "ResultsWithheld": "holdfast.core.events",
    "RetryScheduled": "holdfast.core.notices",
    "SessionRewound": "holdfast.core.events",
    "SessionTitled": "holdfast.core.events",
    "Status": "holdfast.core.events",
    "TextDelta": "holdfast.core.deltas",
    "ToolCallDelta": "holdfast.core.deltas",
    "ToolFinished": "holdfast.core.events",
    "ToolStarted": "holdfast.core.notices",
    "ToolsBegun": "holdfast.core.events",
    "TotalErrorThresholdExceeded": "holdfast.core.notices",
    "TurnAccepted": "holdfast.core.events",
    "TurnClosed": "holdfast.core.events",
    "TurnContinued": "holdfast.core.notices",
    "TurnInterrupted": "holdfast.core.events",
    "TurnOpened": "holdfast.core.events",
    "TurnResumed": "holdfast.core.events",
    "TurnStopped": "holdfast.core.events",
    "UnknownQuestion": "holdfast.core.question_log",
}
"""Public name -> the module that defines it. Sorted."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_names(globals(), _HOME)
