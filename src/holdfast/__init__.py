"""The public names of Holdfast, a runtime for LLM agents that keep working when things fail.

This module must not import anything until a name is asked for: `import holdfast` costs a dictionary.
A public name has one row in `_HOME` and one import under TYPE_CHECKING; the tests compare the two.

>>> import holdfast
>>> holdfast.__version__
'0.1.0'
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.agent import Agent as Agent
    from holdfast.calls.exception_rules import retry_on as retry_on
    from holdfast.calls.guard import Guard as Guard
    from holdfast.calls.guard import execute as execute
    from holdfast.calls.guard import resilient as resilient
    from holdfast.calls.response_handler import ResponseChunk as ResponseChunk
    from holdfast.calls.response_handler import ResponseHandler as ResponseHandler
    from holdfast.calls.sdk_errors import classify as classify
    from holdfast.calls.send import asend_message as asend_message
    from holdfast.calls.send import asend_message_streaming as asend_message_streaming
    from holdfast.calls.send import send_message as send_message
    from holdfast.calls.send import send_message_streaming as send_message_streaming
    from holdfast.compat.agent_builder import AgentBuilder as AgentBuilder
    from holdfast.compat.ai_call import CallOptions as CallOptions
    from holdfast.compat.ai_call import (
        async_retry_ai_call_with_parsing as async_retry_ai_call_with_parsing,
    )
    from holdfast.compat.ai_call import (
        async_retry_rereg_ai_call_with_parsing as async_retry_rereg_ai_call_with_parsing,
    )
    from holdfast.compat.ai_call import retry_ai_call_with_parsing as retry_ai_call_with_parsing
    from holdfast.compat.ai_call import (
        retry_rereg_ai_call_with_parsing as retry_rereg_ai_call_with_parsing,
    )
    from holdfast.compat.call_config import get_retry_config as get_retry_config
    from holdfast.compat.function_retry_executor import (
        FunctionRetryExecutor as FunctionRetryExecutor,
    )
    from holdfast.core.deltas import ReasoningDelta as ReasoningDelta
    from holdfast.core.deltas import TextDelta as TextDelta
    from holdfast.core.errors import AnswerTypeError as AnswerTypeError
    from holdfast.core.errors import ConfigurationError as ConfigurationError
    from holdfast.core.errors import ConflictError as ConflictError
    from holdfast.core.errors import EmptyResponseError as EmptyResponseError
    from holdfast.core.errors import ErrorCategory as ErrorCategory
    from holdfast.core.errors import ErrorInfo as ErrorInfo
    from holdfast.core.errors import FilteredError as FilteredError
    from holdfast.core.errors import HoldfastBug as HoldfastBug
    from holdfast.core.errors import HoldfastError as HoldfastError
    from holdfast.core.errors import InvalidStructureError as InvalidStructureError
    from holdfast.core.errors import Landed as Landed
    from holdfast.core.errors import LimitError as LimitError
    from holdfast.core.errors import MiddlewareError as MiddlewareError
    from holdfast.core.errors import MissingAttributeError as MissingAttributeError
    from holdfast.core.errors import NoCandidatesError as NoCandidatesError
    from holdfast.core.errors import NoTextError as NoTextError
    from holdfast.core.errors import NoToolActivityError as NoToolActivityError
    from holdfast.core.errors import OutputError as OutputError
    from holdfast.core.errors import ProviderError as ProviderError
    from holdfast.core.errors import RefusedError as RefusedError
    from holdfast.core.errors import ResponseError as ResponseError
    from holdfast.core.errors import ResponseValidationError as ResponseValidationError
    from holdfast.core.errors import SessionBusyError as SessionBusyError
    from holdfast.core.errors import StoppedError as StoppedError
    from holdfast.core.errors import ToolExecutionError as ToolExecutionError
    from holdfast.core.errors import ToolFailedError as ToolFailedError
    from holdfast.core.errors import ToolNotFoundError as ToolNotFoundError
    from holdfast.core.errors import TransportError as TransportError
    from holdfast.core.errors import TruncatedError as TruncatedError
    from holdfast.core.errors import TruncatedOutputError as TruncatedOutputError
    from holdfast.core.errors import UnansweredError as UnansweredError
    from holdfast.core.errors import UnexpectedTypeError as UnexpectedTypeError
    from holdfast.core.errors import UnterminatedError as UnterminatedError
    from holdfast.core.errors import WaitingError as WaitingError
    from holdfast.core.errors import explain as explain
    from holdfast.core.events import Event as Event
    from holdfast.core.events import FailedTarget as FailedTarget
    from holdfast.core.events import HistoryCompacted as HistoryCompacted
    from holdfast.core.events import LimitExtended as LimitExtended
    from holdfast.core.events import ModelReplied as ModelReplied
    from holdfast.core.events import OutputChecked as OutputChecked
    from holdfast.core.events import QuestionAnswered as QuestionAnswered
    from holdfast.core.events import QuestionAsked as QuestionAsked
    from holdfast.core.events import QuestionUnanswered as QuestionUnanswered
    from holdfast.core.events import SessionRewound as SessionRewound
    from holdfast.core.events import Status as Status
    from holdfast.core.events import ToolFinished as ToolFinished
    from holdfast.core.events import TurnClosed as TurnClosed
    from holdfast.core.events import TurnOpened as TurnOpened
    from holdfast.core.events import TurnResumed as TurnResumed
    from holdfast.core.events import TurnStopped as TurnStopped
    from holdfast.core.limits import Limits as Limits
    from holdfast.core.messages import FinishReason as FinishReason
    from holdfast.core.messages import Media as Media
    from holdfast.core.messages import Message as Message
    from holdfast.core.messages import Reply as Reply
    from holdfast.core.messages import Text as Text
    from holdfast.core.messages import Usage as Usage
    from holdfast.core.messages import assistant as assistant
    from holdfast.core.messages import user as user
    from holdfast.core.model_request import ModelSettings as ModelSettings
    from holdfast.core.notices import AttemptAbandoned as AttemptAbandoned
    from holdfast.core.notices import AttemptStarted as AttemptStarted
    from holdfast.core.notices import BreakerChanged as BreakerChanged
    from holdfast.core.notices import CircuitBreakerTriggered as CircuitBreakerTriggered
    from holdfast.core.notices import FromAgent as FromAgent
    from holdfast.core.notices import MaxConsecutiveErrorsExceeded as MaxConsecutiveErrorsExceeded
    from holdfast.core.notices import Notice as Notice
    from holdfast.core.notices import RetryScheduled as RetryScheduled
    from holdfast.core.notices import ToolStarted as ToolStarted
    from holdfast.core.notices import TotalErrorThresholdExceeded as TotalErrorThresholdExceeded
    from holdfast.core.output import OutputRejected as OutputRejected
    from holdfast.core.problems import Problem as Problem
    from holdfast.core.questions import Answer as Answer
    from holdfast.core.questions import Approved as Approved
    from holdfast.core.questions import ClarificationQuestion as ClarificationQuestion
    from holdfast.core.questions import ContinuationQuestion as ContinuationQuestion
    from holdfast.core.questions import Continued as Continued
    from holdfast.core.questions import Denied as Denied
    from holdfast.core.questions import PermissionQuestion as PermissionQuestion
    from holdfast.core.questions import Question as Question
    from holdfast.core.recorded_questions import UnknownQuestion as UnknownQuestion
    from holdfast.journal.journal_errors import JournalError as JournalError
    from holdfast.journal.journal_errors import LeaseLostError as LeaseLostError
    from holdfast.journal.memory import MemoryJournal as MemoryJournal
    from holdfast.journal.postgres import PostgresJournal as PostgresJournal
    from holdfast.journal.sqlite import SqliteJournal as SqliteJournal
    from holdfast.middleware.continuation_permission import (
        ContinuationPermission as ContinuationPermission,
    )
    from holdfast.middleware.decisions import Deny as Deny
    from holdfast.middleware.decisions import Patch as Patch
    from holdfast.middleware.decisions import Replace as Replace
    from holdfast.middleware.decisions import Stop as Stop
    from holdfast.middleware.decisions import UseReply as UseReply
    from holdfast.middleware.error_formatting import ErrorFormatting as ErrorFormatting
    from holdfast.middleware.error_handling import (
        error_handling_middlewares as error_handling_middlewares,
    )
    from holdfast.middleware.error_tracking import ErrorTracking as ErrorTracking
    from holdfast.middleware.function_retry import FunctionRetry as FunctionRetry
    from holdfast.middleware.function_timeout import FunctionTimeout as FunctionTimeout
    from holdfast.middleware.guidance import Guidance as Guidance
    from holdfast.middleware.history_reduction import HistoryReduction as HistoryReduction
    from holdfast.middleware.hooks import Middleware as Middleware
    from holdfast.middleware.iteration_cache import IterationCache as IterationCache
    from holdfast.middleware.iteration_logging import IterationLogging as IterationLogging
    from holdfast.middleware.pii_protection import PIIProtection as PIIProtection
    from holdfast.middleware.repetition_guard import RepetitionGuard as RepetitionGuard
    from holdfast.middleware.tool_permission import Rule as Rule
    from holdfast.middleware.tool_permission import ToolPermission as ToolPermission
    from holdfast.middleware.total_error_threshold import TotalErrorThreshold as TotalErrorThreshold
    from holdfast.middleware.usage_limits import UsageLimits as UsageLimits
    from holdfast.models.resolve import ModelAt as ModelAt
    from holdfast.resilience.breaker import BreakerOptions as BreakerOptions
    from holdfast.resilience.budget import BudgetOptions as BudgetOptions
    from holdfast.resilience.cache import CacheOptions as CacheOptions
    from holdfast.resilience.circuit import BreakerOpenError as BreakerOpenError
    from holdfast.resilience.defaults import Resilience as Resilience
    from holdfast.resilience.handling import DEFER as DEFER
    from holdfast.resilience.handling import RetryOptions as RetryOptions
    from holdfast.resilience.hedge import HedgeOptions as HedgeOptions
    from holdfast.resilience.limiter import LimiterOptions as LimiterOptions
    from holdfast.resilience.metrics import CallMetrics as CallMetrics
    from holdfast.runtime.output.structured_output import OutputContext as OutputContext
    from holdfast.runtime.output.structured_output import StructuredOutput as StructuredOutput
    from holdfast.runtime.recovery import RecoveredRun as RecoveredRun
    from holdfast.runtime.recovery import RecoveryStatus as RecoveryStatus
    from holdfast.runtime.result import Result as Result
    from holdfast.runtime.run_stream import RunStream as RunStream
    from holdfast.sessions.overview import SessionInfo as SessionInfo
    from holdfast.sessions.sessions import Sessions as Sessions
    from holdfast.skills.collection import Skills as Skills
    from holdfast.skills.middleware import SkillInstructions as SkillInstructions
    from holdfast.skills.skill import Skill as Skill
    from holdfast.skills.skill_limits import SkillLimits as SkillLimits
    from holdfast.telemetry.observers import Observation as Observation
    from holdfast.telemetry.observers import Observer as Observer
    from holdfast.tools.context import ToolContext as ToolContext
    from holdfast.tools.current import current_tool_call as current_tool_call
    from holdfast.tools.tool import Tool as Tool
    from holdfast.tools.tool import tool as tool
    from holdfast.tools.tool_failures import ToolError as ToolError
    from holdfast.transport.port import Timeouts as Timeouts

__version__ = "0.1.0"

_HOME: dict[str, str] = {
    "Agent": "holdfast.agent",
    "AgentBuilder": "holdfast.compat.agent_builder",
    "Answer": "holdfast.core.questions",
    "AnswerTypeError": "holdfast.core.errors",
    "Approved": "holdfast.core.questions",
    "AttemptAbandoned": "holdfast.core.notices",
    "AttemptStarted": "holdfast.core.notices",
    "BreakerChanged": "holdfast.core.notices",
    "BreakerOpenError": "holdfast.resilience.circuit",
    "BreakerOptions": "holdfast.resilience.breaker",
    "BudgetOptions": "holdfast.resilience.budget",
    "CacheOptions": "holdfast.resilience.cache",
    "CallMetrics": "holdfast.resilience.metrics",
    "CallOptions": "holdfast.compat.ai_call",
    "CircuitBreakerTriggered": "holdfast.core.notices",
    "ClarificationQuestion": "holdfast.core.questions",
    "ConfigurationError": "holdfast.core.errors",
    "ConflictError": "holdfast.core.errors",
    "ContinuationPermission": "holdfast.middleware.continuation_permission",
    "ContinuationQuestion": "holdfast.core.questions",
    "Continued": "holdfast.core.questions",
    "DEFER": "holdfast.resilience.handling",
    "Denied": "holdfast.core.questions",
    "Deny": "holdfast.middleware.decisions",
    "EmptyResponseError": "holdfast.core.errors",
    "ErrorCategory": "holdfast.core.errors",
    "ErrorFormatting": "holdfast.middleware.error_formatting",
    "ErrorInfo": "holdfast.core.errors",
    "ErrorTracking": "holdfast.middleware.error_tracking",
    "Event": "holdfast.core.events",
    "FailedTarget": "holdfast.core.events",
    "FilteredError": "holdfast.core.errors",
    "FinishReason": "holdfast.core.messages",
    "FromAgent": "holdfast.core.notices",
    "FunctionRetry": "holdfast.middleware.function_retry",
    "FunctionRetryExecutor": "holdfast.compat.function_retry_executor",
    "FunctionTimeout": "holdfast.middleware.function_timeout",
    "Guard": "holdfast.calls.guard",
    "Guidance": "holdfast.middleware.guidance",
    "HedgeOptions": "holdfast.resilience.hedge",
    "HistoryCompacted": "holdfast.core.events",
    "HistoryReduction": "holdfast.middleware.history_reduction",
    "HoldfastBug": "holdfast.core.errors",
    "HoldfastError": "holdfast.core.errors",
    "InvalidStructureError": "holdfast.core.errors",
    "IterationCache": "holdfast.middleware.iteration_cache",
    "IterationLogging": "holdfast.middleware.iteration_logging",
    "JournalError": "holdfast.journal.journal_errors",
    "Landed": "holdfast.core.errors",
    "LeaseLostError": "holdfast.journal.journal_errors",
    "LimitError": "holdfast.core.errors",
    "LimitExtended": "holdfast.core.events",
    "LimiterOptions": "holdfast.resilience.limiter",
    "Limits": "holdfast.core.limits",
    "MaxConsecutiveErrorsExceeded": "holdfast.core.notices",
    "Media": "holdfast.core.messages",
    "MemoryJournal": "holdfast.journal.memory",
    "Message": "holdfast.core.messages",
    "Middleware": "holdfast.middleware.hooks",
    "MiddlewareError": "holdfast.core.errors",
    "MissingAttributeError": "holdfast.core.errors",
    "ModelAt": "holdfast.models.resolve",
    "ModelReplied": "holdfast.core.events",
    "ModelSettings": "holdfast.core.model_request",
    "NoCandidatesError": "holdfast.core.errors",
    "NoTextError": "holdfast.core.errors",
    "NoToolActivityError": "holdfast.core.errors",
    "Notice": "holdfast.core.notices",
    "Observation": "holdfast.telemetry.observers",
    "Observer": "holdfast.telemetry.observers",
    "OutputChecked": "holdfast.core.events",
    "OutputContext": "holdfast.runtime.output.structured_output",
    "OutputError": "holdfast.core.errors",
    "OutputRejected": "holdfast.core.output",
    "PIIProtection": "holdfast.middleware.pii_protection",
    "Patch": "holdfast.middleware.decisions",
    "PermissionQuestion": "holdfast.core.questions",
    "PostgresJournal": "holdfast.journal.postgres",
    "Problem": "holdfast.core.problems",
    "ProviderError": "holdfast.core.errors",
    "Question": "holdfast.core.questions",
    "QuestionAnswered": "holdfast.core.events",
    "QuestionAsked": "holdfast.core.events",
    "QuestionUnanswered": "holdfast.core.events",
    "ReasoningDelta": "holdfast.core.deltas",
    "RecoveredRun": "holdfast.runtime.recovery",
    "RecoveryStatus": "holdfast.runtime.recovery",
    "RefusedError": "holdfast.core.errors",
    "RepetitionGuard": "holdfast.middleware.repetition_guard",
    "Replace": "holdfast.middleware.decisions",
    "Reply": "holdfast.core.messages",
    "Resilience": "holdfast.resilience.defaults",
    "ResponseChunk": "holdfast.calls.response_handler",
    "ResponseError": "holdfast.core.errors",
    "ResponseHandler": "holdfast.calls.response_handler",
    "ResponseValidationError": "holdfast.core.errors",
    "Result": "holdfast.runtime.result",
    "RetryOptions": "holdfast.resilience.handling",
    "RetryScheduled": "holdfast.core.notices",
    "Rule": "holdfast.middleware.tool_permission",
    "RunStream": "holdfast.runtime.run_stream",
    "SessionBusyError": "holdfast.core.errors",
    "SessionInfo": "holdfast.sessions.overview",
    "SessionRewound": "holdfast.core.events",
    "Sessions": "holdfast.sessions.sessions",
    "Skill": "holdfast.skills.skill",
    "SkillInstructions": "holdfast.skills.middleware",
    "SkillLimits": "holdfast.skills.skill_limits",
    "Skills": "holdfast.skills.collection",
    "SqliteJournal": "holdfast.journal.sqlite",
    "Status": "holdfast.core.events",
    "Stop": "holdfast.middleware.decisions",
    "StoppedError": "holdfast.core.errors",
    "StructuredOutput": "holdfast.runtime.output.structured_output",
    "Text": "holdfast.core.messages",
    "TextDelta": "holdfast.core.deltas",
    "Timeouts": "holdfast.transport.port",
    "Tool": "holdfast.tools.tool",
    "ToolContext": "holdfast.tools.context",
    "ToolError": "holdfast.tools.tool_failures",
    "ToolExecutionError": "holdfast.core.errors",
    "ToolFailedError": "holdfast.core.errors",
    "ToolFinished": "holdfast.core.events",
    "ToolNotFoundError": "holdfast.core.errors",
    "ToolPermission": "holdfast.middleware.tool_permission",
    "ToolStarted": "holdfast.core.notices",
    "TotalErrorThreshold": "holdfast.middleware.total_error_threshold",
    "TotalErrorThresholdExceeded": "holdfast.core.notices",
    "TransportError": "holdfast.core.errors",
    "TruncatedError": "holdfast.core.errors",
    "TruncatedOutputError": "holdfast.core.errors",
    "TurnClosed": "holdfast.core.events",
    "TurnOpened": "holdfast.core.events",
    "TurnResumed": "holdfast.core.events",
    "TurnStopped": "holdfast.core.events",
    "UnansweredError": "holdfast.core.errors",
    "UnexpectedTypeError": "holdfast.core.errors",
    "UnknownQuestion": "holdfast.core.recorded_questions",
    "UnterminatedError": "holdfast.core.errors",
    "Usage": "holdfast.core.messages",
    "UsageLimits": "holdfast.middleware.usage_limits",
    "UseReply": "holdfast.middleware.decisions",
    "WaitingError": "holdfast.core.errors",
    "asend_message": "holdfast.calls.send",
    "asend_message_streaming": "holdfast.calls.send",
    "assistant": "holdfast.core.messages",
    "async_retry_ai_call_with_parsing": "holdfast.compat.ai_call",
    "async_retry_rereg_ai_call_with_parsing": "holdfast.compat.ai_call",
    "classify": "holdfast.calls.sdk_errors",
    "current_tool_call": "holdfast.tools.current",
    "error_handling_middlewares": "holdfast.middleware.error_handling",
    "execute": "holdfast.calls.guard",
    "explain": "holdfast.core.errors",
    "get_retry_config": "holdfast.compat.call_config",
    "resilient": "holdfast.calls.guard",
    "retry_ai_call_with_parsing": "holdfast.compat.ai_call",
    "retry_on": "holdfast.calls.exception_rules",
    "retry_rereg_ai_call_with_parsing": "holdfast.compat.ai_call",
    "send_message": "holdfast.calls.send",
    "send_message_streaming": "holdfast.calls.send",
    "tool": "holdfast.tools.tool",
    "user": "holdfast.core.messages",
}
"""Public name -> the module that defines it. Sorted."""

__all__ = sorted(["__version__", *_HOME])


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
