"""The route of usage: totals by agent, model or day, added up from the records of turns."""

from __future__ import annotations

from msgspec import UNSET
from starlette.responses import Response

from holdfast.event_log.turn_fold import SpendingTotals
from holdfast.server.access.budgets import READS
from holdfast.server.api.operations import AnyOperation, Call, Operation, OperationAnswer, respond
from holdfast.server.api.request_bodies import NoBody, UsageQuery
from holdfast.server.api.views import UsageTotal, UsageView, to_field, to_number
from holdfast.sessions.overview import SessionInfo

MOST_SESSIONS = 1000
"""How many sessions are read for one answer, the latest change first."""

_PAGE = 100


def make_totals(totals: SpendingTotals) -> tuple[UsageTotal, ...]:
    """Return totals as the answer has them."""
    return tuple(
        UsageTotal(one.name, one.turns, one.usage, to_field(to_number(one.cost)))
        for one in totals.list_totals()
    )


async def read_usage(call: Call[UsageQuery, NoBody]) -> Response:
    """Add up the usage of the latest sessions."""
    since = 0.0 if call.query.since is UNSET else call.query.since
    totals = SpendingTotals(call.query.by, since)
    before: SessionInfo | None = None
    for _ in range(0, MOST_SESSIONS, _PAGE):
        page = await call.tenant.sessions.list(limit=_PAGE, before=before)
        for info in page:
            before = info
            if info.changed_at < since:
                return respond(UsageView(call.query.by, make_totals(totals)))
            records = await call.tenant.journal.read(info.session)
            totals.add_session(info.session, (record.event for record in records))
        if len(page) < _PAGE:
            return respond(UsageView(call.query.by, make_totals(totals)))
    return respond(UsageView(call.query.by, make_totals(totals), complete=False))


OPERATIONS: tuple[AnyOperation, ...] = (
    Operation(
        name="read_usage",
        method="GET",
        path="/usage",
        text=(
            "Add up tokens by agent, model or day (UTC), also those of failed attempts. Tokens of "
            'agents in tools count for the calling agent, and for the model "".'
        ),
        scope="read",
        takes=READS,
        handle=read_usage,
        query=UsageQuery,
        body=NoBody,
        answers={200: (OperationAnswer(UsageView, "The totals."),)},
    ),
)
"""The operations on usage."""
