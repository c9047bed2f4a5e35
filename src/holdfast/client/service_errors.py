"""The errors of a service, as exceptions.

    ServiceError                  a HoldfastError; `.details` is the problem body of the service
    ├── InvalidRequestError       the request is wrong; `.argument`, `.fix`; also a ConfigurationError
    ├── AccessError               the key is missing, not valid, or may not do this
    ├── NotFoundError             there is no such thing
    ├── ServiceConflictError      it cannot be done now; also a ConflictError
    │   └── BusyError             a turn of the session is in progress; also a SessionBusyError
    ├── RateLimitedError          there were too many requests; `.details.retry_after`
    └── UnavailableError          the service, or its journal, does not work

A service that cannot be reached raises TransportError.
"""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from msgspec import UNSET

from holdfast.core.error_info import ErrorCategory, ErrorInfo, Landed
from holdfast.core.errors import (
    ConfigurationError,
    ConflictError,
    HoldfastError,
    SessionBusyError,
)
from holdfast.server.problem_body import ProblemBody

_CATEGORIES = {
    401: ErrorCategory.AUTH_ERROR,
    403: ErrorCategory.AUTH_ERROR,
    429: ErrorCategory.RATE_LIMIT_RETRYABLE,
}


class ServiceError(HoldfastError):
    """A service refused a request, or failed.

    Args:
        problem: the problem body of the service.
    """

    def __init__(self, problem: ProblemBody) -> None:
        HoldfastError.__init__(self, _to_message(problem), info=_to_info(problem))
        self.details = problem


class InvalidRequestError(ServiceError, ConfigurationError):
    """The request is wrong; nothing was begun."""

    def __init__(self, problem: ProblemBody) -> None:
        super().__init__(problem)
        self.argument, self.problem = problem.field or "", problem.detail
        self.fix = problem.fix or ""


class AccessError(ServiceError):
    """The key is missing, is not valid, or may not do this."""


class NotFoundError(ServiceError):
    """There is no such agent, session or turn; or it belongs to another tenant."""


class ServiceConflictError(ServiceError, ConflictError):
    """This cannot be done in the present state of the session."""


class BusyError(ServiceConflictError, SessionBusyError):
    """A turn of the session is in progress."""

    def __init__(self, problem: ProblemBody) -> None:
        super().__init__(problem)
        self.session = ""


class RateLimitedError(ServiceError):
    """There were too many requests, and waiting did not help long enough."""


class UnavailableError(ServiceError):
    """The service, its journal or the model of an agent does not work."""


def read_problem(status: int, body: bytes) -> ProblemBody:
    """Return the problem in a response; one from its status, if a proxy answered instead.

    >>> read_problem(502, b"<html>").detail
    'Bad Gateway'
    """
    try:
        return msgspec.json.decode(body, type=ProblemBody)
    except (msgspec.DecodeError, UnicodeError):
        known = {one.value: one.phrase for one in HTTPStatus}
        title = known.get(status, "Unknown")
        is_retryable = status in (429, 502, 503, 504)
        return ProblemBody(
            title=title, status=status, detail=title, kind="http", retryable=is_retryable
        )


def make_error(problem: ProblemBody) -> ServiceError:
    """Return the exception for a problem.

    >>> from holdfast.server.problem_body import ProblemBody
    >>> wrong = ProblemBody(title="", status=422, detail="is empty", kind="body", field="q", retryable=False)
    >>> make_error(wrong)
    InvalidRequestError('q: is empty')
    """
    status = problem.status
    if status in (400, 413, 415, 422):
        return InvalidRequestError(problem)
    if status in (401, 403):
        return AccessError(problem)
    if status == 404:
        return NotFoundError(problem)
    if status == 409:
        return (BusyError if problem.kind == "busy" else ServiceConflictError)(problem)
    if status == 429:
        return RateLimitedError(problem)
    return (UnavailableError if status >= 500 else ServiceError)(problem)


def _to_message(problem: ProblemBody) -> str:
    prefix = f"{problem.field}: " if problem.field is not UNSET else ""
    fix = f". {problem.fix}" if problem.fix is not UNSET else ""
    return f"{prefix}{problem.detail}{fix}"


def _to_info(problem: ProblemBody) -> ErrorInfo:
    default = ErrorCategory.SERVER_ERROR if problem.status >= 500 else ErrorCategory.CLIENT_ERROR
    return ErrorInfo(
        category=_CATEGORIES.get(problem.status, default),
        safe=_to_message(problem),
        landed=Landed.UNKNOWN if problem.status >= 500 else Landed.NO,
        retry_after=None if problem.retry_after is UNSET else problem.retry_after,
        status=problem.status,
        code=problem.kind,
    )
