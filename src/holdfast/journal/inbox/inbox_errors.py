"""The errors of the inbox: a turn that cannot be submitted now or at all, and an engine that fails.

    InboxError             a HoldfastError
    ├── QueueFullError     the queue is full or takes nothing now; `.scope`, `.info.retry_after`
    ├── QuotaReachedError  the tenant has used up its turns or tokens of the day; `.quota`
    ├── SubmissionError    another turn was submitted with this request; also a ConflictError
    ├── QueuedTurnError    a submitted turn has no result: it was dropped, or could not begin; `.state`
    └── EngineError        an engine cannot be reached; lost jobs are put again

A message never contains the message of a turn.
"""

from __future__ import annotations

from holdfast.core.errors import ConflictError, ErrorCategory, ErrorInfo, HoldfastError, Landed


class InboxError(HoldfastError):
    """The inbox refuses a turn, or its engine fails. Nothing was begun."""


class QueueFullError(InboxError):
    """The queue has as many turns as it may have, or takes none now. Nothing was saved.

    Args:
        scope: whose queue it is, such as "tenant acme".
        why: the reason.
        retry_after: seconds after which there will be room, by the recent rate.
        seconds_a_turn: how fast the queue becomes shorter; None if that is not known.

    >>> str(QueueFullError("tenant acme", "has 100 turns already", 3.0))
    'the queue of tenant acme has 100 turns already. Try again in 3 s'
    """

    def __init__(
        self, scope: str, why: str, retry_after: float, seconds_a_turn: float | None = None
    ) -> None:
        message = f"the queue of {scope} {why}. Try again in {retry_after:g} s"
        info = ErrorInfo(
            category=ErrorCategory.RATE_LIMIT_RETRYABLE,
            safe=message,
            landed=Landed.NO,
            retry_after=retry_after,
            code="queue_full",
        )
        super().__init__(message, info=info)
        self.scope, self.why, self.seconds_a_turn = scope, why, seconds_a_turn


class QuotaReachedError(InboxError):
    """The tenant has used up its turns or tokens of this day. Nothing was saved.

    Args:
        tenant: the tenant.
        quota: the quota that was used up, such as "1000 turns".
        retry_after: seconds until the day ends.

    >>> str(QuotaReachedError("acme", "1000 turns", 60.0))
    "the tenant 'acme' has used up its 1000 turns of this day, which ends in 60 s"
    """

    def __init__(self, tenant: str, quota: str, retry_after: float) -> None:
        message = (
            f"the tenant {tenant!r} has used up its {quota} of this day,"
            f" which ends in {retry_after:g} s"
        )
        info = ErrorInfo(
            category=ErrorCategory.RATE_LIMIT_TERMINAL,
            safe=message,
            landed=Landed.NO,
            retry_after=retry_after,
            code="quota",
        )
        super().__init__(message, info=info)
        self.quota = quota


class SubmissionError(InboxError, ConflictError):
    """The request is that of another submission: another message, agent or session.

    >>> str(SubmissionError("order-7"))
    "another turn was submitted with the request 'order-7'. Use a request once for one message"
    """

    def __init__(self, request: str) -> None:
        message = (
            f"another turn was submitted with the request {request!r}."
            " Use a request once for one message"
        )
        info = ErrorInfo(
            category=ErrorCategory.CLIENT_ERROR,
            safe=message,
            landed=Landed.NO,
            code="request_conflict",
        )
        super().__init__(message, info=info)
        self.request = request


class QueuedTurnError(InboxError):
    """A turn that was submitted does not end: it was dropped or parked, or no worker could begin it.

    Its `result` is the saved part of the turn, if it was begun.

    Args:
        request: its request.
        state: its outcome: "dropped", "parked" or "failed".
        why: why.

    >>> str(QueuedTurnError("order-7", "dropped", ""))
    "the submitted turn 'order-7' is dropped"
    """

    def __init__(self, request: str, state: str, why: str) -> None:
        message = f"the submitted turn {request!r} is {state}" + (f": {why}" if why else "")
        category = ErrorCategory.CANCELLED if state == "dropped" else ErrorCategory.CLIENT_ERROR
        info = ErrorInfo(category=category, safe=message, landed=Landed.NO, code=state)
        super().__init__(message, info=info)
        self.state = state
        self.why = why


class EngineError(InboxError):
    """An engine cannot be reached or refuses. The inbox puts its jobs again.

    Args:
        engine: the name of the engine.
        problem: the problem, without a password.
        fix: the way to correct it.

    >>> str(EngineError("nats", "cannot be reached", fix="Check the address"))
    'engine nats: cannot be reached. Check the address'
    """

    def __init__(self, engine: str, problem: str, *, fix: str = "") -> None:
        message = f"engine {engine}: {problem}" + (f". {fix}" if fix else "")
        info = ErrorInfo(
            category=ErrorCategory.TRANSIENT, safe=message, landed=Landed.UNKNOWN, code="engine"
        )
        super().__init__(message, info=info)
        self.engine = engine
