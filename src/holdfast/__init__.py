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
    from holdfast.core.deltas import ReasoningDelta as ReasoningDelta
    from holdfast.core.deltas import TextDelta as TextDelta
    from holdfast.core.errors import ConfigurationError as ConfigurationError
    from holdfast.core.errors import ConflictError as ConflictError
    from holdfast.core.errors import EmptyResponseError as EmptyResponseError
    from holdfast.core.errors import ErrorCategory as ErrorCategory
    from holdfast.core.errors import ErrorInfo as ErrorInfo
    from holdfast.core.errors import FilteredError as FilteredError
    from holdfast.core.errors import HoldfastBug as HoldfastBug
    from holdfast.core.errors import HoldfastError as HoldfastError
    from holdfast.core.errors import Landed as Landed
    from holdfast.core.errors import LimitError as LimitError
    from holdfast.core.errors import OutputError as OutputError
    from holdfast.core.errors import ProviderError as ProviderError
    from holdfast.core.errors import RefusedError as RefusedError
    from holdfast.core.errors import ResponseError as ResponseError
    from holdfast.core.errors import ResponseValidationError as ResponseValidationError
    from holdfast.core.errors import ToolExecutionError as ToolExecutionError
    from holdfast.core.errors import TransportError as TransportError
    from holdfast.core.errors import TruncatedError as TruncatedError
    from holdfast.core.errors import UnterminatedError as UnterminatedError
    from holdfast.core.errors import explain as explain
    from holdfast.core.events import ModelReplied as ModelReplied
    from holdfast.core.events import Status as Status
    from holdfast.core.events import ToolFinished as ToolFinished
    from holdfast.core.events import TurnClosed as TurnClosed
    from holdfast.core.events import TurnOpened as TurnOpened
    from holdfast.core.limits import Limits as Limits
    from holdfast.core.messages import FinishReason as FinishReason
    from holdfast.core.messages import Media as Media
    from holdfast.core.messages import Message as Message
    from holdfast.core.messages import Reply as Reply
    from holdfast.core.messages import Text as Text
    from holdfast.core.messages import Usage as Usage
    from holdfast.core.messages import assistant as assistant
    from holdfast.core.messages import user as user
    from holdfast.core.notices import AttemptAbandoned as AttemptAbandoned
    from holdfast.core.notices import AttemptStarted as AttemptStarted
    from holdfast.core.notices import RetryScheduled as RetryScheduled
    from holdfast.core.notices import ToolStarted as ToolStarted
    from holdfast.core.request import ModelSettings as ModelSettings
    from holdfast.journal.memory import MemoryJournal as MemoryJournal
    from holdfast.resilience.handling import ErrorHandling as ErrorHandling
    from holdfast.runtime.result import Result as Result
    from holdfast.tools.context import ToolContext as ToolContext
    from holdfast.tools.tool import Tool as Tool
    from holdfast.tools.tool import tool as tool
    from holdfast.transport.port import Timeouts as Timeouts

__version__ = "0.1.0"

_HOME: dict[str, str] = {
    "Agent": "holdfast.agent",
    "AttemptAbandoned": "holdfast.core.notices",
    "AttemptStarted": "holdfast.core.notices",
    "ConfigurationError": "holdfast.core.errors",
    "ConflictError": "holdfast.core.errors",
    "EmptyResponseError": "holdfast.core.errors",
    "ErrorCategory": "holdfast.core.errors",
    "ErrorHandling": "holdfast.resilience.handling",
    "ErrorInfo": "holdfast.core.errors",
    "FilteredError": "holdfast.core.errors",
    "FinishReason": "holdfast.core.messages",
    "HoldfastBug": "holdfast.core.errors",
    "HoldfastError": "holdfast.core.errors",
    "Landed": "holdfast.core.errors",
    "LimitError": "holdfast.core.errors",
    "Limits": "holdfast.core.limits",
    "Media": "holdfast.core.messages",
    "MemoryJournal": "holdfast.journal.memory",
    "Message": "holdfast.core.messages",
    "ModelReplied": "holdfast.core.events",
    "ModelSettings": "holdfast.core.request",
    "OutputError": "holdfast.core.errors",
    "ProviderError": "holdfast.core.errors",
    "ReasoningDelta": "holdfast.core.deltas",
    "RefusedError": "holdfast.core.errors",
    "Reply": "holdfast.core.messages",
    "ResponseError": "holdfast.core.errors",
    "ResponseValidationError": "holdfast.core.errors",
    "Result": "holdfast.runtime.result",
    "RetryScheduled": "holdfast.core.notices",
    "Status": "holdfast.core.events",
    "Text": "holdfast.core.messages",
    "TextDelta": "holdfast.core.deltas",
    "Timeouts": "holdfast.transport.port",
    "Tool": "holdfast.tools.tool",
    "ToolContext": "holdfast.tools.context",
    "ToolExecutionError": "holdfast.core.errors",
    "ToolFinished": "holdfast.core.events",
    "ToolStarted": "holdfast.core.notices",
    "TransportError": "holdfast.core.errors",
    "TruncatedError": "holdfast.core.errors",
    "TurnClosed": "holdfast.core.events",
    "TurnOpened": "holdfast.core.events",
    "UnterminatedError": "holdfast.core.errors",
    "Usage": "holdfast.core.messages",
    "assistant": "holdfast.core.messages",
    "explain": "holdfast.core.errors",
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
