"""Errors as `application/problem+json` (RFC 9457): the one place where the service words an error.

A problem must never carry the private half of an error, or say that something of another tenant
exists.
"""

from __future__ import annotations

import logging
import math
from http import HTTPStatus

from msgspec import UNSET, UnsetType
from msgspec.structs import replace
from starlette.responses import Response

from holdfast.core.errors import (
    AnswerTypeError,
    ConfigurationError,
    ConflictError,
    HoldfastError,
    SessionBusyError,
    WaitingError,
)
from holdfast.hosting.turns.turn_runner import SECONDS_TO_RESTART, ShuttingDownError
from holdfast.journal.encoding import to_json
from holdfast.journal.inbox.inbox_errors import (
    InboxError,
    QueuedTurnError,
    QueueFullError,
    QuotaReachedError,
    SubmissionError,
)
from holdfast.journal.journal_errors import JournalError
from holdfast.server.problem_body import ProblemBody

_log = logging.getLogger("holdfast.server")


class ProblemError(Exception):
    """A request is refused with this problem."""

    def __init__(self, problem: ProblemBody) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def make_problem(
    status: int, kind: str, detail: str, *, field: str = "", fix: str = "", retryable: bool = False
) -> ProblemBody:
    """Return a problem.

    >>> make_problem(404, "unknown", "There is no such session.").title
    'Not Found'
    """
    return ProblemBody(
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        kind=kind,
        field=field or UNSET,
        fix=fix or UNSET,
        retryable=retryable,
    )


def make_wait_problem(status: int, kind: str, detail: str, seconds: float) -> ProblemBody:
    """Return the problem of a request that may succeed after some seconds.

    >>> make_wait_problem(429, "turns", "There were too many turns.", 2.5).retry_after
    2.5
    """
    return replace(make_problem(status, kind, detail, retryable=True), retry_after=seconds)


def _make_waiting_problem(error: WaitingError) -> ProblemBody:
    """Return the problem of a turn that waits: the error itself names methods of `Agent`."""
    if error.keys:
        state, way = f"waits for an answer to {', '.join(error.keys)}", "Answer it"
    else:
        state, way = "was answered and has not continued yet", "Resume it"
    detail = f"the turn of {error.run_id!r} {state}"
    return make_problem(409, "waiting", detail, field="session", fix=f"{way}, or abandon it")


def _make_inbox_problem(error: InboxError) -> ProblemBody:
    """Return the problem of a turn that the queue refuses, or that was taken out of it."""
    kind = error.info.code or "queue"
    if isinstance(error, QueueFullError | QuotaReachedError):
        return make_wait_problem(429, kind, str(error), error.info.retry_after or 1.0)
    if isinstance(error, SubmissionError | QueuedTurnError):
        fix = "Send a new key with a new request"
        return make_problem(409, kind, str(error), field="Idempotency-Key", fix=fix)
    _log.warning("a request is answered with 503: %s", error)  # its text names the server
    return make_wait_problem(503, "queue", "The queue cannot be used now.", SECONDS_TO_RESTART)


def make_journal_problem() -> ProblemBody:
    """Return the problem of a request for which the journal cannot be used."""
    detail = "The journal cannot be used now. Repeat the request with its Idempotency-Key."
    return make_wait_problem(503, "journal", detail, SECONDS_TO_RESTART)


def to_problem(error: HoldfastError) -> ProblemBody:
    """Return the problem that an error of the library is."""
    if isinstance(error, SessionBusyError):
        return make_problem(409, "busy", str(error), retryable=True)
    if isinstance(error, WaitingError):
        return _make_waiting_problem(error)
    if isinstance(error, InboxError):
        return _make_inbox_problem(error)
    if isinstance(error, ConflictError):
        return make_problem(409, "conflict", str(error), retryable=True)
    if isinstance(error, JournalError):
        _log.warning("a request is answered with 503: %s", error)  # its text names the server
        return make_journal_problem()
    if isinstance(error, ConfigurationError):
        status = 404 if error.problem.startswith(("there is no ", "the journal knows no ")) else 422
        return make_problem(
            status,
            "unknown" if status == 404 else "configuration",
            error.problem,
            field=error.argument,
            fix=error.fix,
        )
    if isinstance(error, AnswerTypeError):
        return make_problem(422, "answer_type", str(error), field="answer")
    if isinstance(error, ShuttingDownError):
        return make_wait_problem(503, "shutting_down", error.info.safe, SECONDS_TO_RESTART)
    return make_problem(500, error.info.category.value, error.info.safe)


def respond_problem(problem: ProblemBody) -> Response:
    """Return the response for a problem."""
    headers = {}
    if not isinstance(problem.retry_after, UnsetType):
        headers["Retry-After"] = str(max(1, math.ceil(problem.retry_after)))
    return Response(
        to_json(problem),
        problem.status,
        headers,
        media_type="application/problem+json",
    )
