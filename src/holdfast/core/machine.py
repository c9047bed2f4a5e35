"""The run as a pure state machine: `apply` takes a fact, `pending` says what to do next.

Rules for editing this file. Everything that changes the state of a run is in `apply` and the
functions that it calls. Nothing here may read a clock, draw a number, or perform anything: times
stand on events. An event that the table does not allow raises and changes nothing. The result must
not depend on the order in which the tools of one iteration finish. The diagram in the docs is made
from `TRANSITIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from holdfast.core import events as ev
from holdfast.core.answer import ANSWERS_CHECKED, Tries, check_flags, given_up, without_answer
from holdfast.core.answer_by_type import parse_by_type
from holdfast.core.batch import NO_BATCH, NOT_RUN_TEXT, OVER_LIMIT_TEXT, Batch
from holdfast.core.effects import (
    CallModel,
    CheckOutput,
    CloseTurn,
    Effect,
    begun_key,
    closed_key,
    extended_key,
    index_of,
    interrupted_key,
    model_key,
    output_key,
    resumed_key,
    stopped_key,
    turn_key,
)
from holdfast.core.errors import ErrorCategory, ErrorInfo, IllegalEventError, Landed
from holdfast.core.limits import ITERATION_LIMIT_TEXT, Limits
from holdfast.core.messages import Message, Reply, ReplyKind, Usage, assistant, user
from holdfast.core.output import Invalid, OutputRung, OutputType, repair_message
from holdfast.core.points import Points, compacted, split_by
from holdfast.core.problems import Problem
from holdfast.core.question_log import ASK, QuestionLog
from holdfast.core.run_state import Phase, RunState
from holdfast.core.snapshot import Snapshot
from holdfast.core.transcript import Transcript

TRANSITIONS: dict[tuple[Phase, type[ev.Event]], tuple[Phase, ...]] = {
    (Phase.IDLE, ev.TurnOpened): (Phase.MODEL,),
    (Phase.IDLE, ev.SessionRewound): (Phase.IDLE,),
    (Phase.IDLE, ev.HistoryCompacted): (Phase.IDLE,),
    (Phase.IDLE, ev.SessionTitled): (Phase.IDLE,),
    (Phase.MODEL, ev.ModelReplied): (Phase.TOOLS, Phase.OUTPUT, Phase.MODEL, Phase.CLOSING),
    (Phase.MODEL, ev.ModelFailed): (Phase.CLOSING,),
    (Phase.MODEL, ev.QuestionAsked): (Phase.MODEL,),
    (Phase.MODEL, ev.QuestionAnswered): (Phase.MODEL,),
    (Phase.MODEL, ev.QuestionUnanswered): (Phase.MODEL,),
    (Phase.MODEL, ev.TurnResumed): (Phase.MODEL,),
    (Phase.MODEL, ev.LimitExtended): (Phase.MODEL,),
    (Phase.MODEL, ev.TurnInterrupted): (Phase.CLOSING,),
    (Phase.MODEL, ev.TurnStopped): (Phase.CLOSING,),
    (Phase.TOOLS, ev.ToolsBegun): (Phase.TOOLS,),
    (Phase.TOOLS, ev.ToolFinished): (Phase.TOOLS, Phase.MODEL, Phase.CLOSING),
    (Phase.TOOLS, ev.QuestionAsked): (Phase.TOOLS,),
    (Phase.TOOLS, ev.QuestionAnswered): (Phase.TOOLS,),
    (Phase.TOOLS, ev.QuestionUnanswered): (Phase.TOOLS,),
    (Phase.TOOLS, ev.TurnResumed): (Phase.TOOLS,),
    (Phase.TOOLS, ev.TurnInterrupted): (Phase.CLOSING,),
    (Phase.TOOLS, ev.TurnStopped): (Phase.CLOSING,),
    (Phase.OUTPUT, ev.OutputChecked): (Phase.MODEL, Phase.CLOSING),
    (Phase.OUTPUT, ev.TurnInterrupted): (Phase.CLOSING,),
    (Phase.OUTPUT, ev.TurnStopped): (Phase.CLOSING,),
    (Phase.CLOSING, ev.TurnClosed): (Phase.IDLE,),
}
"""What may happen in which phase, and which phases can follow. All else is an IllegalEventError."""

_QUESTIONS = (ev.QuestionAsked, ev.QuestionAnswered, ev.QuestionUnanswered)

# By event, as a look-up for each event must not hash an enum, which is slow.
_PHASES: dict[type[ev.Event], tuple[Phase, ...]] = {
    kind: tuple(phase for phase, other in TRANSITIONS if other is kind) for _, kind in TRANSITIONS
}

_CHANGES = (ev.SessionRewound, ev.HistoryCompacted, ev.SessionTitled)
_NUMBERED = (ev.TurnOpened, *_CHANGES)

_DEFAULT_LIMITS = Limits()
_NO_USAGE = Usage()


class RunMachine:
    """One conversation as a fold over events; it may hold many turns, one after another.

    Args:
        history: what was said before the first turn.
        output: the wanted type of answers in turns that were written before `OutputChecked`.
    """

    __slots__ = (
        "_away", "_batch", "_extended", "_flags", "_opened_at", "_planned", "_points", "_start",
        "_wanted", "applied", "error", "iteration", "last", "limits", "model_calls", "output", "partial",
        "phase", "problems", "questions", "reply", "rung", "status", "stopped", "tools_run",
        "transcript", "tried", "tries", "turn", "usage",
    )  # fmt: skip

    def __init__(self, history: Iterable[Message] = (), output: OutputType | None = None) -> None:
        self.transcript = history.fork() if isinstance(history, Transcript) else Transcript(history)
        self._points = Points(len(self.transcript))
        self._wanted = output
        self.phase = Phase.IDLE
        self.turn = 0
        self.applied = 0
        self.last: ev.Event | None = None
        self.limits = _DEFAULT_LIMITS
        self._flags = 0
        self._reset(0.0)

    def _reset(self, at: float) -> None:
        self.iteration = 0
        self.usage = _NO_USAGE
        self.tools_run = 0
        self.model_calls = 0
        self.tried: tuple[ev.Attempted, ...] = ()
        self.status = ev.Status.RUNNING
        self.error: ErrorInfo | None = None
        self.reply: Reply | None = None
        self.stopped: ev.TurnStopped | None = None
        self.partial: Reply | None = None
        self.problems: tuple[Problem, ...] = ()
        self.output: object = None
        self.rung: OutputRung = ""
        self._opened_at, self._away = at, 0.0
        self._start = len(self.transcript)
        self._batch = NO_BATCH
        self.tries = Tries()
        self._extended = ""
        self._planned: dict[str, Effect] = {}
        self.questions = QuestionLog()

    @property
    def begun(self) -> bool:
        """Whether the tools of this iteration may have started in this process or an earlier one."""
        return self._batch.begun

    def snapshot(self) -> Snapshot | None:
        """All that the next turn needs; None while one is open, or before the first."""
        if self.phase is not Phase.IDLE or self.last is None:
            return None
        points = self._points
        lengths, left = tuple(points.lengths), tuple(points.left)
        messages = tuple(self.transcript)
        return Snapshot(self.turn, self.applied, self.last, messages, lengths, left)

    def go_on_from(self, known: Snapshot) -> None:
        """Know what a snapshot knows, on a new machine."""
        self.turn, self.applied, self.last = known.turn, known.applied, known.last
        self.transcript = Transcript(known.messages)
        self._points.lengths, self._points.left = list(known.lengths), list(known.left)

    def state(self) -> RunState:
        """A copy of the state as a value."""
        return RunState(
            self.phase,
            self.turn,
            self.iteration,
            tuple(self.transcript),
            tuple(sorted(self._batch.results.items())),
            self.usage,
            self.tools_run,
            self.status,
            self.error,
            self.output,
            self.limits,
            tuple(sorted(self.questions.ended.items())),
        )

    def pending(self) -> tuple[Effect, ...]:
        """The effects that are asked for now and have no outcome yet, in plan order."""
        return tuple(self._planned.values())

    def planned(self, key: str) -> Effect | None:
        """The effect of this key, if it is pending."""
        return self._planned.get(key)

    def _plan(self, effect: Effect) -> None:
        self._planned = {effect.key: effect}

    def check(self, event: ev.Event) -> None:
        """Raise IllegalEventError unless `event` may happen now; never changes anything."""
        kind = type(event)
        if self.phase not in _PHASES.get(kind, ()):
            raise IllegalEventError(
                f"{type(event).__name__} {event.key} cannot happen while the run waits for "
                f"{self.phase.value}"
            )
        if isinstance(event, _QUESTIONS):
            self._check_question(event)
            return
        if kind in _CHANGES:
            self._check_change(event)
        if kind is ev.ModelReplied and self.over_limit:
            raise IllegalEventError(f"{event.key} is over the limit, which nobody extended")
        if event.key not in self._planned and event.key != self._unplanned(event):
            raise IllegalEventError(
                f"{type(event).__name__} has the key {event.key!r}, which is not outstanding"
            )

    def _check_question(
        self, event: ev.QuestionAsked | ev.QuestionAnswered | ev.QuestionUnanswered
    ) -> None:
        scope = event.key.partition(ASK)[0]
        scopes = (turn_key(self.turn), begun_key(self.turn, self.iteration))
        if scope not in self._planned and scope not in scopes:
            raise IllegalEventError(f"{event.key}: {scope!r} is not under way, so it cannot ask")
        if not self.questions.expects(event):
            raise IllegalEventError(
                f"{type(event).__name__} {event.key} is not about a question that is "
                + ("new" if isinstance(event, ev.QuestionAsked) else "open")
            )

    def _check_change(self, event: ev.Event) -> None:
        if isinstance(event, ev.SessionRewound) and event.to > self.turn:
            raise IllegalEventError(f"{event.key} goes back to {event.to}, which was not yet")
        if isinstance(event, ev.HistoryCompacted) and (why := split_by(self.transcript, event)):
            raise IllegalEventError(f"{event.key} cannot compact the history: {why}")

    def _unplanned(self, event: ev.Event) -> str:
        """The key of an event that ends no effect; "" for one that must end one."""
        if isinstance(event, ev.ToolsBegun):  # first, as it comes in every iteration
            return "" if self._batch.begun else begun_key(self.turn, self.iteration)
        if isinstance(event, _NUMBERED):
            check_flags(event)
            return turn_key(self.turn + 1)
        if isinstance(event, ev.TurnInterrupted):
            return interrupted_key(self.turn)
        if isinstance(event, ev.TurnStopped):
            return stopped_key(self.turn)
        if isinstance(event, ev.TurnResumed) and self.questions.due:
            return resumed_key(self.turn, self.questions.resumed)
        if isinstance(event, ev.LimitExtended) and self.limits.iterations is not None:
            key = extended_key(self.turn, self.iteration)
            return "" if self._extended == key else key
        return ""

    def apply(self, event: ev.Event, *, checked: bool = False) -> None:
        """Take one fact. Raises IllegalEventError, the state unchanged, if it cannot be true.

        Args:
            event: what happened.
            checked: `check` allowed it, and nothing was applied since.
        """
        if not checked:
            self.check(event)
        self.applied += 1
        self.last = event
        if event.key in self._planned:
            self.questions.leave(event.key, event.at)
        _HANDLERS[type(event)](self, event)

    def _opened(self, event: ev.TurnOpened) -> None:
        if event.history and not self.turn and not self.transcript:
            self.transcript = Transcript(event.history)
            self._points = Points(len(self.transcript))
        self._reset(event.at)
        self.turn += 1
        self.limits, self._flags = event.limits, event.flags
        self.transcript.append(event.message)
        self._ask_model()

    def _ask_model(self) -> None:
        self.phase = Phase.MODEL
        key = model_key(self.turn, self.iteration)
        self._plan(CallModel(key, self.iteration, len(self.transcript)))

    def _replied(self, event: ev.ModelReplied) -> None:
        reply = event.reply
        self.reply = reply
        self.model_calls += 1
        self.tried += event.tried
        self._away += event.away
        self.usage = self.usage + reply.usage
        if event.lost is not None:
            self.usage = self.usage + event.lost
        self.transcript.append(reply.message)
        calls = reply.calls
        if calls:
            self._batch = Batch(self.turn, self.iteration, calls)
            self._use_tools(unfinished=reply.kind is ReplyKind.TRUNCATED)
        elif reply.kind is ReplyKind.PAUSED:
            self._next_iteration(event.at)
        else:
            self._answered(reply, event.at)

    def _use_tools(self, *, unfinished: bool) -> None:
        most = self.limits.tool_calls
        if most is not None and self.tools_run + len(self._batch.calls) > most:
            self._fill(OVER_LIMIT_TEXT, ())
            self._reach("tool_calls", f"The limit of {most} tool calls is reached.")
            return
        self.phase = Phase.TOOLS
        self._planned = self._batch.effects(unfinished=unfinished)

    def _answered(self, reply: Reply, at: float) -> None:
        self.tries.answered(at, self.usage)
        if self._flags & ANSWERS_CHECKED:
            self.phase = Phase.OUTPUT
            key = output_key(self.turn, self.iteration)
            self._plan(CheckOutput(key, len(self.transcript)))
            return
        if self._flags or self._wanted is None:
            self.output = reply.text
            self._end(ev.Status.COMPLETED)
            return
        parsed = parse_by_type(reply.text, self._wanted)
        if isinstance(parsed, Invalid):
            self._repair(parsed.problems, at)
            return
        self.output, self.rung = parsed.value, parsed.rung
        self._end(ev.Status.COMPLETED)

    def _output_checked(self, event: ev.OutputChecked) -> None:
        self.problems, self.rung = event.problems, event.rung
        self._away += event.away
        if event.error is not None:
            self.partial = self.reply
            self._end(ev.Status.FAILED, event.error)
        elif event.rung:
            self._end(ev.Status.COMPLETED)
        else:
            self._repair(event.problems, event.at)

    def _repair(self, problems: tuple[Problem, ...], at: float) -> None:
        if self.tries.are_over(self.limits, at, self.usage):
            self.partial, self.problems = self.reply, problems
            self._end(ev.Status.FAILED, given_up(self.tries.failed + 1, problems))
            return
        self.tries.failed += 1
        self.transcript.append(user(repair_message(problems)))
        self._next_iteration(at)

    def _question_asked(self, event: ev.QuestionAsked) -> None:
        self.questions.ask(event)

    def _question_ended(self, event: ev.QuestionAnswered | ev.QuestionUnanswered) -> None:
        self.questions.end(event)

    def _limit_extended(self, event: ev.LimitExtended) -> None:
        self._extended = event.key
        most = (self.limits.iterations or 0) + event.iterations
        self.limits = msgspec.structs.replace(self.limits, iterations=most)

    @property
    def over_limit(self) -> bool:
        """Whether the limit of iterations is reached, so that the model must not be asked."""
        most = self.limits.iterations
        return most is not None and self.iteration >= most

    def _failed(self, event: ev.ModelFailed) -> None:
        self.model_calls += 1
        self.partial = event.partial
        self.tried += event.tried
        if event.partial is not None:
            self.usage = self.usage + event.partial.usage
        if event.lost is not None:
            self.usage = self.usage + event.lost
        limit = event.error.category is ErrorCategory.LIMIT and self.over_limit
        self._end(ev.Status.LIMIT if limit else ev.Status.FAILED, event.error)

    def _tools_begun(self, _event: ev.ToolsBegun) -> None:
        self._batch.begun = True

    def _tool_finished(self, event: ev.ToolFinished) -> None:
        del self._planned[event.key]
        self._batch.results[index_of(event.key)] = event.result
        self.tools_run += 1
        self._away += event.away
        if event.usage != _NO_USAGE:  # few tools ask models
            self.usage = self.usage + event.usage
        if self._batch.is_whole:
            self._append_results()
            self._next_iteration(event.at)

    def _append_results(self) -> None:
        self.transcript.append(self._batch.message())
        self._batch = NO_BATCH

    def _next_iteration(self, at: float) -> None:
        self.iteration += 1
        self.questions.leave_all(at)
        limits = self.limits
        if limits.iterations is not None and self.over_limit and not limits.extendable:
            self._reach("iterations", ITERATION_LIMIT_TEXT.format(max_iterations=limits.iterations))
        elif limits.seconds is not None and self.worked(at) >= limits.seconds:
            self._reach("seconds", f"The time limit of {limits.seconds:g} seconds is reached.")
        elif limits.tokens is not None and self.usage.total >= limits.tokens:
            self._reach("tokens", f"The limit of {limits.tokens} tokens is reached.")
        else:
            self._ask_model()

    def worked(self, at: float) -> float:
        """Seconds of the turn, without those in which somebody was asked, or no process drove it."""
        return at - self._opened_at - self._away - self.questions.stood_still(at)

    def _reach(self, limit: str, safe: str) -> None:
        info = ErrorInfo(category=ErrorCategory.LIMIT, safe=safe, code=limit, landed=Landed.NO)
        self._end(ev.Status.LIMIT, info)

    def _interrupted(self, event: ev.TurnInterrupted) -> None:
        self.partial = self.reply if self.phase is Phase.OUTPUT else event.partial
        self.usage = self.usage + event.usage
        if self.phase is Phase.TOOLS:
            self._fill(NOT_RUN_TEXT, event.started)
        if event.reason == "cancelled":
            info = ErrorInfo(
                category=ErrorCategory.CANCELLED, safe="The turn was cancelled.", code="cancelled"
            )
            self._end(ev.Status.CANCELLED, info)
        else:
            self._reach(
                "seconds", f"The time limit of {self.limits.seconds or 0:g} seconds is reached."
            )

    def _stopped(self, event: ev.TurnStopped) -> None:
        if self.phase is Phase.TOOLS:
            begun = tuple(self._planned) if self._batch.begun else ()
            self._fill(NOT_RUN_TEXT, begun)
        self.stopped = event
        if event.error is not None:
            self._end(ev.Status.FAILED, event.error)
            return
        self.transcript.append(assistant(event.text))
        self._end(ev.Status.STOPPED)

    def _fill(self, text: str, started: tuple[str, ...]) -> None:
        self._batch.fill(text, started)
        self._append_results()

    def _end(self, status: ev.Status, error: ErrorInfo | None = None) -> None:
        self.status = status
        self.error = error
        self.phase = Phase.CLOSING
        self.questions.leave_all(0.0)
        self._plan(CloseTurn(closed_key(self.turn), status, error))

    def _closed(self, event: ev.TurnClosed) -> None:
        self.status = event.status
        self.error = event.error
        if event.status is not ev.Status.COMPLETED:
            self._leave_valid_history()
        self.phase = Phase.IDLE
        self._points.mark(len(self.transcript))
        self._planned = {}

    def _rewound(self, event: ev.SessionRewound) -> None:
        self._change(self.history_at(event.to))

    def _compacted(self, event: ev.HistoryCompacted) -> None:
        self._change(compacted(self.transcript, event))

    def _titled(self, _event: ev.SessionTitled) -> None:
        self.turn += 1
        self._points.mark(len(self.transcript))

    def _change(self, messages: list[Message]) -> None:
        self.turn += 1
        self._points.change(self.transcript, messages)

    def history_at(self, number: int) -> list[Message]:
        """The history as it was when turn or change `number` was over; 0 is before the first."""
        return self._points.at(number, self.transcript)

    def _leave_valid_history(self) -> None:
        """A failed turn without effects never happened; any other ends with a word about its end."""
        if self.status is ev.Status.FAILED and not self.tools_run:
            self.transcript.truncate(self._start)
            return
        last = self.transcript[-1]
        if last.role == "assistant" and not last.calls:
            return
        self.transcript.append(without_answer(self.partial, self.error))


_HANDLERS: dict[type[ev.Event], Callable[..., None]] = {
    ev.TurnOpened: RunMachine._opened,
    ev.ModelReplied: RunMachine._replied,
    ev.ModelFailed: RunMachine._failed,
    ev.ToolsBegun: RunMachine._tools_begun,
    ev.ToolFinished: RunMachine._tool_finished,
    ev.OutputChecked: RunMachine._output_checked,
    ev.QuestionAsked: RunMachine._question_asked,
    ev.QuestionAnswered: RunMachine._question_ended,
    ev.QuestionUnanswered: RunMachine._question_ended,
    ev.TurnResumed: lambda machine, event: machine.questions.resume(event.at),
    ev.LimitExtended: RunMachine._limit_extended,
    ev.TurnInterrupted: RunMachine._interrupted,
    ev.TurnStopped: RunMachine._stopped,
    ev.TurnClosed: RunMachine._closed,
    ev.SessionRewound: RunMachine._rewound,
    ev.HistoryCompacted: RunMachine._compacted,
    ev.SessionTitled: RunMachine._titled,
}
