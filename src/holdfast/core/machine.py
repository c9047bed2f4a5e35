"""A run as a pure state machine: `apply` takes an event, `pending_effects` returns the next steps.

Rules for editing this file. Everything that changes the state of a run is in `apply` and the
functions that it calls. Nothing here may read a clock, draw a random number, or perform an effect:
events carry the time. An event that the table does not allow raises and changes nothing. The result
must not depend on the order in which the tools of one iteration finish. A handler of an event
changes the knowledge, and never the phase: `_enter_next_phase` reads it from `core.session_state`,
from which the diagram in the docs is generated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from holdfast.core import effects as ef
from holdfast.core import events as ev
from holdfast.core.batch import (
    NO_BATCH,
    NOT_RUN_TEXT,
    OVER_LIMIT_TEXT,
    Batch,
    OutputCall,
    count_distinct_calls,
    find_checked_call,
)
from holdfast.core.cost import Cost, CostSum
from holdfast.core.errors import ErrorCategory, ErrorInfo, IllegalEventError, Landed
from holdfast.core.limits import Limits, cost_limit
from holdfast.core.messages import (
    NO_USAGE,
    Message,
    Reply,
    ReplyKind,
    ToolCall,
    assistant,
    user,
)
from holdfast.core.output import OutputParsedBy, repair_message
from holdfast.core.output_retries import (
    OUTPUT_CHECKED,
    OUTPUT_REJECTED,
    OutputRetries,
    check_flags,
    output_error_info,
)
from holdfast.core.problems import Problem
from holdfast.core.question_log import QuestionLog
from holdfast.core.session_state import (
    ENDS_EFFECT,
    TRANSITIONS,
    Phase,
    SessionSnapshot,
    SessionState,
)
from holdfast.core.transcript import Transcript
from holdfast.core.turn_failures import INTERRUPTIONS, limit_error_info, parked_error_info
from holdfast.core.turn_history import (
    UNANSWERED,
    HistoryVersions,
    TurnHistory,
    check_change,
    compact_history,
    is_refused,
)
from holdfast.core.turn_options import TurnOptions

_QUESTIONS = (ev.QuestionAsked, ev.QuestionAnswered, ev.QuestionUnanswered)
_CHANGES = (ev.SessionRewound, ev.HistoryCompacted, ev.SessionTitled)
_NUMBERED = (ev.TurnOpened, *_CHANGES)

_DEFAULT_LIMITS = Limits()
# Access to enum members is slow, and these are needed for every turn.
_RUNNING, _COMPLETED = ev.Status.RUNNING, ev.Status.COMPLETED
_PAUSED, _TRUNCATED = ReplyKind.PAUSED, ReplyKind.TRUNCATED


class SessionMachine:
    """A conversation as a fold over events. It may have many turns, one after another.

    Args:
        history: the messages before the first turn.
    """

    __slots__ = (
        "_batch", "_costs", "_downtime", "_extended_key", "_hooks_called", "_planned", "_versions", "cut_tools",
        "drive", "error", "event_count", "flags", "iteration", "last_event", "limits", "model_calls",
        "opened_at", "options", "output", "output_retries", "parsed_by", "partial", "phase",
        "problems", "questions", "reply", "status", "stop_event", "tools_run",
        "transcript", "tried", "turn", "turn_history", "usage",
    )  # fmt: skip

    def __init__(self, history: Iterable[Message] = ()) -> None:
        self.transcript = history.fork() if type(history) is Transcript else Transcript(history)
        self._versions = HistoryVersions(len(self.transcript))
        self.turn_history = TurnHistory.after(self.transcript)
        self.phase = Phase.IDLE
        self.turn = self.event_count = 0
        self.last_event: ev.Event | None = None
        self.limits, self.flags = _DEFAULT_LIMITS, 0
        self.options: TurnOptions | None = None
        self._hooks_called: int | None = None
        self._reset_turn()

    def _reset_turn(self) -> None:
        self.iteration = self.tools_run = self.model_calls = 0
        self.usage = NO_USAGE
        self._costs = CostSum()
        self.tried: tuple[ev.FailedTarget, ...] = ()
        self.status = _RUNNING
        self.error: ErrorInfo | None = None
        self.reply: Reply | None = None
        self.stop_event: ev.TurnStopped | None = None
        self.partial: Reply | None = None
        self.problems: tuple[Problem, ...] = ()
        self.output: object = None
        self.parsed_by: OutputParsedBy = ""
        self.opened_at = self._downtime = 0.0
        self.drive = ""
        """The `traceparent` of the last drive that saved an event of the turn, if it was continued."""
        self._batch = NO_BATCH
        self.cut_tools: frozenset[str] = frozenset()
        """The names of the tools whose last call in this turn was cut at the output limit."""
        self.output_retries = OutputRetries()
        self._extended_key = ""
        self._planned: dict[str, ef.Effect] = {}
        self.questions = QuestionLog()

    @property
    def has_begun_tools(self) -> bool:
        """Whether the tools of this iteration may have started, in this process or an earlier one."""
        return self._batch.has_begun

    @property
    def tools_begun_at(self) -> float:
        """When the tools of this iteration began, in seconds since the epoch; 0 if they did not."""
        return self._batch.begun_at

    def find_checks(self, key: str) -> tuple[ev.DoubtChecked, ...]:
        """Return the answers of the checks of a call so far, by its key."""
        return self._batch.checks.get(key, ())

    def take_snapshot(self) -> SessionSnapshot | None:
        """Return all that the next turn needs; None while a turn is open, or before the first."""
        if self.phase is not Phase.IDLE or self.last_event is None:
            return None
        return SessionSnapshot(
            turn=self.turn,
            event_count=self.event_count,
            last_event=self.last_event,
            messages=tuple(self.transcript),
            lengths=tuple(self._versions.lengths),
            replaced_histories=tuple(self._versions.replaced_histories),
            answered=self.turn_history.answered,
        )

    def restore_snapshot(self, snapshot: SessionSnapshot) -> None:
        """Set the state of a new machine to that of a snapshot."""
        self.turn, self.event_count = snapshot.turn, snapshot.event_count
        self.last_event = snapshot.last_event
        self.turn_history.answered = snapshot.answered
        self.transcript = Transcript(snapshot.messages)
        self._versions.lengths = list(snapshot.lengths)
        self._versions.replaced_histories = list(snapshot.replaced_histories)

    def copy_state(self) -> SessionState:
        """Return a copy of the state as a value."""
        return SessionState(
            phase=self.phase,
            turn=self.turn,
            iteration=self.iteration,
            messages=tuple(self.transcript),
            results=tuple(sorted(self._batch.results.items())),
            usage=self.usage,
            tools_run=self.tools_run,
            status=self.status,
            error=self.error,
            output=self.output,
            limits=self.limits,
            questions=tuple(sorted(self.questions.outcomes.items())),
        )

    def pending_effects(self) -> tuple[ef.Effect, ...]:
        """Return the planned effects that have no outcome yet, in the order of the plan."""
        return tuple(self._planned.values())

    def find_pending(self, key: str) -> ef.Effect | None:
        """Return the effect of this key, if it is pending."""
        return self._planned.get(key)

    def allows_event(self, kind: type[ev.Event]) -> bool:
        """Whether the current phase allows events of this kind."""
        return kind in TRANSITIONS[self.phase]

    def check_event(self, event: ev.Event) -> None:
        """Raise IllegalEventError unless `event` may happen now; never changes anything."""
        kind = type(event)
        if kind not in TRANSITIONS[self.phase]:
            raise IllegalEventError(
                f"{kind.__name__} {event.key} cannot happen while the run waits for "
                f"{self.phase.value}"
            )
        if kind is ev.ModelReplied and self.is_over_limit():
            raise IllegalEventError(f"{event.key} is over the limit of iterations")
        if kind in ENDS_EFFECT and event.key in self._planned:
            return  # nearly every event
        if isinstance(event, _QUESTIONS):
            scopes = (*self._planned, *ef.asking_scopes(self.turn, self.iteration))
            self.questions.check_event(event, scopes)
            return
        if kind in _CHANGES:
            check_change(event, self.turn, self.transcript)
        if isinstance(event, ev.TurnOpened) and event.message is None and not self.can_try_again:
            raise IllegalEventError(f"{event.key} has no message, and no turn to try again")
        if event.key != self._key_without_effect(event):
            raise IllegalEventError(f"{kind.__name__} has a key that is not pending: {event.key!r}")

    def _key_without_effect(self, event: ev.Event) -> str | None:
        """Return the key of an event that ends no effect; None for an event that must end one."""
        if isinstance(event, ev.ToolsBegun):  # first, since it comes in every iteration
            return None if self._batch.has_begun else ef.begun_key(self.turn, self.iteration)
        if isinstance(event, ev.DoubtChecked):
            call = find_checked_call(event.key)
            is_open = call in self._planned and self._batch.has_begun
            return ef.check_key(call, len(self.find_checks(call))) if is_open else None
        if isinstance(event, _NUMBERED):
            check_flags(event)
            return ef.turn_key(self.turn + 1)
        if isinstance(event, ev.ResultsWithheld) and self.turn_history.find_new_results(
            self.transcript
        ):
            return ef.withheld_key(self.turn, self.iteration)
        if isinstance(event, ev.TurnInterrupted):
            return ef.interrupted_key(self.turn)
        if isinstance(event, ev.TurnStopped):
            return ef.stopped_key(self.turn)
        if isinstance(event, ev.TurnResumed) and self.questions.due_askers:
            return ef.resumed_key(self.turn, self.questions.resume_count)
        if isinstance(event, ev.LimitExtended) and self.limits.iterations is not None:
            key = ef.extended_key(self.turn, self.iteration)
            return None if self._extended_key == key else key
        return None

    def apply(self, event: ev.Event, *, is_checked: bool = False) -> None:
        """Apply one event. Raises IllegalEventError, and changes nothing, if the state forbids it.

        Args:
            event: the event.
            is_checked: whether `check_event` has allowed it, and nothing was applied since.
        """
        if not is_checked:
            self.check_event(event)
        self.event_count += 1
        self.last_event = event
        if self._planned.pop(event.key, None) is not None:
            self.questions.close_asker(event.key, event.at)
        kind = type(event)
        _HANDLERS[kind](self, event)
        self._enter_next_phase(kind)

    def _enter_next_phase(self, kind: type[ev.Event]) -> None:
        """Enter the phase that the table says. A phase may last while one of its effects is pending."""
        phases = TRANSITIONS[self.phase][kind]
        if self._planned and self.phase in phases:
            return
        for phase in phases[:-1]:
            if _CONDITIONS[phase](self):
                break
        else:
            phase = phases[-1]
        self.phase = phase
        self._planned = _PLANS[phase](self)

    def _awaits_check(self) -> bool:
        """Whether the last reply is an output that must be checked."""
        if not self.flags & OUTPUT_CHECKED:
            return False
        return self.reply is not None and self.reply.kind is not _PAUSED

    def _on_turn_opened(self, event: ev.TurnOpened) -> None:
        if event.history and not self.turn and not self.transcript:
            self.transcript = Transcript(event.history)
            self._versions = HistoryVersions(len(self.transcript))
            self.turn_history = TurnHistory.after(self.transcript)
        if self.turn:
            self._reset_turn()
        self.turn, self.opened_at = self.turn + 1, event.at
        self.limits, self.flags, self.options = event.limits, event.flags, event.options
        self._hooks_called = event.hooks_called
        self.turn_history.open_turn(self.transcript, event.message)

    def _on_turn_accepted(self, event: ev.TurnAccepted) -> None:
        self._hooks_called = None
        if event.message is not None:
            self.turn_history.replace_message(self.transcript, event.message)

    def _on_model_replied(self, event: ev.ModelReplied) -> None:
        reply = self.reply = event.reply
        self.model_calls += 1
        self.tried += event.tried
        self._downtime += event.downtime
        self.drive = event.drive or self.drive
        self._costs.add(event.cost, has_used=event.attempts > 0)
        self.usage = reply.usage if self.usage is NO_USAGE else self.usage + reply.usage
        if event.lost is not None:
            self.usage = self.usage + event.lost
        if event.attempts:
            self.turn_history.answered = len(self.transcript)
        self.transcript.append(Message("assistant", reply.parts))
        calls = reply.calls
        if calls:
            self._take_calls(event, calls)
        elif reply.kind is _PAUSED:
            self._begin_iteration(event.at)
        else:
            self._take_output(reply, event.at)

    def allows_tools(self, calls: tuple[ToolCall, ...]) -> bool:
        """Whether the tools of a reply with these calls come next."""
        most = self.limits.tool_calls
        return bool(calls) and (
            most is None or self.tools_run + count_distinct_calls(calls) <= most
        )

    def _take_calls(self, event: ev.ModelReplied, calls: tuple[ToolCall, ...]) -> None:
        is_cut, by_code = event.reply.kind is _TRUNCATED, bool(event.by)
        if is_cut:
            self.cut_tools |= {calls[-1].name}
        elif self.cut_tools:
            self.cut_tools -= {call.name for call in calls}
        self._batch = Batch(self.turn, self.iteration, calls, unfinished=is_cut, by_code=by_code)
        if not self.allows_tools(calls):
            self._fill_results(OVER_LIMIT_TEXT, ())
            self._end_at_limit("tool_calls")

    def _take_output(self, reply: Reply, at: float) -> None:
        self.output_retries.record_output(self.working_seconds(at), self.usage)
        if not self._awaits_check():
            self.output = reply.text
            self._end_turn(_COMPLETED)

    def _on_output_checked(self, event: ev.OutputChecked) -> None:
        self.problems, self.parsed_by = event.problems, event.parsed_by
        self._downtime += event.downtime
        self.drive = event.drive or self.drive
        if event.error is not None:
            self.partial = self.reply
            self._end_turn(ev.Status.FAILED, event.error)
        elif event.call is not None:
            self._batch = OutputCall(self.turn, self.iteration, event.call)
        elif event.parsed_by:
            self._end_turn(_COMPLETED)
        else:
            self._retry_output(event.problems, event.at)

    def _retry_output(self, problems: tuple[Problem, ...], at: float) -> None:
        if self.output_retries.are_exhausted(self.limits, self.working_seconds(at), self.usage):
            self.partial, self.problems = self.reply, problems
            info = output_error_info(self.output_retries.failed + 1, problems)
            self._end_turn(ev.Status.FAILED, info)
        else:
            self.output_retries.failed += 1
            self.transcript.append(user(repair_message(problems)))
            self._begin_iteration(at)

    def _on_limit_extended(self, event: ev.LimitExtended) -> None:
        self._extended_key = event.key
        most = (self.limits.iterations or 0) + event.iterations
        self.limits = msgspec.structs.replace(self.limits, iterations=most)

    def is_over_limit(self) -> bool:
        """Whether the limit of iterations is reached, so that the model must not be asked."""
        most = self.limits.iterations
        return most is not None and self.iteration >= most

    def _on_model_failed(self, event: ev.ModelFailed) -> None:
        self.model_calls += 1
        self.partial = event.partial
        self.tried += event.tried
        spent = event.partial.usage if event.partial is not None else NO_USAGE
        used = spent + (event.lost or NO_USAGE)
        self._costs.add(event.cost, has_used=used.total > 0)
        self.usage = self.usage + used
        limit = event.error.category is ErrorCategory.LIMIT and (
            event.error.code == "cost" or self.is_over_limit()
        )
        self._end_turn(ev.Status.LIMIT if limit else ev.Status.FAILED, event.error)

    def _on_results_withheld(self, event: ev.ResultsWithheld) -> None:
        self.tried += event.tried
        self._costs.add(event.cost, has_used=event.lost is not None)
        self.usage = self.usage + (event.lost or NO_USAGE)
        self.turn_history.withhold_results(self.transcript)

    def _on_tool_finished(self, event: ev.ToolFinished) -> None:
        self._batch.add_result(event)
        self.tools_run += not event.same_as
        self._downtime += event.downtime
        self.drive = event.drive or self.drive
        if event.usage != NO_USAGE:  # few tools ask models
            self._costs.add(event.cost, has_used=True)
            self.usage = self.usage + event.usage
        if self._batch.is_output:
            self._take_function_result(event)
        elif self._batch.is_whole():
            self._append_results()
            self._begin_iteration(event.at)

    def _take_function_result(self, event: ev.ToolFinished) -> None:
        """End the turn with the result of an output function, or ask the model again."""
        result, error = event.result, event.error
        if not result.is_error:
            self.output = result
            self._end_turn(_COMPLETED)
            return
        self.parsed_by = ""
        if error is not None and error.code == OUTPUT_REJECTED:
            self._batch = NO_BATCH
            self._retry_output((Problem("", result.text),), event.at)
            return
        if error is None or error.landed is not Landed.NO:
            self._append_results()
        else:
            self._batch = NO_BATCH
        self.partial = self.reply
        self._end_turn(ev.Status.FAILED, error)

    def _append_results(self) -> None:
        self.turn_history.add_results(self.transcript, self._batch.build_message())
        if not self._batch.is_output:
            self._batch = NO_BATCH

    def _begin_iteration(self, at: float) -> None:
        """Count the next iteration, or end the turn if it has reached a limit."""
        self.iteration += 1
        self.questions.close_all(at)
        limits = self.limits
        if self.is_over_limit() and not limits.extendable:
            self._end_at_limit("iterations")
        elif limits.seconds is not None and self.working_seconds(at) >= limits.seconds:
            self._end_at_limit("seconds")
        elif limits.tokens is not None and self.usage.total >= limits.tokens:
            self._end_at_limit("tokens")
        elif limits.cost is not None and self.is_over_cost():
            self._end_at_limit("cost")

    @property
    def cost(self) -> Cost | None:
        """The cost of the attempts of the turn; None without prices."""
        return self._costs.cost

    def is_over_cost(self) -> bool:
        """Whether the known cost of the turn has reached its limit."""
        limit, cost = cost_limit(self.limits), self.cost
        return limit is not None and cost is not None and cost.amount >= limit

    def working_seconds(self, at: float) -> float:
        """Return the seconds of the turn without those in which it waited or no process drove it."""
        return at - self.opened_at - self._downtime - self.questions.waiting_seconds(at)

    def _end_at_limit(self, name: str, waited_for: str = "") -> None:
        self._end_turn(ev.Status.LIMIT, limit_error_info(self.limits, name, waited_for))

    def _on_turn_interrupted(self, event: ev.TurnInterrupted) -> None:
        self.partial = self.reply if self.phase is Phase.OUTPUT else event.partial
        self._costs.add(event.cost, has_used=event.usage.total > 0)
        self.usage = self.usage + event.usage
        if self.phase is Phase.TOOLS:
            self._fill_results(NOT_RUN_TEXT, event.started)
        if (error := INTERRUPTIONS.get(event.reason)) is not None:
            self._end_turn(ev.Status.CANCELLED, error)
        elif event.reason == "parked":
            self._end_turn(ev.Status.FAILED, parked_error_info(event.why))
        else:
            self._end_at_limit("seconds", event.waited_for)

    def _on_turn_stopped(self, event: ev.TurnStopped) -> None:
        if self.phase is Phase.TOOLS:
            begun = tuple(self._planned) if self._batch.has_begun else ()
            self._fill_results(NOT_RUN_TEXT, begun)
        self.stop_event = event
        if event.error is not None:
            self._end_turn(ev.Status.FAILED, event.error)
            return
        if not event.refused:
            self.transcript.append(assistant(event.text))
        self._end_turn(ev.Status.STOPPED)

    def _fill_results(self, text: str, started: tuple[str, ...]) -> None:
        self._batch.fill_missing(text, started)
        if started or not self._batch.is_output:
            self._append_results()
        else:
            self._batch = NO_BATCH

    def _end_turn(self, status: ev.Status, error: ErrorInfo | None = None) -> None:
        self.status, self.error = status, error
        self.questions.close_all(0.0)

    def _on_turn_closed(self, event: ev.TurnClosed) -> None:
        self.questions.close_all(event.at)
        self.status, self.error = event.status, event.error
        if event.status is not _COMPLETED:
            accepted = self._hooks_called is None and not is_refused(self.stop_event, self.error)
            keep = accepted or bool(self.tools_run)
            self.turn_history.close_turn(self.transcript, event.status, self.partial, keep=keep)
        self._versions.add_version(len(self.transcript))

    def _on_session_titled(self, _event: ev.SessionTitled) -> None:
        self.turn += 1
        self._versions.add_version(len(self.transcript))

    def _change_history(self, messages: list[Message]) -> None:
        self.turn += 1
        known = TurnHistory.after(messages)
        if list(self.transcript[: len(messages)]) == messages:
            # It was only shortened: a reply that code gave has answered nothing, as before.
            known.answered = min(known.answered, self.turn_history.answered)
        self.turn_history = known
        self._versions.replace_history(self.transcript, messages)

    def history_at(self, number: int) -> list[Message]:
        """Return the history as it was after turn or change `number`; 0 is before the first."""
        return self._versions.history_at(number, self.transcript)

    @property
    def can_try_again(self) -> bool:
        """Whether the last turn has no answer, for a reason that may pass."""
        return (
            self.phase is Phase.IDLE
            and self.status in UNANSWERED
            and self.turn_history.needs_answer
            and not self._batch.is_output
            and not is_refused(self.stop_event, self.error)
        )


# Tables instead of tests, since the attributes of an enum are slow to read.
_CONDITIONS: dict[Phase, Callable[[SessionMachine], bool]] = {
    Phase.OPENING: lambda machine: machine._hooks_called is not None,
    Phase.CLOSING: lambda machine: machine.status is not _RUNNING,
    Phase.TOOLS: lambda machine: not machine._batch.is_whole(),
    Phase.OUTPUT: lambda machine: machine._awaits_check(),
}
"""The condition on the state for a phase to follow; the last one of a row follows in any state."""

_PLANS: dict[Phase, Callable[[SessionMachine], dict[str, ef.Effect]]] = {
    Phase.IDLE: lambda _: {},
    Phase.OPENING: lambda at: ef.plan_acceptance(at.turn, at._hooks_called or 0),
    Phase.MODEL: lambda at: ef.plan_model(at.turn, at.iteration, len(at.transcript)),
    Phase.TOOLS: lambda at: at._batch.plan_effects(),
    Phase.OUTPUT: lambda at: ef.plan_check(at.turn, at.iteration, len(at.transcript)),
    Phase.CLOSING: lambda at: ef.plan_closing(at.turn, at.status, at.error),
}
"""The effects that each phase begins with, by key."""

_HANDLERS: dict[type[ev.Event], Callable[..., None]] = {
    ev.TurnOpened: SessionMachine._on_turn_opened,
    ev.TurnAccepted: SessionMachine._on_turn_accepted,
    ev.ModelReplied: SessionMachine._on_model_replied,
    ev.ModelFailed: SessionMachine._on_model_failed,
    ev.ResultsWithheld: SessionMachine._on_results_withheld,
    ev.ToolsBegun: lambda machine, event: machine._batch.begin(event.at),
    ev.DoubtChecked: lambda machine, event: machine._batch.add_check(event),
    ev.ToolFinished: SessionMachine._on_tool_finished,
    ev.OutputChecked: SessionMachine._on_output_checked,
    ev.QuestionAsked: lambda machine, event: machine.questions.add_question(event),
    ev.QuestionAnswered: lambda machine, event: machine.questions.close_question(event),
    ev.QuestionUnanswered: lambda machine, event: machine.questions.close_question(event),
    ev.TurnResumed: lambda machine, event: machine.questions.resume_due(event.at),
    ev.LimitExtended: SessionMachine._on_limit_extended,
    ev.TurnInterrupted: SessionMachine._on_turn_interrupted,
    ev.TurnStopped: SessionMachine._on_turn_stopped,
    ev.TurnClosed: SessionMachine._on_turn_closed,
    ev.SessionRewound: lambda machine, event: machine._change_history(machine.history_at(event.to)),
    ev.HistoryCompacted: lambda machine, event: machine._change_history(
        compact_history(machine.transcript, event)
    ),
    ev.SessionTitled: SessionMachine._on_session_titled,
}
