"""The result of one call: a value with all its data, and a text for a person.

The `kind` separates an answer from a failure, so no caller has to parse a text.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, cast

from msgspec import Struct
from typing_extensions import TypeVar

from holdfast.core.errors import (
    EmptyResponseError,
    ErrorCategory,
    ErrorInfo,
    FilteredError,
    OutputError,
    RefusedError,
    ResponseValidationError,
    ToolExecutionError,
    TruncatedError,
    UnterminatedError,
)
from holdfast.core.messages import FinishReason, Reply, ToolCall, Usage
from holdfast.core.output import OutputParsedBy
from holdfast.core.problems import Problem

T_co = TypeVar("T_co", covariant=True, default=None)


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


class CallResult(Struct, Generic[T_co], frozen=True, kw_only=True):
    """The result of one call, or of the calls that one typed answer took.

    Args:
        kind: the kind of the result.
        text: the complete answer; "" without one.
        user_message: a text for a person in any case: the answer, or the failure.
        error: the exception that ended the call; None for an answer.
        info: the classified error; its category decides whether a retry makes sense.
        finish_reason: why the reply ended; None if unknown.
        partial_text: the text that came before a failure.
        tool_calls: the calls of a complete reply; empty after a failure, since calls may be cut.
        usage: the token counts that came, of all calls.
        reply: everything that came, in neutral form; None if nothing came.
        output: the answer as a value of the type that was asked for; None without one.
        parsed_by: how the output was parsed; "" without a type or an answer.
        problems: what the last wrong answer of a typed question has wrong.
        best: the JSON value of the last wrong answer as far as it goes, not validated.
        attempts: how often the call was made; 0 if it was not, because a circuit breaker or rate limiter
            rejected it.
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
    output: T_co | None = None
    parsed_by: OutputParsedBy = ""
    problems: tuple[Problem, ...] = ()
    best: object = None
    attempts: int = 1

    @property
    def ok(self) -> bool:
        """Whether there is an answer: text or tool calls."""
        return self.kind in (ResultKind.TEXT, ResultKind.TOOLS)

    @property
    def category(self) -> ErrorCategory | None:
        """The category of the error, which decides about retries; None for an answer."""
        return None if self.info is None else self.info.category

    def require_output(self) -> T_co:
        """Return the output.

        Raises:
            Exception: the error of the call.
            OutputError: the reply calls tools, or no type was asked for.
        """
        if self.error is not None:
            raise self.error
        if not self.parsed_by:
            said = "calls tools" if self.tool_calls else "was asked for without output="
            raise OutputError(f"The reply {said}, so it has no typed answer", partial=self.reply)
        return cast("T_co", self.output)  # None is a value of some types

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
