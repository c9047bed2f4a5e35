"""What became of one call: a value that says everything, and the text of it for a person.

Texts are a rendering and never the only thing that is left: whoever has the result can tell an
answer from a failure without reading words. This module must never call a failure an answer.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from holdfast.core.errors import (
    EmptyResponseError,
    ErrorCategory,
    ErrorInfo,
    FilteredError,
    RefusedError,
    ResponseValidationError,
    ToolExecutionError,
    TruncatedError,
    UnterminatedError,
)
from holdfast.core.messages import FinishReason, Reply, ToolCall, Usage


class ResultKind(StrEnum):
    """What came back. The first two are answers."""

    TEXT = "text"
    TOOLS = "tools"
    EMPTY = "empty"
    INVALID = "invalid"
    BLOCKED = "blocked"
    REFUSED = "refused"
    TRUNCATED = "truncated"
    UNTERMINATED = "unterminated"
    TOOL_FAILED = "tool_failed"
    ERROR = "error"


class CallResult(Struct, frozen=True, kw_only=True):
    """The outcome of one call.

    Args:
        kind: what came back.
        text: the whole answer; "" unless it is one.
        user_message: what a person may read, whatever happened: the answer, or what went wrong and what to do.
        error: what ended the call; None for an answer.
        info: what is known about the error; its category decides whether a retry makes sense.
        finish_reason: why the reply ended, or None when it did not say.
        partial_text: the text that came before a failure.
        tool_calls: the calls of a whole reply; none of a reply that failed, since they may be cut.
        usage: tokens, as far as they were told.
        reply: everything that came, in neutral form; None when nothing did.
    """

    kind: ResultKind
    user_message: str
    text: str = ""
    error: Exception | None = None
    info: ErrorInfo | None = None
    finish_reason: FinishReason | None = None
    partial_text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    reply: Reply | None = None

    @property
    def ok(self) -> bool:
        """Whether there is an answer: text, or calls of tools."""
        return self.kind in (ResultKind.TEXT, ResultKind.TOOLS)

    @property
    def category(self) -> ErrorCategory | None:
        """Why it failed, in the words that retries are decided by; None for an answer."""
        return None if self.info is None else self.info.category

    def __str__(self) -> str:
        return self.user_message


_KINDS: tuple[tuple[type[Exception], ResultKind], ...] = (
    (EmptyResponseError, ResultKind.EMPTY),
    (ResponseValidationError, ResultKind.INVALID),
    (FilteredError, ResultKind.BLOCKED),
    (RefusedError, ResultKind.REFUSED),
    (TruncatedError, ResultKind.TRUNCATED),
    (UnterminatedError, ResultKind.UNTERMINATED),
    (ToolExecutionError, ResultKind.TOOL_FAILED),
)


def kind_of_failure(error: Exception) -> ResultKind:
    """The kind of result that an error makes.

    >>> kind_of_failure(EmptyResponseError("no text in response")).value
    'empty'
    >>> kind_of_failure(RuntimeError("no")).value
    'error'
    """
    return next((kind for cls, kind in _KINDS if isinstance(error, cls)), ResultKind.ERROR)
