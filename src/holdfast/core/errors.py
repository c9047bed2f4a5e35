"""The tree of errors, and the functions that turn an error into text for models and people.

    HoldfastError                     everything that Holdfast raises; `.info` holds the details
    ├── ConfigurationError            an argument is wrong; `.argument`, `.fix`; also a ValueError
    ├── ProviderError                 the endpoint refused, failed, or could not be reached
    │   └── TransportError            no complete response: DNS, TLS, connection, timeout
    ├── ResponseError                 the response is not a usable reply
    │   ├── EmptyResponseError        .reason
    │   │   ├── NoCandidatesError
    │   │   ├── NoTextError
    │   │   └── NoToolActivityError
    │   ├── ResponseValidationError   .expected, .got
    │   │   ├── MissingAttributeError
    │   │   ├── InvalidStructureError
    │   │   └── UnexpectedTypeError
    │   ├── ToolExecutionError        .tool_name, .error
    │   │   ├── ToolNotFoundError
    │   │   └── ToolFailedError
    │   ├── TruncatedError            cut at the output limit
    │   │   └── ReplyTooLargeError    larger than `ReplyLimits` allows; `.limit`
    │   ├── FilteredError             withheld by a content filter
    │   ├── RefusedError              the model declined
    │   └── UnterminatedError         the stream ended without its end marker
    ├── OutputError                   no output of the wanted type; `.raw`, `.best`, `.problems`
    │   └── TruncatedOutputError      the output was cut at the output limit; also a TruncatedError
    ├── StoppedError                  a middleware ended or refused the turn; `.reason`
    ├── MiddlewareError               a hook raised, timed out, or returned a wrong value; `.hook`
    ├── LimitError                    the run reached one of its limits; `.limit`
    ├── UnansweredError               a question got no answer; `.why`
    ├── AnswerTypeError               an answer of the wrong type; `.expected`, `.got`; also a TypeError
    ├── WaitingError                  the session's turn waits for an answer; `.run_id`, `.keys`
    ├── JournalError                  a journal cannot write or read; see journal.journal_errors
    ├── ConflictError                 another process drives the same run; this one stops
    ├── SessionBusyError              another turn of the session is in progress; `.session`
    └── HoldfastBug                   a bug of Holdfast, or the journal of another run
        ├── IllegalEventError         an event that the state does not allow
        └── ReplayMismatchError       the same key was planned with different content

Rules for editing. An exception becomes an `ErrorInfo` in one place per effect (`runtime.perform`,
`codecs.<wire>.errors`, `transport`), and an `ErrorInfo` becomes text only through the functions at
the end of this file. `private` must never enter a message, an event, a notice or a `repr`.
"""

from __future__ import annotations

import re
from typing import Literal, NewType

from holdfast.core.error_info import ADVICE
from holdfast.core.error_info import ErrorCategory as ErrorCategory
from holdfast.core.error_info import ErrorInfo as ErrorInfo
from holdfast.core.error_info import Landed as Landed
from holdfast.core.messages import Reply
from holdfast.core.problems import Problem
from holdfast.core.redaction import redact

SafeText = NewType("SafeText", str)
"""Text about a failure that a model may read. Made only by the functions of this module."""


class HoldfastError(Exception):
    """The base class: `except HoldfastError` catches everything that Holdfast raises on purpose.

    Args:
        message: the failure and the next step, safe to show.
        info: the details; derived from the message by default.
        partial: the part of the reply that arrived, if a reply had begun.

    Raises:
        ConfigurationError: an argument has the wrong type.

    >>> ProviderError(ErrorInfo(category=ErrorCategory.TIMEOUT, safe="no answer"))
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: message: must be a text, got ErrorInfo. Write \
ProviderError(info.safe, info=info)
    """

    default_category = ErrorCategory.UNKNOWN

    def __init__(
        self, message: str, *, info: ErrorInfo | None = None, partial: Reply | None = None
    ) -> None:
        wrong = find_wrong_argument(type(self).__name__, message, info, partial)
        if wrong is not None:
            raise ConfigurationError(wrong[0], wrong[1], fix=wrong[2])
        super().__init__(message)
        self.info = info or ErrorInfo(
            category=self.default_category, safe=message, landed=Landed.UNKNOWN
        )
        self.partial = partial
        self.result: object = None
        """The `Result` of the run that raised this: its messages, usage and status."""


class ConfigurationError(HoldfastError, ValueError):
    """An argument, a setting or an environment variable is wrong; nothing was sent.

    >>> print(ConfigurationError("limits.iterations", "must be at least 1, got 0"))
    limits.iterations: must be at least 1, got 0
    """

    default_category = ErrorCategory.CLIENT_ERROR

    def __init__(self, argument: str, problem: str, *, fix: str = "") -> None:
        message = f"{argument}: {problem}" + (f". {fix}" if fix else "")
        info = ErrorInfo(
            category=self.default_category, safe=message, landed=Landed.NO, code="configuration"
        )
        super().__init__(message, info=info)
        self.argument = argument
        self.problem = problem
        self.fix = fix


class ProviderError(HoldfastError):
    """The endpoint refused the request, failed, or could not be reached."""


class TransportError(ProviderError):
    """No complete response arrived. `info.landed` says whether the request may have been processed."""

    default_category = ErrorCategory.TRANSIENT


class ResponseError(HoldfastError):
    """The response cannot be used as a reply."""

    default_category = ErrorCategory.INVALID_RESPONSE


class EmptyResponseError(ResponseError):
    """The reply has no text and no tool call.

    >>> str(EmptyResponseError("no text in response"))
    'Empty response: no text in response'
    """

    default_category = ErrorCategory.EMPTY_RESPONSE

    def __init__(
        self, reason: str, *, info: ErrorInfo | None = None, partial: Reply | None = None
    ) -> None:
        super().__init__(f"Empty response: {reason}", info=info, partial=partial)
        self.reason = reason


class NoCandidatesError(EmptyResponseError):
    """The list of choices or candidates is empty or missing."""


class NoTextError(EmptyResponseError):
    """There is a choice, but it has no text and no tool call."""


class NoToolActivityError(EmptyResponseError):
    """The reply announced a tool call but contains none."""


class ResponseValidationError(ResponseError):
    """The reply does not have the structure that its wire defines.

    >>> str(ResponseValidationError("content attribute", "missing"))
    'Invalid response structure: expected content attribute, got missing'
    """

    def __init__(
        self,
        expected: str,
        got: str,
        *,
        info: ErrorInfo | None = None,
        partial: Reply | None = None,
    ) -> None:
        message = f"Invalid response structure: expected {expected}, got {got}"
        super().__init__(message, info=info, partial=partial)
        self.expected = expected
        self.got = got


class MissingAttributeError(ResponseValidationError):
    """A required field is missing."""


class InvalidStructureError(ResponseValidationError):
    """A field has the wrong inner structure."""


class UnexpectedTypeError(ResponseValidationError):
    """The whole response is of another kind: HTML, text, a list."""


class ToolExecutionError(ResponseError):
    """A tool did not return a result.

    >>> str(ToolExecutionError("search", "timed out"))
    "Tool 'search' failed: timed out"
    """

    default_category = ErrorCategory.UNKNOWN

    def __init__(self, tool_name: str, error: str, *, info: ErrorInfo | None = None) -> None:
        super().__init__(f"Tool '{tool_name}' failed: {error}", info=info)
        self.tool_name = tool_name
        self.error = error


class ToolNotFoundError(ToolExecutionError):
    """The model asked for a tool that this agent does not have."""

    default_category = ErrorCategory.CLIENT_ERROR


class ToolFailedError(ToolExecutionError):
    """The tool raised an exception."""


class TruncatedError(ResponseError):
    """The reply was cut at the output limit; `.partial` holds what arrived."""

    default_category = ErrorCategory.TRUNCATED


class ReplyTooLargeError(TruncatedError):
    """The reply exceeds one of the `ReplyLimits`, and its rest was not read."""

    @property
    def limit(self) -> str:
        """The name of the limit, such as "text"."""
        return (self.info.code or "").partition(".")[2]


class FilteredError(ResponseError):
    """A content filter withheld the prompt or the reply."""

    default_category = ErrorCategory.CONTENT_FILTERED


class RefusedError(ResponseError):
    """The model declined; `.partial` holds its explanation."""

    default_category = ErrorCategory.CONTENT_FILTERED


class UnterminatedError(ResponseError):
    """The stream ended before its finish reason or its end marker; `.partial` holds what arrived."""

    default_category = ErrorCategory.TRANSIENT


class OutputError(HoldfastError):
    """The model gave no output of the wanted type in the allowed number of attempts.

    Args:
        raw: the text of the last output.
        problems: its faults: the place, the expected value, the actual one.
        best: the JSON value of that text as far as it goes, not validated; None when there is none.
    """

    default_category = ErrorCategory.INVALID_RESPONSE

    def __init__(
        self,
        message: str,
        *,
        raw: str = "",
        problems: tuple[Problem, ...] = (),
        best: object = None,
        info: ErrorInfo | None = None,
        partial: Reply | None = None,
    ) -> None:
        super().__init__(message, info=info, partial=partial)
        self.raw = raw
        self.problems = problems
        self.best = best


class TruncatedOutputError(TruncatedError, OutputError):
    """The output was cut at the output limit. It is not requested again: it would be cut again."""

    default_category = ErrorCategory.TRUNCATED


class StoppedError(HoldfastError):
    """A middleware ended the turn without an output of the wanted type, or refused the message."""

    default_category = ErrorCategory.LIMIT

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class MiddlewareError(HoldfastError):
    """A hook, or a function of the instructions, raised, timed out or returned a wrong value.

    >>> str(MiddlewareError("Guard", "before_tool", "raised KeyError"))
    'Guard.before_tool raised KeyError'
    """

    default_category = ErrorCategory.PROGRAMMING

    def __init__(self, middleware: str, hook: str, problem: str, *, private: str = "") -> None:
        safe = f"{middleware}.{hook} {problem}"
        info = ErrorInfo(
            category=self.default_category, safe=safe, private=private, code="middleware"
        )
        super().__init__(safe, info=info)
        self.middleware = middleware
        self.hook = hook
        self.problem = problem


class LimitError(HoldfastError):
    """The turn reached a limit; `.limit` names it."""

    default_category = ErrorCategory.LIMIT

    def __init__(self, message: str, *, limit: str = "") -> None:
        super().__init__(message)
        self.limit = limit


UnansweredReason = Literal["timeout", "cancelled", "nobody", "failed", "expired"]
"""Why a question got no answer; "failed" means that the handler raised, "expired" that the answer
ended before it was used."""

_UNANSWERED: dict[UnansweredReason, str] = {
    "timeout": "No answer to the {kind} came in time.",
    "cancelled": "The {kind} was cancelled.",
    "nobody": "Nobody is there to answer the {kind}. Give the agent `on_question=...`, or use "
    "`agent.stream(...)` and `run.answer(...)`.",
    "failed": "The handler of questions failed on the {kind}.",
    "expired": "The answer to the {kind} expired before it was used.",
}


class UnansweredError(HoldfastError):
    """A question got no answer, and its answer type cannot express "no".

    >>> str(UnansweredError("ClarificationQuestion", "cancelled"))
    'The ClarificationQuestion was cancelled.'
    """

    # Never retried: the next attempt would ask the same people again.
    default_category = ErrorCategory.CANCELLED

    def __init__(self, kind: str, why: UnansweredReason) -> None:
        super().__init__(_UNANSWERED[why].format(kind=kind))
        self.kind = kind
        self.why = why


class AnswerTypeError(HoldfastError, TypeError):
    """An answer does not have the type that the question asks for. The question stays open.

    >>> str(AnswerTypeError("Approved | Denied", "str"))
    'Expected response of type Approved | Denied, but received str'
    """

    default_category = ErrorCategory.PROGRAMMING

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(f"Expected response of type {expected}, but received {got}")
        self.expected = expected
        self.got = got


class WaitingError(HoldfastError):
    """A session accepts no message, since its turn waits for an answer that must not be lost.

    >>> str(WaitingError("ada", ("t1.i0.tool.0.ask.0",)))[:65]
    "The turn of 'ada' waits for an answer to t1.i0.tool.0.ask.0. Give"
    """

    default_category = ErrorCategory.CLIENT_ERROR

    def __init__(self, run_id: str, keys: tuple[str, ...]) -> None:
        if keys:
            state = f"waits for an answer to {', '.join(keys)}. Give it with agent.answer("
            state += f"{run_id!r}, ...) and continue"
        else:
            state = "was answered and has not continued yet. Continue"
        super().__init__(
            f"The turn of {run_id!r} {state} with agent.resume({run_id!r}), or give the turn up "
            f"with agent.abandon({run_id!r})."
        )
        self.run_id = run_id
        self.keys = keys


class ConflictError(HoldfastError):
    """The journal already holds an outcome for this key: another process drives the same run."""


class SessionBusyError(HoldfastError):
    """Another turn of the session is in progress, here or in another process. Nothing was begun.

    >>> str(SessionBusyError("ada"))
    "the session 'ada' is busy: another turn of it is under way"
    """

    def __init__(self, session: str, why: str = "another turn of it is under way") -> None:
        message = f"the session {session!r} is busy: {why}"
        info = ErrorInfo(
            category=ErrorCategory.CLIENT_ERROR, safe=message, landed=Landed.NO, code="busy"
        )
        super().__init__(message, info=info)
        self.session = session


class HoldfastBug(HoldfastError):
    """Holdfast broke one of its own rules. Please report it, with the journal if you can."""


class IllegalEventError(HoldfastBug):
    """The state of the run does not allow this event. The state is unchanged."""


class ReplayMismatchError(HoldfastBug):
    """The journal holds different content for a key than this agent plans: it is another agent's."""


def tool_failure_text(name: str, message: str, *, detailed: bool = False) -> SafeText:
    """The text for the model when a tool raised: one text, whoever formats it.

    Args:
        name: the tool's name; empty becomes "Unknown".
        message: the text of the exception.
        detailed: `detailed_errors` of the agent; the message is then shown, redacted.

    >>> tool_failure_text("pay", "password=hunter2")
    "Error: Function 'pay' failed."
    >>> tool_failure_text("pay", "password=hunter2", detailed=True)
    "Error invoking function 'pay': password=[redacted]"
    """
    name = name or "Unknown"
    if not detailed:
        return SafeText(f"Error: Function '{name}' failed.")
    return SafeText(f"Error invoking function '{name}': {redact(message)}")


_BAD_OUTPUT = "Try again, or say in the instructions what the answer must look like."


def explain(info: ErrorInfo) -> SafeText:
    """Return the text for a user: the failure, whose fault it is, and the next step.

    >>> print(explain(ErrorInfo(category=ErrorCategory.AUTH_ERROR, safe="openai: 401 bad key")))
    openai: 401 bad key. Check the API key and its permissions.
    """
    if not isinstance(info, ErrorInfo):
        raise ConfigurationError("info", f"must be an ErrorInfo, got {type(info).__name__}")
    advice = _BAD_OUTPUT if info.code == "output" else ADVICE.get(info.category, "")
    if info.category is ErrorCategory.CLIENT_ERROR and not info.provider and info.status is None:
        advice = (
            ""  # a local error: no provider refused a request, and the message has the next step
        )
    text = info.safe.rstrip()
    if not advice:
        return SafeText(text)
    return SafeText(f"{text}{'' if text.endswith(('.', '!', '?')) else '.'} {advice}")


_BY_CODE: dict[str, type[HoldfastError]] = {
    "truncated": TruncatedError,
    "reply_limits": ReplyTooLargeError,
    "filtered": FilteredError,
    "refused": RefusedError,
    "unterminated": UnterminatedError,
}

_MIDDLEWARE_MESSAGE = re.compile(r"(.*?)\.(\w+) (.*)", re.DOTALL)


def exception_for(info: ErrorInfo, partial: Reply | None = None) -> HoldfastError:
    """Return the exception for a saved failure, so that a resumed run raises the same as a fresh one.

    >>> type(exception_for(ErrorInfo(category=ErrorCategory.TRUNCATED, safe="cut", code="truncated")))
    <class 'holdfast.core.errors.TruncatedError'>
    """
    kind = _BY_CODE.get((info.code or "").partition(".")[0])
    if kind is not None:
        return kind(info.safe, info=info, partial=partial)
    if info.category is ErrorCategory.LIMIT:
        return LimitError(info.safe, limit=info.code or "")
    if info.code == "middleware" and (match := _MIDDLEWARE_MESSAGE.fullmatch(info.safe)):
        error = MiddlewareError(*match.groups())
        error.info, error.partial = info, partial
        return error
    if info.code in ("output", "output_validator"):
        return OutputError(info.safe, info=info, partial=partial)
    if info.category is ErrorCategory.EMPTY_RESPONSE or info.code == "only_items":
        reason = info.safe.removeprefix("Empty response: ")
        return EmptyResponseError(reason, info=info, partial=partial)
    if info.category is ErrorCategory.INVALID_RESPONSE:
        return ResponseError(info.safe, info=info, partial=partial)
    if info.category in (ErrorCategory.TRANSIENT, ErrorCategory.TIMEOUT):
        return TransportError(info.safe, info=info, partial=partial)
    return ProviderError(info.safe, info=info, partial=partial)


def find_wrong_argument(
    error: str, message: object, info: object = None, partial: object = None
) -> tuple[str, str, str] | None:
    """Return the name of a wrong argument of an error, the problem and the fix; None if all are right.

    Args:
        error: the name of the error's class, for the fix.
        message: must be a text.
        info: must be an ErrorInfo or None.
        partial: must be a Reply or None.

    >>> find_wrong_argument("ProviderError", TimeoutError())
    ('message', 'must be a text, got TimeoutError', 'Write ProviderError(str(error))')
    """
    if not isinstance(message, str):
        fix = f'Write {error}("what happened")'
        if isinstance(message, ErrorInfo):
            fix = f"Write {error}(info.safe, info=info)"
        elif isinstance(message, BaseException):
            fix = f"Write {error}(str(error))"
        return "message", f"must be a text, got {type(message).__name__}", fix
    if info is not None and not isinstance(info, ErrorInfo):
        fix = f"Write {error}(message, info=ErrorInfo(category=..., safe=message))"
        return "info", f"must be an ErrorInfo, got {type(info).__name__}", fix
    if partial is not None and not isinstance(partial, Reply):
        return "partial", f"must be a Reply, got {type(partial).__name__}", "Leave it out"
    return None


def read_error_info(error: BaseException) -> ErrorInfo:
    """Return the details of an error of Holdfast, also of one that has lost them.

    A subclass may not have called `HoldfastError.__init__`, and anybody may set an attribute.

    >>> read_error_info(KeyError("x")).safe
    'KeyError'
    """
    info = _read(error, "info")
    if type(info) is ErrorInfo:
        return info
    category = _read(error, "default_category")
    if not isinstance(category, ErrorCategory):
        category = ErrorCategory.UNKNOWN
    name = type(error).__name__
    return ErrorInfo(category=category, safe=name, private=redact(_read_text(error)), code=name)


def _read(error: BaseException, name: str) -> object:
    try:
        return getattr(error, name, None)
    except Exception:  # noqa: BLE001  # REASON: a property is the user's code
        return None


def _read_text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # REASON: `__str__` is the user's code
        return "(its text cannot be read)"
