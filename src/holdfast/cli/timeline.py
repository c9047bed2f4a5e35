"""The course of a recorded run, as data: its turns, and the effects of each turn with their times.

Everything is computed from the records alone, so the result for a journal never changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core import events as ev
from holdfast.core.cost import ZERO, Cost, CostSum
from holdfast.core.error_info import ErrorInfo
from holdfast.core.messages import Usage
from holdfast.core.question_log import ASKED
from holdfast.core.run_fold import list_usage
from holdfast.core.session_state import SessionState
from holdfast.journal.port import Record
from holdfast.models.prices import PricedModel, Prices
from holdfast.sessions.session_history import Kind, Replay, list_surviving_turns
from holdfast.testing.event_text import describe_event


class Attempt(Struct, frozen=True, omit_defaults=True):
    """A model that failed before another model replied."""

    target: str
    attempts: int
    error: ErrorInfo


class TimelineEntry(Struct, frozen=True, omit_defaults=True):
    """One effect or one question.

    Args:
        key: its key.
        after: seconds from the beginning of the turn to the end of the effect.
        took: seconds from when it became pending to its end; None for an event without duration.
        summary: the outcome, in a few words.
        attempts: the number of attempts.
        error: the error, if it failed.
        usage: tokens of a model call with all its attempts, or of an agent that ran as a tool.
        cost: their cost, as far as it is known; None if nobody knew prices.
        tried: the models that failed before.
    """

    key: str
    after: float
    took: float | None
    summary: str
    attempts: int = 1
    error: ErrorInfo | None = None
    usage: Usage | None = None
    cost: Cost | None = None
    tried: tuple[Attempt, ...] = ()


class TurnLine(Struct, frozen=True, omit_defaults=True):
    """One turn, or one change of the history.

    Args:
        number: the number of the turn or change.
        at: when it began, in seconds since the epoch.
        text: the user's message, or a description of the change.
        status: how it ended; "running" for a turn without an end.
        seconds: how long it took, including its waits.
        waited: seconds in which a question was open.
        answer: the text of the answer.
        error: the error, if it failed.
        usage: tokens of all model calls in it, as its result counts them.
        cost: their cost, as far as it is known; None if nobody knew prices.
        entries: its effects and questions, in the order in which they ended.
        kind: a turn, or the kind of change.
        counts: False for a turn or change that was rewound, and for a rewind itself.
    """

    number: int
    at: float
    text: str
    status: str
    seconds: float = 0.0
    waited: float = 0.0
    answer: str = ""
    error: ErrorInfo | None = None
    usage: Usage = Usage()
    cost: Cost | None = None
    entries: tuple[TimelineEntry, ...] = ()
    kind: Kind = "turn"
    counts: bool = True


def build_timeline(records: Sequence[Record], prices: Prices | None = None) -> list[TurnLine]:
    """Build the turns of a run and the changes of its history, in order.

    Args:
        records: all records of the run.
        prices: computes the costs again; None shows those that were saved.

    Raises:
        IllegalEventError: the records do not form a run.
    """
    clock, turns, rewinds = _TimedReplay(records), [], {}
    for _ in records:
        event, took = clock.apply_next()
        if isinstance(event, ev.TurnOpened | ev.SessionRewound | ev.HistoryCompacted):
            turns.append(_begin_turn(clock.machine.turn, event))
        elif turns:
            turns[-1] = _add_event(turns[-1], event, took, clock, prices)
        if isinstance(event, ev.SessionRewound):
            rewinds[turns[-1].number] = event.to
    alive = set(list_surviving_turns(len(turns), rewinds))
    return [replace(turn, counts=turn.number in alive) for turn in turns]


def state_at(records: Sequence[Record], key: str) -> tuple[SessionState, tuple[str, ...]] | None:
    """Return the state after the event of this key and the pending keys; None if there is no such event."""
    replay = Replay(records)
    for _ in records:
        if replay.apply_next().key == key:
            machine = replay.machine
            return machine.copy_state(), tuple(effect.key for effect in machine.pending_effects())
    return None


class _TimedReplay:
    """Replays the events and remembers when each effect became pending."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._replay = Replay(records)
        self._begins: dict[str, float] = {}
        self.machine = self._replay.machine

    def apply_next(self) -> tuple[ev.Event, float | None]:
        """Apply the next event; return it with the duration of the effect that it ends."""
        event = self._replay.apply_next()
        began = self._begins.pop(event.key, None)
        for effect in self.machine.pending_effects():
            if isinstance(event, ev.ToolsBegun):
                self._begins[effect.key] = event.at
            self._begins.setdefault(effect.key, event.at)
        if isinstance(event, ev.QuestionAsked):
            self._begins[event.key.removesuffix(ASKED)] = event.at
        return event, None if began is None else max(0.0, event.at - began)


def _begin_turn(
    number: int, event: ev.TurnOpened | ev.SessionRewound | ev.HistoryCompacted
) -> TurnLine:
    if isinstance(event, ev.TurnOpened):
        text = "(the last message again)" if event.message is None else event.message.text
        return TurnLine(number, event.at, text, ev.Status.RUNNING.value)
    kind: Kind = "rewind" if isinstance(event, ev.SessionRewound) else "compaction"
    return TurnLine(number, event.at, describe_event(event), "history changed", kind=kind)


def _add_event(
    turn: TurnLine,
    event: ev.Event,
    took: float | None,
    replay: _TimedReplay,
    prices: Prices | None,
) -> TurnLine:
    """Return the turn with one more event."""
    turn = replace(turn, seconds=max(turn.seconds, event.at - turn.at))
    if isinstance(event, ev.TurnClosed):
        reply = replay.machine.reply
        completed = event.status is ev.Status.COMPLETED
        answer = reply.text if completed and reply is not None else turn.answer
        return replace(turn, status=event.status.value, error=event.error, answer=answer)
    if isinstance(event, ev.ToolsBegun):
        return turn
    usage = _get_usage(event)
    cost = getattr(event, "cost", None)
    if prices is not None and usage is not None:
        cost = _price_again(event, prices)
    entry = TimelineEntry(
        key=event.key,
        after=event.at - turn.at,
        took=took,
        summary=describe_event(event),
        attempts=getattr(event, "attempts", 1),
        error=getattr(event, "error", None),
        usage=usage,
        cost=cost,
        tried=tuple(
            Attempt(failed.target, failed.attempts, failed.error)
            for failed in getattr(event, "tried", ())
        ),
    )
    waited = took if isinstance(event, ev.QuestionAnswered | ev.QuestionUnanswered) else None
    return replace(
        turn,
        waited=turn.waited + (waited or 0.0),
        usage=turn.usage + (usage or Usage()),
        cost=_add_cost(turn, cost, usage),
        answer=event.text if isinstance(event, ev.TurnStopped) else turn.answer,
        entries=(*turn.entries, entry),
    )


def _add_cost(turn: TurnLine, cost: Cost | None, usage: Usage | None) -> Cost | None:
    total = CostSum()
    total.add(turn.cost, has_used=turn.usage.total > 0)
    total.add(cost, has_used=usage is not None and usage.total > 0)
    return total.cost


def _price_again(event: ev.Event, prices: Prices) -> Cost:
    """Return what the tokens of an event cost at other prices than those of the time."""
    total, tier = Cost(ZERO, prices.currency), ""
    if isinstance(event, ev.ModelReplied):
        tier = event.reply.tier
    for model, usage in list_usage(event):
        provider, colon, name = model.partition(":")
        priced = PricedModel(name, "", provider) if colon else PricedModel(model)
        total += prices.cost_of(priced, usage, tier, event.at)
    return total


def _get_usage(event: ev.Event) -> Usage | None:
    """Return the tokens that the machine counts for this event, including failed attempts."""
    used = [usage for _, usage in list_usage(event)]
    return sum(used, Usage()) if used or isinstance(event, ev.ModelFailed) else None
