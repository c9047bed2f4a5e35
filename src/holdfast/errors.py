"""Every exception that Holdfast raises, and the details of a failure.

Nothing inside the package may import this module: it collects names from rooms of several layers.
"""

from __future__ import annotations

from holdfast import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.error_info import ErrorCategory as ErrorCategory
    from holdfast.core.error_info import ErrorInfo as ErrorInfo
    from holdfast.core.error_info import Landed as Landed
    from holdfast.core.errors import AnswerTypeError as AnswerTypeError
    from holdfast.core.errors import ConfigurationError as ConfigurationError
    from holdfast.core.errors import ConflictError as ConflictError
    from holdfast.core.errors import EmptyResponseError as EmptyResponseError
    from holdfast.core.errors import FilteredError as FilteredError
    from holdfast.core.errors import HoldfastBug as HoldfastBug
    from holdfast.core.errors import HoldfastError as HoldfastError
    from holdfast.core.errors import IllegalEventError as IllegalEventError
    from holdfast.core.errors import InvalidStructureError as InvalidStructureError
    from holdfast.core.errors import LimitError as LimitError
    from holdfast.core.errors import MiddlewareError as MiddlewareError
    from holdfast.core.errors import MissingAttributeError as MissingAttributeError
    from holdfast.core.errors import NoCandidatesError as NoCandidatesError
    from holdfast.core.errors import NoTextError as NoTextError
    from holdfast.core.errors import NoToolActivityError as NoToolActivityError
    from holdfast.core.errors import OutputError as OutputError
    from holdfast.core.errors import ProviderError as ProviderError
    from holdfast.core.errors import RefusedError as RefusedError
    from holdfast.core.errors import ReplayMismatchError as ReplayMismatchError
    from holdfast.core.errors import ReplyTooLargeError as ReplyTooLargeError
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
    from holdfast.core.errors import UnansweredReason as UnansweredReason
    from holdfast.core.errors import UnexpectedTypeError as UnexpectedTypeError
    from holdfast.core.errors import UnterminatedError as UnterminatedError
    from holdfast.core.errors import WaitingError as WaitingError
    from holdfast.core.errors import explain as explain
    from holdfast.core.output import OutputRejected as OutputRejected
    from holdfast.core.problems import Problem as Problem
    from holdfast.core.redaction import redact as redact
    from holdfast.journal.inbox.inbox_errors import EngineError as EngineError
    from holdfast.journal.inbox.inbox_errors import InboxError as InboxError
    from holdfast.journal.inbox.inbox_errors import QueuedTurnError as QueuedTurnError
    from holdfast.journal.inbox.inbox_errors import QueueFullError as QueueFullError
    from holdfast.journal.inbox.inbox_errors import QuotaReachedError as QuotaReachedError
    from holdfast.journal.inbox.inbox_errors import SubmissionError as SubmissionError
    from holdfast.journal.journal_errors import JournalBusyError as JournalBusyError
    from holdfast.journal.journal_errors import JournalClosedError as JournalClosedError
    from holdfast.journal.journal_errors import JournalCorruptError as JournalCorruptError
    from holdfast.journal.journal_errors import JournalError as JournalError
    from holdfast.journal.journal_errors import JournalReadOnlyError as JournalReadOnlyError
    from holdfast.journal.journal_errors import JournalStorageError as JournalStorageError
    from holdfast.journal.journal_errors import JournalUnreachableError as JournalUnreachableError
    from holdfast.journal.journal_errors import JournalVersionError as JournalVersionError
    from holdfast.journal.journal_errors import LeaseLostError as LeaseLostError
    from holdfast.journal.journal_errors import RequestExistsError as RequestExistsError
    from holdfast.journal.journal_errors import TransactionPoolingError as TransactionPoolingError
    from holdfast.outbox.outbox_worker import OutboxUnavailableError as OutboxUnavailableError
    from holdfast.resilience.breaker.strategy import BreakerOpenError as BreakerOpenError
    from holdfast.resilience.limiter.strategy import LimiterError as LimiterError
    from holdfast.runtime.streams.shown_text import TextWithdrawn as TextWithdrawn
    from holdfast.tools.tool_failures import ToolError as ToolError

_HOME: dict[str, str] = {
    "AnswerTypeError": "holdfast.core.errors",
    "BreakerOpenError": "holdfast.resilience.breaker.strategy",
    "ConfigurationError": "holdfast.core.errors",
    "ConflictError": "holdfast.core.errors",
    "EmptyResponseError": "holdfast.core.errors",
    "EngineError": "holdfast.journal.inbox.inbox_errors",
    "ErrorCategory": "holdfast.core.error_info",
    "ErrorInfo": "holdfast.core.error_info",
    "FilteredError": "holdfast.core.errors",
    "HoldfastBug": "holdfast.core.errors",
    "HoldfastError": "holdfast.core.errors",
    "IllegalEventError": "holdfast.core.errors",
    "InboxError": "holdfast.journal.inbox.inbox_errors",
    "InvalidStructureError": "holdfast.core.errors",
    "JournalBusyError": "holdfast.journal.journal_errors",
    "JournalClosedError": "holdfast.journal.journal_errors",
    "JournalCorruptError": "holdfast.journal.journal_errors",
    "JournalError": "holdfast.journal.journal_errors",
    "JournalReadOnlyError": "holdfast.journal.journal_errors",
    "JournalStorageError": "holdfast.journal.journal_errors",
    "JournalUnreachableError": "holdfast.journal.journal_errors",
    "JournalVersionError": "holdfast.journal.journal_errors",
    "Landed": "holdfast.core.error_info",
    "LeaseLostError": "holdfast.journal.journal_errors",
    "LimitError": "holdfast.core.errors",
    "LimiterError": "holdfast.resilience.limiter.strategy",
    "MiddlewareError": "holdfast.core.errors",
    "MissingAttributeError": "holdfast.core.errors",
    "NoCandidatesError": "holdfast.core.errors",
    "NoTextError": "holdfast.core.errors",
    "NoToolActivityError": "holdfast.core.errors",
    "OutboxUnavailableError": "holdfast.outbox.outbox_worker",
    "OutputError": "holdfast.core.errors",
    "OutputRejected": "holdfast.core.output",
    "Problem": "holdfast.core.problems",
    "ProviderError": "holdfast.core.errors",
    "QueueFullError": "holdfast.journal.inbox.inbox_errors",
    "QueuedTurnError": "holdfast.journal.inbox.inbox_errors",
    "QuotaReachedError": "holdfast.journal.inbox.inbox_errors",
    "RefusedError": "holdfast.core.errors",
    "ReplayMismatchError": "holdfast.core.errors",
    "ReplyTooLargeError": "holdfast.core.errors",
    "RequestExistsError": "holdfast.journal.journal_errors",
    "ResponseError": "holdfast.core.errors",
    "ResponseValidationError": "holdfast.core.errors",
    "SessionBusyError": "holdfast.core.errors",
    "StoppedError": "holdfast.core.errors",
    "SubmissionError": "holdfast.journal.inbox.inbox_errors",
    "TextWithdrawn": "holdfast.runtime.streams.shown_text",
    "ToolError": "holdfast.tools.tool_failures",
    "ToolExecutionError": "holdfast.core.errors",
    "ToolFailedError": "holdfast.core.errors",
    "ToolNotFoundError": "holdfast.core.errors",
    "TransactionPoolingError": "holdfast.journal.journal_errors",
    "TransportError": "holdfast.core.errors",
    "TruncatedError": "holdfast.core.errors",
    "TruncatedOutputError": "holdfast.core.errors",
    "UnansweredError": "holdfast.core.errors",
    "UnansweredReason": "holdfast.core.errors",
    "UnexpectedTypeError": "holdfast.core.errors",
    "UnterminatedError": "holdfast.core.errors",
    "WaitingError": "holdfast.core.errors",
    "explain": "holdfast.core.errors",
    "redact": "holdfast.core.redaction",
}
"""Public name -> the module that defines it. Sorted."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_names(globals(), _HOME)
