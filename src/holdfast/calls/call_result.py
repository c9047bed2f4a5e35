"""The result of one call: a value with all its data, and a text for a person.

The `kind` tells an answer from a failure, so no caller has to parse a text.
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
    """The kind of a result. The first two are answers."""

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
    """The result of one call.

    Args:
        kind: the kind of the result.
        text: the complete answer; "" without one.
        user_message: a text for a person in any case: the answer, or what went wrong.
        error: the exception that ended the call; None for an answer.
        info: the classified error; its category decides whether a retry makes sense.
        finish_reason: why the reply ended; None if unknown.
        partial_text: the text that came before a failure.
        tool_calls: the calls of a complete reply; empty after a failure, since calls may be cut.
        usage: the token counts that came.
        reply: everything that came, in neutral form; None if nothing came.
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
        """Whether there is an answer: text or tool calls."""
        return self.kind in (ResultKind.TEXT, ResultKind.TOOLS)

    @property
    def category(self) -> ErrorCategory | None:
        """The category of the error, which decides about retries; None for an answer."""
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
    """Return the kind of result for an error.

    >>> kind_of_failure(EmptyResponseError("no text in response")).value
    'empty'
    >>> kind_of_failure(RuntimeError("no")).value
    'error'
    """
    return next((kind for cls, kind in _KINDS if isinstance(error, cls)), ResultKind.ERROR)
