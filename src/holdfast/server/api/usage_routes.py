"""The route of usage: totals by agent, model or day, added up from the records of turns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec import UNSET
from starlette.responses import Response

from holdfast.core.events import Event, TurnOpened
from holdfast.core.messages import Usage
from holdfast.core.run_fold import list_usage
from holdfast.event_log.text_fold import turn_of_key
from holdfast.server.access.budgets import READS
from holdfast.server.api.operations import AnyOperation, Call, Operation, OperationAnswer, respond
from holdfast.server.api.request_bodies import NoBody, UsageQuery
from holdfast.server.api.views import UsageTotal, UsageView, to_field
from holdfast.sessions.overview import SessionInfo
from holdfast.telemetry.token_prices import PriceList

MOST_SESSIONS = 1000
"""How many sessions are read for one answer, the latest change first."""

_PAGE = 100


class UsageTotals:
    """Totals under a name that depends on their unit.

    Args:
        by: "agent", "model" or "day".
        since: turns that were opened before this time do not count.
        prices: the prices of tokens.
    """

    def __init__(self, by: str, since: float, prices: PriceList) -> None:
        self._by = by
        self._since = since
        self._prices = prices
        self._used: dict[str, dict[str, Usage]] = defaultdict(dict)
        self._turns: dict[str, set[tuple[str, int]]] = defaultdict(set)

    def add_session(self, session: str, events: Iterable[Event]) -> None:
        """Add the turns of a session."""
        opened: TurnOpened | None = None
        for event in events:
            if isinstance(event, TurnOpened):
                opened = event
            if opened is None or opened.at < self._since:
                continue
            for model, usage in list_usage(event):
                name = self._name(opened, model)
                used = self._used[name]
                used[model] = used.get(model, Usage()) + usage
                self._turns[name].add((session, turn_of_key(event.key)))

    def _name(self, opened: TurnOpened, model: str) -> str:
        if self._by == "agent":
            return opened.agent
        if self._by == "model":
            return model
        return datetime.fromtimestamp(opened.at, UTC).date().isoformat()

    def view(self) -> tuple[UsageTotal, ...]:
        """Return the totals, the largest first; of days, the latest first."""
        totals = [
            UsageTotal(
                name,
                len(self._turns[name]),
                sum(used.values(), Usage()),
                to_field(self._prices.cost_of(used)),
            )
            for name, used in self._used.items()
        ]
        if self._by == "day":
            totals.sort(key=lambda total: total.name, reverse=True)
        else:
            totals.sort(key=lambda total: (-total.usage.total, total.name))
        return tuple(totals)


async def read_usage(call: Call[UsageQuery, NoBody]) -> Response:
    """Add up the usage of the latest sessions."""
    since = 0.0 if call.query.since is UNSET else call.query.since
    totals = UsageTotals(call.query.by, since, call.tenant.prices)
    before: SessionInfo | None = None
    for _ in range(0, MOST_SESSIONS, _PAGE):
        page = await call.tenant.sessions.list(limit=_PAGE, before=before)
        for info in page:
            before = info
            if info.changed_at < since:
                return respond(UsageView(call.query.by, totals.view()))
            records = await call.tenant.journal.read(info.session)
            totals.add_session(info.session, (record.event for record in records))
        if len(page) < _PAGE:
            return respond(UsageView(call.query.by, totals.view()))
    return respond(UsageView(call.query.by, totals.view(), complete=False))


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
