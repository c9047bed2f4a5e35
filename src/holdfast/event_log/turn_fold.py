"""Computes the view of one turn from its records (text, usage, error, times), and totals of many turns.

This module is pure. It must never read a journal or parse an output.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from holdfast.core.cost import Cost, CostSum
from holdfast.core.error_info import ErrorInfo
from holdfast.core.events import (
    Event,
    ModelFailed,
    ModelReplied,
    OutputChecked,
    ToolFinished,
    TurnClosed,
    TurnInterrupted,
    TurnOpened,
    TurnStopped,
)
from holdfast.core.messages import Reply, ToolResult, Usage
from holdfast.core.run_fold import list_costs, list_usage, parse_turn


class TurnFold:
    """One turn, as far as its records show it.

    Args:
        events: the events of the turn, in order.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self.opened: TurnOpened | None = None
        self.closed: TurnClosed | None = None
        self.text = ""
        """The text of the last reply; the part that arrived, if the turn did not complete."""
        self.used: dict[str, Usage] = {}
        """The tokens of all attempts by model, also of failed ones; "" for those of other agents."""
        self.costs = CostSum()
        """Their cost."""
        self.iterations = 0
        self.reply: Reply | None = None
        """The last reply that was accepted."""
        self.is_checked = False
        """Whether the last reply is an output that fits its type."""
        self.function_result: ToolResult | None = None
        """The result of an output function."""
        self.in_doubt = False
        """Whether a tool may have taken effect, and nobody knows."""
        for event in events:
            self._add(event)

    @property
    def usage(self) -> Usage:
        """The tokens of all attempts, also of failed ones."""
        return sum(self.used.values(), Usage())

    @property
    def error(self) -> ErrorInfo | None:
        """Why the turn did not complete."""
        return None if self.closed is None else self.closed.error

    def _count_tokens(self, event: Event) -> None:
        for model, usage in list_usage(event):
            self.used[model] = self.used.get(model, Usage()) + usage
        for _, usage, cost in list_costs(event):
            self.costs.add(cost, has_used=usage.total > 0)

    def _add(self, event: Event) -> None:
        self._count_tokens(event)
        match event:
            case TurnOpened():
                self.opened = event
            case ModelReplied():
                self._add_reply(event)
            case ModelFailed():
                self._add_failure(event)
            case OutputChecked():
                self.is_checked = bool(event.parsed_by)
            case ToolFinished():
                self._add_result(event)
            case TurnInterrupted():
                self._add_interruption(event)
            case TurnStopped():
                self.text = event.text
            case TurnClosed():
                self.closed = event
            case _:
                pass

    def _add_reply(self, event: ModelReplied) -> None:
        self.reply, self.text = event.reply, event.reply.text
        self.iterations += 1
        self.is_checked, self.function_result = False, None

    def _add_failure(self, event: ModelFailed) -> None:
        self.iterations += 1
        self.text = event.partial.text if event.partial is not None else ""

    def _add_result(self, event: ToolFinished) -> None:
        self.in_doubt = self.in_doubt or event.result.in_doubt
        if self.is_checked and not event.result.is_error:
            self.function_result = event.result

    def _add_interruption(self, event: TurnInterrupted) -> None:
        self.in_doubt = self.in_doubt or any(".tool." in key for key in event.started)
        if event.partial is not None:
            self.text = event.partial.text


class SpendingTotal(NamedTuple):
    """The turns under one name: how many there are, their tokens, and what these cost."""

    name: str
    turns: int
    usage: Usage
    cost: Cost | None


class SpendingTotals:
    """Adds up what turns used and cost, under names that depend on the unit.

    Args:
        by: "agent", "model" or "day" (UTC).
        since: turns that were opened before this time do not count.
    """

    def __init__(self, by: str, since: float = 0.0) -> None:
        self._by = by
        self._since = since
        self._used: dict[str, Usage] = defaultdict(Usage)
        self._costs: dict[str, CostSum] = defaultdict(CostSum)
        self._turns: dict[str, set[tuple[str, int]]] = defaultdict(set)

    def add_session(self, session: str, events: Iterable[Event]) -> None:
        """Add the turns of a session, also those that were rewound: they were paid for."""
        opened: TurnOpened | None = None
        for event in events:
            if isinstance(event, TurnOpened):
                opened = event
            if opened is None or opened.at < self._since:
                continue
            for model, usage, cost in list_costs(event):
                name = self._find_name(opened, model)
                self._used[name] += usage
                self._costs[name].add(cost, has_used=usage.total > 0)
                self._turns[name].add((session, parse_turn(event.key)))

    def _find_name(self, opened: TurnOpened, model: str) -> str:
        if self._by == "agent":
            return opened.agent
        if self._by == "model":
            return model
        return datetime.fromtimestamp(opened.at, UTC).date().isoformat()

    def list_totals(self) -> list[SpendingTotal]:
        """Return the totals, the largest first; of days, the latest first."""
        totals = [
            SpendingTotal(name, len(self._turns[name]), used, self._costs[name].cost)
            for name, used in self._used.items()
        ]
        if self._by == "day":
            totals.sort(key=lambda total: total.name, reverse=True)
        else:
            totals.sort(key=lambda total: (-total.usage.total, total.name))
        return totals
