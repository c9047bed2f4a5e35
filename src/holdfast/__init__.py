"""The public names that most programs need; other names are in `holdfast.errors` and similar modules.

This module must not import anything until a name is asked for: `import holdfast` costs a dictionary.
A public name has one row in `_HOME` and one import under TYPE_CHECKING; the tests compare the two.

>>> import holdfast
>>> holdfast.__version__
'0.1.0'
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.agent import Agent as Agent
    from holdfast.core.deltas import TextDelta as TextDelta
    from holdfast.core.error_info import ErrorCategory as ErrorCategory
    from holdfast.core.error_info import ErrorInfo as ErrorInfo
    from holdfast.core.errors import ConfigurationError as ConfigurationError
    from holdfast.core.errors import HoldfastError as HoldfastError
    from holdfast.core.errors import LimitError as LimitError
    from holdfast.core.errors import OutputError as OutputError
    from holdfast.core.errors import ProviderError as ProviderError
    from holdfast.core.errors import UnansweredError as UnansweredError
    from holdfast.core.errors import WaitingError as WaitingError
    from holdfast.core.events import Event as Event
    from holdfast.core.events import ModelReplied as ModelReplied
    from holdfast.core.events import Status as Status
    from holdfast.core.events import ToolFinished as ToolFinished
    from holdfast.core.events import TurnClosed as TurnClosed
    from holdfast.core.limits import Limits as Limits
    from holdfast.core.messages import FinishReason as FinishReason
    from holdfast.core.messages import Media as Media
    from holdfast.core.messages import Message as Message
    from holdfast.core.messages import Reply as Reply
    from holdfast.core.messages import Text as Text
    from holdfast.core.messages import ToolCall as ToolCall
    from holdfast.core.messages import ToolResult as ToolResult
    from holdfast.core.messages import Usage as Usage
    from holdfast.core.messages import assistant as assistant
    from holdfast.core.messages import user as user
    from holdfast.core.model_request import ModelSettings as ModelSettings
    from holdfast.core.notices import AttemptAbandoned as AttemptAbandoned
    from holdfast.core.notices import Notice as Notice
    from holdfast.core.notices import RetryScheduled as RetryScheduled
    from holdfast.core.notices import ToolStarted as ToolStarted
    from holdfast.core.output import OutputRejected as OutputRejected
    from holdfast.core.questions import Answer as Answer
    from holdfast.core.questions import Approved as Approved
    from holdfast.core.questions import ClarificationQuestion as ClarificationQuestion
    from holdfast.core.questions import ContinuationQuestion as ContinuationQuestion
    from holdfast.core.questions import Continued as Continued
    from holdfast.core.questions import Denied as Denied
    from holdfast.core.questions import PermissionQuestion as PermissionQuestion
    from holdfast.core.questions import Question as Question
    from holdfast.journal.memory import MemoryJournal as MemoryJournal
    from holdfast.journal.postgres.postgres_journal import PostgresJournal as PostgresJournal
    from holdfast.journal.sqlite.sqlite_journal import SqliteJournal as SqliteJournal
    from holdfast.middleware.continuation_permission import (
        ContinuationPermission as ContinuationPermission,
    )
    from holdfast.middleware.hook_contexts import InstructionsContext as InstructionsContext
    from holdfast.middleware.hooks import Middleware as Middleware
    from holdfast.middleware.tool_permission import ToolPermission as ToolPermission
    from holdfast.models.resolve import ModelAt as ModelAt
    from holdfast.output.structured_output import OutputContext as OutputContext
    from holdfast.output.structured_output import StructuredOutput as StructuredOutput
    from holdfast.resilience.defaults import Resilience as Resilience
    from holdfast.resilience.retry.options import RetryOptions as RetryOptions
    from holdfast.runtime.open_runs.recovery import RecoveredRun as RecoveredRun
    from holdfast.runtime.open_runs.recovery import RecoveryStatus as RecoveryStatus
    from holdfast.runtime.questions.open_question import Receipt as Receipt
    from holdfast.runtime.questions.question_checks import OnQuestion as OnQuestion
    from holdfast.runtime.result import Result as Result
    from holdfast.runtime.streams.run_stream import RunStream as RunStream
    from holdfast.runtime.turn_state.turn_input import Prompt as Prompt
    from holdfast.sessions.overview import SessionInfo as SessionInfo
    from holdfast.sessions.sessions import Sessions as Sessions
    from holdfast.skills.collection import Skills as Skills
    from holdfast.tools.context import ToolContext as ToolContext
    from holdfast.tools.context import current_tool_call as current_tool_call
    from holdfast.tools.tool import Tool as Tool
    from holdfast.tools.tool import tool as tool
    from holdfast.tools.tool_failures import ToolError as ToolError
    from holdfast.transport.port import Timeouts as Timeouts

__version__ = "0.1.0"

_HOME: dict[str, str] = {
    "Agent": "holdfast.agent",
    "Answer": "holdfast.core.questions",
    "Approved": "holdfast.core.questions",
    "AttemptAbandoned": "holdfast.core.notices",
    "ClarificationQuestion": "holdfast.core.questions",
    "ConfigurationError": "holdfast.core.errors",
    "ContinuationPermission": "holdfast.middleware.continuation_permission",
    "ContinuationQuestion": "holdfast.core.questions",
    "Continued": "holdfast.core.questions",
    "Denied": "holdfast.core.questions",
    "ErrorCategory": "holdfast.core.error_info",
    "ErrorInfo": "holdfast.core.error_info",
    "Event": "holdfast.core.events",
    "FinishReason": "holdfast.core.messages",
    "HoldfastError": "holdfast.core.errors",
    "InstructionsContext": "holdfast.middleware.hook_contexts",
    "LimitError": "holdfast.core.errors",
    "Limits": "holdfast.core.limits",
    "Media": "holdfast.core.messages",
    "MemoryJournal": "holdfast.journal.memory",
    "Message": "holdfast.core.messages",
    "Middleware": "holdfast.middleware.hooks",
    "ModelAt": "holdfast.models.resolve",
    "ModelReplied": "holdfast.core.events",
    "ModelSettings": "holdfast.core.model_request",
    "Notice": "holdfast.core.notices",
    "OnQuestion": "holdfast.runtime.questions.question_checks",
    "OutputContext": "holdfast.output.structured_output",
    "OutputError": "holdfast.core.errors",
    "OutputRejected": "holdfast.core.output",
    "PermissionQuestion": "holdfast.core.questions",
    "PostgresJournal": "holdfast.journal.postgres.postgres_journal",
    "Prompt": "holdfast.runtime.turn_state.turn_input",
    "ProviderError": "holdfast.core.errors",
    "Question": "holdfast.core.questions",
    "Receipt": "holdfast.runtime.questions.open_question",
    "RecoveredRun": "holdfast.runtime.open_runs.recovery",
    "RecoveryStatus": "holdfast.runtime.open_runs.recovery",
    "Reply": "holdfast.core.messages",
    "Resilience": "holdfast.resilience.defaults",
    "Result": "holdfast.runtime.result",
    "RetryOptions": "holdfast.resilience.retry.options",
    "RetryScheduled": "holdfast.core.notices",
    "RunStream": "holdfast.runtime.streams.run_stream",
    "SessionInfo": "holdfast.sessions.overview",
    "Sessions": "holdfast.sessions.sessions",
    "Skills": "holdfast.skills.collection",
    "SqliteJournal": "holdfast.journal.sqlite.sqlite_journal",
    "Status": "holdfast.core.events",
    "StructuredOutput": "holdfast.output.structured_output",
    "Text": "holdfast.core.messages",
    "TextDelta": "holdfast.core.deltas",
    "Timeouts": "holdfast.transport.port",
    "Tool": "holdfast.tools.tool",
    "ToolCall": "holdfast.core.messages",
    "ToolContext": "holdfast.tools.context",
    "ToolError": "holdfast.tools.tool_failures",
    "ToolFinished": "holdfast.core.events",
    "ToolPermission": "holdfast.middleware.tool_permission",
    "ToolResult": "holdfast.core.messages",
    "ToolStarted": "holdfast.core.notices",
    "TurnClosed": "holdfast.core.events",
    "UnansweredError": "holdfast.core.errors",
    "Usage": "holdfast.core.messages",
    "WaitingError": "holdfast.core.errors",
    "assistant": "holdfast.core.messages",
    "current_tool_call": "holdfast.tools.context",
    "tool": "holdfast.tools.tool",
    "user": "holdfast.core.messages",
}
"""Public name -> the module that defines it. Sorted."""


def _silence_loggers() -> None:
    """Keep the loggers of Holdfast silent until the application configures logging.

    Nothing is imported for it: a module that logs has imported `logging`.
    """
    from sys import modules

    logging = modules.get("logging")
    if logging is not None and not logging.getLogger("holdfast").handlers:
        logging.getLogger("holdfast").addHandler(logging.NullHandler())


def lazy_names(
    module: dict[str, object], home: dict[str, str]
) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """The `__all__`, `__getattr__` and `__dir__` of a module that imports its names on first use.

    Args:
        module: the globals of the module.
        home: public name -> the module that defines it.
    """

    def find_name(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")
        from holdfast.core.import_part import import_part

        value = module[name] = getattr(import_part(home[name]), name)
        _silence_loggers()
        return value

    names = sorted(home)
    return names, find_name, lambda: list(names)


if not TYPE_CHECKING:  # so that a type checker refuses a name that does not exist
    __all__, __getattr__, __dir__ = lazy_names(globals(), {**_HOME, "__version__": __name__})
