"""The rows of a list of sessions, as a journal saves them, and which of them a page has.

A row is written in the transaction of the record that changes it, so a list reads no records.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.effects import TITLES, is_nested_run
from holdfast.core.run_fold import RunState, split_questions
from holdfast.journal.port import RunEntry

RowStatus: TypeAlias = Literal[
    "idle", "running", "open", "waiting", "completed", "failed", "limit", "cancelled", "stopped"
]

ENDED: tuple[RowStatus, ...] = ("idle", "completed", "failed", "limit", "cancelled", "stopped")
"""The states of a session without an open turn."""


NEWEST = 1000
"""How many of the newest rows are looked at for their cost, before the others are found by it."""


class SessionRow(RunEntry, frozen=True, kw_only=True):
    """A session in the list of a journal; of one that has only titles, `run` is the run of these.

    From `title` on, the fields are those of `RunState`, with the keys of the open questions apart.
    """

    title: str = ""
    turns: int = 0
    messages: int = 0
    turn: int = 0
    status: RowStatus = "idle"
    in_doubt: bool = False
    questions: tuple[str, ...] = ()
    input: int = 0
    cached_input: int = 0
    output: int = 0
    cost: float | None = None

    @property
    def session(self) -> str:
        """The name of the session."""
        return self.run.removesuffix(TITLES)


class SessionQuery(Struct, frozen=True, kw_only=True):
    """Which sessions a list has; the latest change first, and by name at the same time.

    Args:
        limit: the maximum number of sessions.
        before: time and name of the run after which the list begins; None for the latest one.
        agent: only sessions whose last turn had this agent.
        status: only sessions in this state.
        min_cost: only sessions whose last turn cost at least this much.
        names: only these runs.
        driven: the runs that this process drives: an open turn of these is running.
    """

    limit: int
    before: tuple[float, str] | None = None
    agent: str | None = None
    status: RowStatus | None = None
    min_cost: float | None = None
    names: tuple[str, ...] | None = None
    driven: tuple[str, ...] = ()

    @property
    def group(self) -> Literal["", "cost", "agent"]:
        """The column by which an index groups the sessions, with the latest ones first; "" for none."""
        if self.names is not None or self.agent is not None or self.status in ("open", "running"):
            return ""
        if self.status is not None:
            return "agent"
        return "" if self.min_cost is None else "cost"


def format_columns(name: str, leased: str) -> str:
    """Return the columns of the fields of `SessionRow`, as SQL.

    The statement calls the run `r`, and the run of its titles `t`.

    Args:
        name: the column with the name of the run.
        leased: the expression that says whether somebody drives it.
    """
    others = {"run": f"r.{name}", "leased": leased, "title": "COALESCE(t.title, r.title)"}
    return ", ".join(others.get(field, f"r.{field}") for field in SessionRow.__struct_fields__)


def get_state(row: SessionRow, *, is_driven: bool) -> RowStatus:
    """Return the state of a session.

    Args:
        row: the session.
        is_driven: whether this process drives it.
    """
    return "running" if row.turn_open and (is_driven or row.leased) else row.status


def make_row(entry: RunEntry, state: RunState) -> SessionRow:
    """Make the row of a run from its fold."""
    return SessionRow(
        **{name: getattr(entry, name) for name in RunEntry.__struct_fields__},
        title=state.title,
        turns=state.turns,
        messages=state.messages,
        turn=state.turn,
        status=to_status(state.status),
        in_doubt=state.in_doubt,
        questions=split_questions(state.questions),
        input=state.input,
        cached_input=state.cached_input,
        output=state.output,
        cost=state.cost,
    )


def to_status(text: str) -> RowStatus:
    """Return the state that a row says."""
    for status in (*ENDED, "open", "waiting", "running"):
        if status == text:
            return status
    raise ValueError(f"no state of a session: {text!r}")


def select_sessions(
    rows: Iterable[SessionRow], wanted: SessionQuery, find_title: Callable[[str], str | None]
) -> list[SessionRow]:
    """Select the sessions of a page from all rows, as the statements of a database do.

    Args:
        rows: the rows of all runs.
        wanted: which sessions the page has.
        find_title: returns the title that a run has; None if there is no such run.
    """
    position = (-wanted.before[0], wanted.before[1]) if wanted.before else (-float("inf"), "")
    driven = frozenset(wanted.driven)
    names = None if wanted.names is None else frozenset(wanted.names)
    found = (
        row
        for row in rows
        if not is_nested_run(row.run)
        and (names is None or row.run in names)
        and _get_position(row) > position
        and _fits(row, wanted, driven)
        and not (row.run.endswith(TITLES) and find_title(row.session) is not None)
    )
    page = heapq.nsmallest(wanted.limit, found, key=_get_position)
    titles = [find_title(row.run + TITLES) for row in page]
    return [
        row if title is None else replace(row, title=title)
        for row, title in zip(page, titles, strict=True)
    ]


def _fits(row: SessionRow, wanted: SessionQuery, driven: frozenset[str]) -> bool:
    if wanted.agent is not None and row.agent != wanted.agent:
        return False
    if wanted.min_cost is not None and (row.cost is None or row.cost < wanted.min_cost):
        return False
    return wanted.status in (None, get_state(row, is_driven=row.run in driven))


def _get_position(row: RunEntry) -> tuple[float, str]:
    return -row.changed_at, row.run
