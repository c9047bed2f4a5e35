"""The transaction that puts a turn into the inbox, or finds it there.

It admits nothing: only a worker knows the engine. Its workers are woken when it is committed.
"""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast.journal.inbox import inbox_statements as sql
from holdfast.journal.inbox.entries import InboxEntry, Submission
from holdfast.journal.inbox.entry_rows import to_entry, to_float, to_int, to_limits
from holdfast.journal.inbox.inbox_errors import QueueFullError, QuotaReachedError, SubmissionError
from holdfast.journal.inbox.queue_limits import LimitTable, agent_scope, tenant_scope
from holdfast.journal.inbox.statements import Statement, Transaction
from holdfast.journal.journal_names import digest_name

SECONDS_OF_A_DAY = 86_400.0
_LONGEST_RETRY_AFTER = 300.0
_LONGEST_PROMISE = 3600.0


class RepeatError(Exception):
    """Another transaction was faster; this one is rolled back and performed again."""


def submit_turn(submission: Submission) -> Transaction[InboxEntry]:
    """Save a turn, or find the one with its request.

    Raises:
        SubmissionError: the request is that of another submission.
        QueueFullError: the queue of the tenant, the agent or all is full or closed.
        QuotaReachedError: the tenant has used up its turns or tokens of this day.
    """
    tenant, agent = submission.tenant, submission.agent
    names = {"tenant": tenant, "request": submission.request}
    scopes = {"tenant_scope": tenant_scope(tenant), "agent_scope": agent_scope(agent)}
    found = yield Statement(sql.BEFORE_SUBMISSION, {**names, **scopes})
    digests = [text for kind, text in found if kind == "digest"]
    if digests:
        if digests[0] != submission.digest:
            raise SubmissionError(submission.request)
        return to_entry((yield Statement(sql.FIND_BY_REQUEST, names))[0])
    table = LimitTable(to_limits(found))
    _refuse_if_draining(submission, table)
    if table.of_all.queued is not None:
        yield Statement(sql.LOCK_QUEUE_OF_ALL)
    yield Statement(sql.COUNT_QUEUED, {"tenant": tenant})
    rows = yield Statement(sql.INSERT, _describe(submission))
    if not rows:
        raise RepeatError  # another process has submitted it meanwhile
    yield from _check_limits(tenant, table, queued=to_int(rows[0][-1]))
    yield sql.NOTIFY
    return to_entry(rows[0])


def _describe(submission: Submission) -> dict[str, object]:
    """Return the parameters of INSERT."""
    return {
        "tenant": submission.tenant,
        "agent": submission.agent,
        "session": submission.session,
        "name": digest_name(submission.session),
        "request": submission.request,
        "digest": submission.digest,
        "body": submission.body,
        "priority": submission.priority,
        "due_at": submission.not_before,
        "made_by": submission.made_by,
    }


def _refuse_if_draining(submission: Submission, table: LimitTable) -> None:
    for scope, limits in (
        ("all tenants", table.of_all),
        (f"tenant {submission.tenant}", table.of_tenant(submission.tenant)),
        (f"agent {submission.agent}", table.of_agent(submission.agent)),
    ):
        if limits.is_draining:
            raise QueueFullError(scope, "takes no turns now", _LONGEST_RETRY_AFTER)


def _check_limits(tenant: str, table: LimitTable, *, queued: int) -> Transaction[None]:
    """Raise the error that forbids a turn that was inserted and counted; its transaction is rolled back then.

    Args:
        tenant: the tenant, whose row is locked.
        table: the limits.
        queued: how many turns of the tenant are queued, with this one.
    """
    own, most = table.of_tenant(tenant), table.of_all.queued
    if own.queued is not None and queued > own.queued:
        yield from _refuse(tenant, own.queued)
    if most is not None and to_int((yield Statement(sql.COUNT_ALL_QUEUED))[0][0]) > most:
        yield from _refuse(None, most)
    if own.turns_per_day is not None or own.tokens_per_day is not None:
        yield from _check_quota(tenant, own.turns_per_day, own.tokens_per_day)


def _refuse(tenant: str | None, limit: int) -> Transaction[None]:
    """Raise QueueFullError.

    Args:
        tenant: whose queue is full; None for that of all tenants.
        limit: how many turns it has.
    """
    rows = yield Statement(sql.LATELY_DONE, {"tenant": tenant})
    of_tenant, of_all = to_int(rows[0][0]), to_int(rows[0][1])
    done = of_all if tenant is None else of_tenant or of_all
    seconds_a_turn = max(to_float(rows[0][2]), 1.0) / done if done else None
    scope = "all tenants" if tenant is None else f"tenant {tenant}"
    why = f"has {limit} turns already"
    raise QueueFullError(scope, why, _LONGEST_RETRY_AFTER, seconds_a_turn)


def promise_room(refused: QueueFullError, tenant: str) -> Transaction[QueueFullError]:
    """Return the refusal with the time after which there will be room for this one too.

    Whoever was refused before is asked to come back earlier, each when one more turn has begun, so
    that they do not all come back at once and find room for a few.

    Args:
        refused: the refusal, whose transaction was rolled back.
        tenant: the tenant of the turn.
    """
    if refused.seconds_a_turn is None:
        return refused
    name = tenant if refused.scope == f"tenant {tenant}" else ""
    values = {"tenant": name, "seconds": refused.seconds_a_turn}
    seconds = to_float((yield Statement(sql.PROMISE, values))[0][0])
    told = min(max(1.0, round(seconds, 1)), _LONGEST_PROMISE)
    return QueueFullError(refused.scope, refused.why, told, refused.seconds_a_turn)


def _check_quota(tenant: str, turns: int | None, tokens: int | None) -> Transaction[None]:
    """Count a turn of this day, and raise QuotaReachedError if it is one too many."""
    now = to_float((yield sql.NOW)[0][0])
    rows = yield Statement(sql.ADD_TURN, {"tenant": tenant, "day": name_day(now)})
    used_turns, used_tokens = (to_int(value) for value in rows[0])
    left = round(SECONDS_OF_A_DAY - now % SECONDS_OF_A_DAY, 1)
    if turns is not None and used_turns > turns:
        raise QuotaReachedError(tenant, f"{turns} turns", left)
    if tokens is not None and used_tokens >= tokens:
        raise QuotaReachedError(tenant, f"{tokens} tokens", left)


def name_day(now: float) -> str:
    """Return the day of a time, in UTC.

    >>> name_day(86_400.0)
    '1970-01-02'
    """
    return datetime.fromtimestamp(now, UTC).date().isoformat()
