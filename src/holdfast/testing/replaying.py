"""Replays a recorded run with the current agent, as a test.

The replay shows whether a change of instructions, tools, limits or middleware changes a real
conversation. It uses no network, runs no tool and asks no person: the recorded replies, results and
answers are played back by key. An effect that the recording does not contain is a difference.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from holdfast.core import events as ev
from holdfast.core.acts import Act
from holdfast.core.effects import CallModel, Effect, RunTool, effect_digest
from holdfast.core.errors import ConfigurationError, StoppedError
from holdfast.core.limits import Limits
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import Message
from holdfast.journal.memory import MemoryJournal
from holdfast.journal.port import Record
from holdfast.runtime.active_turn import ActiveTurn, TurnContext
from holdfast.runtime.around_turn import call_after_turn, start_turn, try_again
from holdfast.runtime.driver import drive_turn
from holdfast.runtime.plan import AgentPlan
from holdfast.runtime.questions.broker import QuestionBroker
from holdfast.runtime.sessions.session_pool import OpenSession
from holdfast.runtime.turn_state.turn_log import TurnLog
from holdfast.sessions.session_history import fold_history
from holdfast.testing.event_text import describe_difference, describe_event
from holdfast.testing.fake_clock import FakeClock
from holdfast.testing.recording import Recording, Source, load_recording
from holdfast.tools.asking_checks import CheckRequest

if TYPE_CHECKING:
    from holdfast.agent import Agent


import asyncio
from collections.abc import Sequence

from holdfast.core.errors import exception_for
from holdfast.core.messages import Reply, ToolResult
from holdfast.core.model_request import ModelRequest
from holdfast.core.questions import AnyQuestion, restore_answer
from holdfast.resilience.clock import Clock, Rng
from holdfast.resilience.pipeline import CallContext, Done, Failed, Outcome
from holdfast.runtime.perform import IN_DOUBT_NOTE
from holdfast.runtime.tool_attempt import ToolAttempt
from holdfast.testing.event_text import IN_DOUBT, is_formatted
from holdfast.tools.checked_call import Invocation


class ReplayDifference(AssertionError):
    """An agent acts differently from the recording.

    Args:
        run: the recorded run.
        key: the key of the first effect that differs, such as `t1.i2.tool.0`.
        problem: the recorded event and the current one.
    """

    def __init__(self, run: str, key: str, problem: str) -> None:
        super().__init__(f"the run {run!r} differs from its recording at {key}: {problem}")
        self.run = run
        self.key = key
        self.problem = problem


class ReplayResult(Struct, frozen=True):
    """The result of a replay without a difference.

    Args:
        run: the recorded run.
        turns: the number of turns.
        events: the number of compared events.
        messages: the messages at the end of the run.
    """

    run: str
    turns: int
    events: int
    messages: tuple[Message, ...]


async def replay(
    source: Source,
    agent: Agent[Any, Any],
    *,
    run: str | None = None,
    limits: Limits | None = None,
    deps: object = None,
) -> ReplayResult:
    """Replay a recorded run with this agent, and assert that it acts as recorded.

    The model's replies, the results of tools and the answers of people come from the recording, by
    key; nothing is sent, run or asked. Everything else is the agent's: its limits, the names and
    parameters of its tools, its output type, and its middleware, whose hooks really run. The
    recording contains a reply or result after the hooks changed it, so a hook that changes it again
    causes a difference. Texts of exceptions, times and numbers of attempts are not compared.

    Args:
        source: a journal, its address, a file of `SqliteJournal`, or a file that
            `holdfast journal export` wrote.
        agent: the current agent.
        run: the run, or the name of the session; optional if there is only one.
        limits: the `limits` of the recorded run.
        deps: the `deps` for hooks.

    Raises:
        ReplayDifference: an effect differs; this is the first one.
        ConfigurationError: the file or the run does not exist.
        JournalError: the recording is damaged.

    >>> import asyncio
    >>> from holdfast import Agent, MemoryJournal
    >>> from holdfast.testing import ScriptedModel
    >>> journal = MemoryJournal()
    >>> _ = asyncio.run(Agent(ScriptedModel("Hello!"), journal=journal).run("Hi", session="ada"))
    >>> asyncio.run(replay(journal, Agent("openai:gpt-5.2", api_key="none"))).turns
    1
    """
    engine = getattr(agent, "_engine", None)
    if engine is None:
        raise ConfigurationError("agent", f"must be an Agent, got {type(agent).__name__}")
    recording = await load_recording(source, run)
    player = _Player(recording, engine.plan, limits, deps)
    await player.play()
    return ReplayResult(
        recording.run, player.turns, player.events, tuple(player.machine.transcript)
    )


class _Player:
    """Replays one recording, turn by turn, on one machine."""

    def __init__(
        self, recording: Recording, plan: AgentPlan, limits: Limits | None, deps: object
    ) -> None:
        self._recording = recording
        self._plan = plan
        self._deps = deps
        self._limits = limits
        self._folds = plan.chain.new_folds()
        self.machine = SessionMachine()
        self.turns = 0
        self.events = 0

    async def play(self) -> None:
        """Replay all turns. Raises ReplayDifference."""
        for part in _split_turns(self._recording.records):
            first = part[0].event
            if isinstance(first, ev.TurnOpened):
                await self._play_turn(Tape(part), first)
            else:
                self._apply_recorded(first)
        self._compare_messages()

    async def _play_turn(self, tape: Tape, opened: ev.TurnOpened) -> None:
        self.turns += 1
        run = self._new_run(tape)
        try:
            if opened.message is None:
                await try_again(run)
            else:
                await start_turn(run, opened.message)
            await drive_turn(run)
            await call_after_turn(run)
            if (left := tape.find_first_remaining()) is not None:
                raise DifferenceFound(
                    left.key, f"was done then, but not now: {describe_event(left)}"
                )
        except RecordingEnded:
            for event in tape.remaining:
                self._apply_recorded(event)
        except DifferenceFound as found:
            raise self._to_difference(found.key, found.problem) from None
        except StoppedError as stopped:
            raise self._to_difference(
                opened.key, f"the message is refused now: {stopped}"
            ) from None
        self.events += len(tape.done_keys)

    def _new_run(self, tape: Tape) -> ActiveTurn:
        plan = dataclasses.replace(
            self._plan,
            ask_model=tape.ask_model,
            use_tool=tape.use_tool,
            ask_check=tape.ask_check,
            clock=FakeClock(),
        )
        context = TurnContext(
            questions=QuestionBroker(tape.answer),
            session=self._recording.run,
            deps=self._deps,
            limits=self._limits,
        )
        opened = OpenSession(self.machine, self._folds, MemoryJournal())
        run_id = self._recording.run
        return ActiveTurn(plan, run_id, opened, context, partial(_ReplayLog, tape))

    def _apply_recorded(self, event: ev.Event) -> None:
        """Apply an event that only the recording has: a change of the history, or an interruption."""
        self.machine.apply(event)
        self._folds.apply(event)

    def _compare_messages(self) -> None:
        then = fold_history(self._recording.records).messages
        now = tuple(self.machine.transcript)
        for number, (before, after) in enumerate(zip(then, now, strict=False)):
            if before != after:
                problem = f"then {before.role}: {before.text!r}; now {after.role}: {after.text!r}"
                raise self._to_difference(f"message {number}", problem)
        if len(then) != len(now):
            raise self._to_difference("its end", f"{len(then)} messages then, {len(now)} now")

    def _to_difference(self, key: str, problem: str) -> ReplayDifference:
        return ReplayDifference(self._recording.run, key, problem)


def _split_turns(records: tuple[Record, ...]) -> list[list[Record]]:
    """Split the records before each turn and each change of the history."""
    parts: list[list[Record]] = []
    changes = (ev.TurnOpened, ev.SessionRewound, ev.HistoryCompacted)
    for record in records:
        if isinstance(record.event, changes) or not parts:
            parts.append([])
        parts[-1].append(record)
    return parts


class _ReplayLog(TurnLog):
    """A log that applies what was recorded, and only when the same happens again.

    Args:
        tape: the recording.
        parts: those of `TurnLog`.
    """

    def __init__(self, tape: Tape, *parts: Any) -> None:
        super().__init__(*parts)
        self._tape = tape

    async def commit(
        self,
        event: ev.Event,
        effect: Effect | None = None,
        *,
        marker: ev.Event | None = None,
        act: Act | None = None,  # noqa: ARG002  # REASON: a replay saves nothing
    ) -> None:
        """Compare with the record of the same key, and go on with that one."""
        await self._commit_recorded(event, effect)
        if marker is not None:
            await self._commit_recorded(marker, None)

    async def _commit_recorded(self, event: ev.Event, effect: Effect | None) -> None:
        tape = self._tape
        left = tape.find_first_remaining()
        if isinstance(event, ev.TurnClosed) and left is not None and not tape.is_truncated:
            raise DifferenceFound(
                left.key, f"then: {describe_event(left)}; now: {describe_event(event)}"
            )
        then = tape.find_event(event.key, describe_event(event))
        if problem := describe_difference(then, event):
            raise DifferenceFound(event.key, problem)
        _check_plan(tape.by_key[event.key], effect)
        await super().commit(_merge_recorded(then, event), effect)
        tape.done_keys.add(event.key)


def _check_plan(record: Record, effect: Effect | None) -> None:
    """Raise DifferenceFound if the planned effect of the key is another one than recorded."""
    if isinstance(effect, CallModel | RunTool) and record.digest not in ("", effect_digest(effect)):
        raise DifferenceFound(effect.key, "the planned effect differs from the recorded one")


def _merge_recorded(then: ev.Event, now: ev.Event) -> ev.Event:
    """Return the recorded event with the values of the current agent."""
    if isinstance(then, ev.TurnOpened) and isinstance(now, ev.TurnOpened):
        return msgspec.structs.replace(then, limits=now.limits, flags=now.flags)
    if isinstance(then, ev.QuestionAnswered | ev.QuestionUnanswered | ev.QuestionAsked):
        return msgspec.structs.replace(now, at=then.at)
    return then


_BESIDE = (
    ev.QuestionAsked,
    ev.QuestionAnswered,
    ev.QuestionUnanswered,
    ev.TurnResumed,
    ev.DoubtChecked,
    ev.TurnInterrupted,
    ev.TurnClosed,
)
"""Events that need not happen again: tools do not run in a replay, so they ask no questions and no checks."""


class DifferenceFound(BaseException):
    """A difference; a BaseException, so that no `except Exception` of a hook or the runtime catches it."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.key = key
        self.problem = problem


class RecordingEnded(BaseException):
    """The recorded turn ends here: it was interrupted, or not resumed."""


class Tape:
    """Plays back one recorded turn.

    Args:
        records: the records of the turn, from the event that opens it.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records
        self.by_key = {record.event.key: record for record in records}
        self.done_keys: set[str] = set()
        kinds = {type(record.event) for record in records}
        self.is_truncated = ev.TurnClosed not in kinds or ev.TurnInterrupted in kinds

    @property
    def remaining(self) -> list[ev.Event]:
        """The recorded events that have not happened in the replay yet, in order."""
        return [record.event for record in self.records if record.event.key not in self.done_keys]

    def find_first_remaining(self) -> ev.Event | None:
        """Return the first remaining event that must happen again."""
        return next((event for event in self.remaining if not isinstance(event, _BESIDE)), None)

    def find_event(self, key: str, action: str) -> ev.Event:
        """Return the recorded event of a key.

        Args:
            key: the key.
            action: what the replay does now, for the message of a difference.

        Raises:
            DifferenceFound: the recording has no such event.
            RecordingEnded: the recorded turn ended before it.
        """
        record = self.by_key.get(key)
        if record is not None:
            return record.event
        if self.is_truncated:
            raise RecordingEnded
        then = self.find_first_remaining() or self.records[-1].event
        raise DifferenceFound(
            key, f"{action} now; then, {then.key} came here: {describe_event(then)}"
        )

    async def ask_model(self, call: CallContext[ModelRequest]) -> Outcome[Reply]:
        """Return the recorded reply or failure."""
        key = self._key_of_call(call.key)
        event = self.find_event(key, "the model is called")
        if isinstance(event, ev.ResultsWithheld):
            error = exception_for(event.error)
            return Failed(error, event.error, event.attempts, tried=event.tried)
        if isinstance(event, ev.ModelReplied | ev.ModelFailed) and not event.attempts:
            raise DifferenceFound(
                call.key, f"the model is called now, but was not then: {describe_event(event)}"
            )
        if isinstance(event, ev.ModelReplied):
            return Done(event.reply, event.attempts, event.tried)
        if isinstance(event, ev.ModelFailed):
            error = exception_for(event.error, event.partial)
            return Failed(error, event.error, event.attempts, tried=event.tried)
        raise DifferenceFound(call.key, f"the model is called now; then: {describe_event(event)}")

    def _key_of_call(self, key: str) -> str:
        """Return the key of the event of a model call, which may be withheld results first."""
        withheld = f"{key.removesuffix('.model')}.withheld"
        is_first = withheld in self.by_key and withheld not in self.done_keys
        return withheld if is_first else key

    async def use_tool(self, call: CallContext[ToolAttempt]) -> Outcome[ToolResult]:
        """Return the recorded result or failure, if the current agent would run the tool."""
        effect, key = call.payload.effect, call.key
        name = effect.call.name
        event = self.find_event(key, f"{name} is run")
        if not isinstance(event, ev.ToolFinished):
            raise DifferenceFound(key, f"{name} is run now; then: {describe_event(event)}")
        checked = call.payload.checked
        if isinstance(checked, Invocation) and checked.result is not None:
            call.payload.meter.refusal = checked.info
            return Done(checked.result)
        if not event.attempts and not (event.error and event.error.code == IN_DOUBT):
            raise DifferenceFound(
                key, f"{name} is run now, but was not then: {describe_event(event)}"
            )
        if event.result.is_error and event.result.text.startswith(
            f"Error: Function '{name}' was not run"
        ):
            raise DifferenceFound(
                key, f"{name} is run now, but could not be then: {describe_event(event)}"
            )
        if event.error is None or not is_formatted(event):
            call.payload.meter.refusal = event.error
            return Done(event.result, event.attempts)
        repeatable = not event.result.text.endswith(IN_DOUBT_NOTE)
        return Failed(
            exception_for(event.error), event.error, event.attempts, may_repeat=repeatable
        )

    async def ask_check(self, request: CheckRequest, _clock: Clock, _rng: Rng) -> ev.DoubtChecked:
        """Return the recorded answer of a check."""
        event = self.find_event(request.key, f"the check of {request.call.tool} is asked")
        if isinstance(event, ev.DoubtChecked):
            return event
        problem = f"a check is asked now; then: {describe_event(event)}"
        raise DifferenceFound(request.key, problem)

    async def answer(self, question: AnyQuestion) -> object:
        """Return the recorded answer; None if there is none."""
        record = self.by_key.get(question.key)
        if record is None:
            return None
        event = record.event
        if isinstance(event, ev.QuestionAnswered):
            return restore_answer(question, event.answer)
        if isinstance(event, ev.QuestionUnanswered) and event.why == "timeout":
            await asyncio.Event().wait()  # the replay's clock makes the timeout pass at once
        if isinstance(event, ev.QuestionUnanswered) and event.why == "cancelled":
            raise asyncio.CancelledError
        return None
