"""The answers of `/api/v1`, as types. Its client decodes them with the same types.

This module must never read a journal.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from holdfast.core.cost import Cost
from holdfast.core.error_info import ErrorInfo
from holdfast.core.messages import Message, Usage
from holdfast.event_log.stream_items import SessionState, StreamItem
from holdfast.sessions.session_history import Point


class ToolView(Struct, frozen=True):
    """A tool of an agent.

    Args:
        name: its name.
        description: its description, for the model.
        parameters: the JSON Schema of its arguments.
        effect: "read", "idempotent" or "write"; "" if it is not declared.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    effect: Literal["", "read", "idempotent", "write"] = ""


class AgentView(Struct, frozen=True):
    """An agent of the service.

    Args:
        name: its name.
        description: the first sentence of its instructions.
        model: the name of its first model.
        tools: its tools; a toolset may add others in a turn.
        output_schema: the JSON Schema of its output, if it is not text.
    """

    name: str
    description: str
    model: str
    tools: tuple[ToolView, ...]
    output_schema: dict[str, Any] | UnsetType = UNSET


class SessionSummary(Struct, frozen=True, kw_only=True):
    """A session.

    Args:
        session: its name.
        title: its title, or the beginning of its first message.
        agent: the name of the agent of its last turn.
        turns: the number of turns that count.
        messages: about how many messages these turns have.
        opened_at: the time of its first record, in seconds since the epoch.
        changed_at: the time of its latest record.
        turn: the number of its last turn; 0 if it has none.
        turn_status: the state of that turn.
        in_doubt: whether a tool of that turn may have taken effect, and nobody knows.
        questions: the keys of the open questions.
        turn_usage: the tokens of that turn so far: input, cached input and output.
        turn_cost: about their cost, at the prices of the process which drove the turn; absent if
            one of them was not known.
        position: the place in the event log after everything so far.
        found: with a search: the text that was found, with some words around it.
    """

    session: str
    title: str
    agent: str
    turns: int
    messages: int
    opened_at: float
    changed_at: float
    turn: int
    turn_status: SessionState
    in_doubt: bool = False
    questions: tuple[str, ...] = ()
    turn_usage: Usage = Usage()
    turn_cost: float | UnsetType = UNSET
    position: str = "0"
    found: str | UnsetType = UNSET


class SessionPage(Struct, frozen=True):
    """Some sessions, the latest change first.

    Args:
        sessions: the sessions.
        next: the value of `before` for the next page; absent on the last one. A page with a
            filter may have fewer sessions than asked for, and another page after it.
    """

    sessions: tuple[SessionSummary, ...]
    next: str | UnsetType = UNSET


class DeletedSession(Struct, frozen=True):
    """A session that is not there.

    Args:
        session: its name.
    """

    session: str


class SessionsChanged(Struct, frozen=True, tag_field="type", tag="sessions"):
    """Sessions were made, have changed or were deleted.

    Args:
        sessions: the sessions as a list shows them, without regard to any filter.
        deleted: those that were deleted, or have no record yet.
    """

    sessions: tuple[SessionSummary, ...]
    deleted: tuple[DeletedSession, ...] = ()


class ListChanged(Struct, frozen=True, tag_field="type", tag="list"):
    """More sessions have changed than are named, or it is not known which: read the list again."""


class QueueChanged(Struct, frozen=True, tag_field="type", tag="queue"):
    """The queue of the tenant or its limits have changed: read it again."""


class EndpointsChanged(Struct, frozen=True, tag_field="type", tag="endpoints"):
    """Something else is known of the endpoints of models: read them again."""


class ChangesEnd(Struct, frozen=True, tag_field="type", tag="end"):
    """The stream ends here.

    Args:
        reason: "shutting_down" (the process stops: connect again), "access_ended" (the key was revoked or
            has expired, or the person has signed out) or "time_over" (it lasted as long as was asked for).
    """

    reason: Literal["shutting_down", "access_ended", "time_over"]


ChangeItem: TypeAlias = SessionsChanged | ListChanged | QueueChanged | EndpointsChanged
"""The changes of a tenant."""

ChangeEvent: TypeAlias = ChangeItem | ChangesEnd
"""The events of the stream of changes."""


class HistoryView(Struct, frozen=True):
    """The content of a session.

    Args:
        messages: the messages of the next request to a model before the new one.
        points: the turns and changes of the session, with their numbers.
        open: whether the last turn has not ended.
    """

    messages: tuple[Message, ...]
    points: tuple[Point, ...]
    open: bool


class QuestionView(Struct, frozen=True, kw_only=True):
    """An open question.

    Args:
        session: the session that waits.
        agent: the name of its agent.
        key: the key of the question, for the answer.
        binding: a digest of its content, for the answer.
        kind: the name of the class of the question, such as "PermissionQuestion".
        question: its content: of a PermissionQuestion `tool`, `arguments`, `description`.
        asked_at: when it was asked, in seconds since the epoch.
        until: when an answer is too late; null for never.
        title: the title of the session.
        turn: the number of the turn.
    """

    session: str
    agent: str
    key: str
    binding: str
    kind: str
    question: dict[str, Any]
    asked_at: float
    until: float | None = None
    title: str = ""
    turn: int = 0


class QuestionPage(Struct, frozen=True):
    """Some open questions; those of the session that waits longest come first.

    Args:
        questions: the questions.
        next: the value of `after` for the next page; absent on the last one. A page may have
            fewer questions than asked for, and another page after it.
    """

    questions: tuple[QuestionView, ...]
    next: str | UnsetType = UNSET


class TurnView(Struct, frozen=True, kw_only=True):
    """A turn, as far as the journal has it.

    Args:
        session: its session.
        turn: its number; 0 while it is queued.
        agent: the name of its agent.
        status: its state.
        text: the text of the last reply; the part that arrived, if the turn did not complete.
        output: the output as JSON, of a turn that completed with one that is not text.
        usage: the tokens of all attempts, also of failed ones, and of agents in its tools.
        cost: their cost; absent if the price of a model is not known.
        iterations: the number of model calls with an outcome.
        error: why it did not complete.
        questions: the open questions.
        metadata: the metadata of its caller.
        request: the idempotency key with which it was started; "" without one.
        by: who started it.
        position: the place in the event log after everything that this view contains.
        opened_at: when it began, in seconds since the epoch.
        closed_at: when it ended; null while it has not.
        entry: its number in the queue, in the answer to a request that queues it; otherwise 0.
    """

    session: str
    turn: int
    agent: str
    status: SessionState
    text: str = ""
    output: Any = None
    usage: Usage = Usage()
    cost: float | UnsetType = UNSET
    iterations: int = 0
    error: ErrorInfo | None = None
    questions: tuple[QuestionView, ...] = ()
    metadata: dict[str, Any] = {}
    request: str = ""
    by: str = ""
    position: str = "0"
    opened_at: float = 0.0
    closed_at: float | None = None
    entry: int = 0


class TurnState(Struct, frozen=True):
    """The last turn of a session after an act.

    Args:
        session: the session.
        turn: the number of its last turn; 0 if there is none.
        status: its state.
    """

    session: str
    turn: int
    status: SessionState


class ForkView(Struct, frozen=True):
    """A copy of a session.

    Args:
        session: its name.
        turn: the number of the turn that was started in it; absent without `edit`, and while the turn
            is queued.
    """

    session: str
    turn: int | UnsetType = UNSET


class ChangeView(Struct, frozen=True):
    """A change of a history.

    Args:
        number: the number of the change in the session; null if nothing was changed.
    """

    number: int | None


class AnswerView(Struct, frozen=True):
    """Whether an answer counts.

    Args:
        accepted: whether it counts.
        reason: otherwise why not: "unknown" (there is no such question), "mismatch" (it belongs to
            another question), "answered" (somebody else was first) or "late".
        by_whom: who gave the answer that counts.
    """

    accepted: bool
    reason: Literal["", "unknown", "mismatch", "answered", "late"] = ""
    by_whom: str = ""


class EventsView(Struct, frozen=True):
    """The saved items after a position.

    Args:
        items: the items, as a stream would send them.
        position: the place after them.
    """

    items: tuple[StreamItem, ...]
    position: str


class MediaView(Struct, frozen=True):
    """Bytes that were sent.

    Args:
        media: their name, for a part of a message.
        media_type: their type.
        size: their number.
    """

    media: str
    media_type: str
    size: int


class UsageTotal(Struct, frozen=True):
    """The usage of one agent, model or day.

    Args:
        name: the agent, the model, or the day as "2026-11-22" in UTC.
        turns: how many turns.
        usage: their tokens, also of failed attempts.
        cost: their cost; absent if the price of a model is not known.
    """

    name: str
    turns: int
    usage: Usage
    cost: float | UnsetType = UNSET


class UsageView(Struct, frozen=True):
    """Totals of usage.

    Args:
        by: the unit of the totals.
        totals: the totals, the largest first; of days, the latest first.
        complete: false if older sessions were not counted, because there are too many.
    """

    by: Literal["agent", "model", "day"]
    totals: tuple[UsageTotal, ...]
    complete: bool = True


class ActView(Struct, frozen=True):
    """An act of somebody on a session.

    Args:
        act: "cancel", "resume", "abandon", "rewind", "compact", "fork", "title" or "answer".
        by: the name of the key, or of the local user.
        at: when, in seconds since the epoch.
        details: such as the number of a change.
    """

    act: str
    by: str
    at: float
    details: dict[str, Any] = {}


ActList: TypeAlias = tuple[ActView, ...]
AgentList: TypeAlias = tuple[AgentView, ...]
QuestionList: TypeAlias = tuple[QuestionView, ...]


def to_number(cost: Cost | None) -> float | None:
    """Return a cost as a number of JSON; None if it is not known."""
    total = None if cost is None else cost.total
    return None if total is None else float(total)


def to_field(value: float | None) -> float | UnsetType:
    """Return a value as a field that is absent without it."""
    return UNSET if value is None else value
