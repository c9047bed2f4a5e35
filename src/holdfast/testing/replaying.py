"""A recorded run as a test: the agent of today, with the model, the tools and the people of then.

Whoever changes instructions, tools, limits or middleware learns whether a real conversation would
still go as it went. Nothing here may reach a network, run a tool or ask a person.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from holdfast.core import events as ev
from holdfast.core.answer import ANSWERS_TOLD
from holdfast.core.effects import CallModel, Effect, RunTool, digest
from holdfast.core.errors import ConfigurationError, StoppedError
from holdfast.core.limits import Limits
from holdfast.core.machine import RunMachine
from holdfast.core.messages import Message
from holdfast.journal.memory import MemoryJournal
from holdfast.journal.port import Record
from holdfast.middleware.chain import limits_with
from holdfast.runtime.driver import drive
from holdfast.runtime.hooked_turn import run_turn
from holdfast.runtime.plan import Plan
from holdfast.runtime.questions import Questions
from holdfast.runtime.run import Run
from holdfast.sessions.history import history_of
from holdfast.testing.clock import FakeClock
from holdfast.testing.recorded import Recording, Source, recorded
from holdfast.testing.served import Differs, SaysNoMore, Tape
from holdfast.testing.told import difference, told

if TYPE_CHECKING:
    from holdfast.agent import Agent


class ReplayDifference(AssertionError):
    """An agent does something else than what was recorded.

    Args:
        run: the recorded run.
        key: the first effect that differs, such as `t1.i2.tool.0`.
        problem: what was then, and what is now.
    """

    def __init__(self, run: str, key: str, problem: str) -> None:
        super().__init__(f"the run {run!r} differs from its recording at {key}: {problem}")
        self.run = run
        self.key = key
        self.problem = problem


class Replayed(Struct, frozen=True):
    """What was played again.

    Args:
        run: the recorded run.
        turns: how many turns.
        events: how many events were found to be the same.
        messages: the conversation at its end.
    """

    run: str
    turns: int
    events: int
    messages: tuple[Message, ...]


async def replay(
    source: Source,
    agent: Agent[Any],
    *,
    run: str | None = None,
    limits: Limits | None = None,
    deps: object = None,
) -> Replayed:
    """Play a recorded run again with this agent, and assert that it goes as it went.

    The model's replies, the results of tools and the answers of people are those of the recording,
    found by key; nothing is sent, run or asked. All else is the agent's: its limits, its tools'
    names and parameters, its output type, and its middleware, whose hooks run for real. What a hook
    makes of a reply or of a result is in the recording, so a hook that changes it once more is seen
    as a difference. The text of an exception is not kept, so the wording of such a failure is not
    compared, nor are times and the number of attempts.

    Args:
        source: a journal, its address, or a file: of `SqliteJournal`, or with the lines that
            `holdfast journal export` wrote.
        agent: the agent as it is now.
        run: the run, or the name of the session; may be left out when there is only one.
        limits: what was given to the run as `limits=`.
        deps: what hooks find as `deps`.

    Raises:
        ReplayDifference: the first effect that is not the same.
        ConfigurationError: there is no such file or run.
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
    recording = await recorded(source, run)
    player = _Player(recording, engine.plan, limits, deps)
    await player.play()
    return Replayed(recording.run, player.turns, player.events, tuple(player.machine.transcript))


class _Player:
    """Plays one recording, turn by turn, on one machine."""

    def __init__(
        self, recording: Recording, plan: Plan, limits: Limits | None, deps: object
    ) -> None:
        self._recording = recording
        self._plan = plan
        self._deps = deps
        self._limits = limits_with(plan.middlewares, limits) if limits is not None else plan.limits
        self._folds = plan.chain.new_folds() if plan.chain is not None else None
        self.machine = RunMachine(output=plan.output)
        self.turns = 0
        self.events = 0

    async def play(self) -> None:
        """Raises ReplayDifference."""
        for part in _parts(self._recording.records):
            first = part[0].event
            if isinstance(first, ev.TurnOpened):
                await self._turn(Tape(part, self._plan.registry), first)
            else:
                self._take(first)
        self._compare_messages()

    async def _turn(self, tape: Tape, opened: ev.TurnOpened) -> None:
        self.turns += 1
        run = self._run(tape)
        try:
            await _work(run, opened.message)
            if (left := tape.first_left()) is not None:
                raise Differs(left.key, f"was done then, and is not now: {told(left)}")
        except SaysNoMore:
            for event in tape.left:
                self._take(event)
        except Differs as found:
            raise self._difference(found.key, found.problem) from None
        except StoppedError as stopped:
            raise self._difference(opened.key, f"the message is refused now: {stopped}") from None
        self.events += run.same

    def _run(self, tape: Tape) -> _Rerun:
        plan = dataclasses.replace(
            self._plan, ask_model=tape.ask_model, use_tool=tape.use_tool, clock=FakeClock()
        )
        run = _Rerun(plan, self._recording.run, self.machine, MemoryJournal())
        run.tape = tape
        run.folds = self._folds
        run.questions = Questions(tape.answer)
        run.session, run.deps = self._recording.run, self._deps
        run.limits = self._limits
        return run

    def _take(self, event: ev.Event) -> None:
        """What only the recording knows: a change of the history, or how a turn was cut off."""
        self.machine.apply(event)
        if self._folds is not None:
            self._folds.apply(event)

    def _compare_messages(self) -> None:
        then = history_of(self._recording.records).messages
        now = tuple(self.machine.transcript)
        for number, (before, after) in enumerate(zip(then, now, strict=False)):
            if before != after:
                problem = f"then {before.role}: {before.text!r}; now {after.role}: {after.text!r}"
                raise self._difference(f"message {number}", problem)
        if len(then) != len(now):
            raise self._difference("its end", f"{len(then)} messages then, {len(now)} now")

    def _difference(self, key: str, problem: str) -> ReplayDifference:
        return ReplayDifference(self._recording.run, key, problem)


def _parts(records: tuple[Record, ...]) -> list[list[Record]]:
    """The records, cut before each turn and each change of the history."""
    parts: list[list[Record]] = []
    changes = (ev.TurnOpened, ev.SessionRewound, ev.HistoryCompacted)
    for record in records:
        if isinstance(record.event, changes) or not parts:
            parts.append([])
        parts[-1].append(record)
    return parts


async def _work(run: Run, message: Message) -> None:
    if run.plan.chain is None or run.folds is None:
        await run.open(message)
        await drive(run)
    else:
        await run_turn(run, message, run.plan.chain, run.folds)


class _Rerun(Run):
    """A run that believes what was recorded, and only when the same comes about again."""

    tape: Tape
    same: int = 0

    async def commit(self, event: ev.Event, effect: Effect | None = None) -> None:
        """Compare with the record of the same key, and go on with that one."""
        tape = self.tape
        left = tape.first_left()
        if isinstance(event, ev.TurnClosed) and left is not None and not tape.is_cut:
            raise Differs(left.key, f"then: {told(left)}; now: {told(event)}")
        then = tape.found(event.key, told(event))
        if problem := difference(then, event):
            raise Differs(event.key, problem)
        _check_plan(tape.by_key[event.key], effect)
        await super().commit(_kept(then, event), effect)
        tape.done.add(event.key)
        self.same += 1


def _check_plan(record: Record, effect: Effect | None) -> None:
    """Raise Differs when the same key stands for another act."""
    if isinstance(effect, CallModel | RunTool) and record.digest not in ("", digest(effect)):
        raise Differs(effect.key, "another act is planned now than then")


def _kept(then: ev.Event, now: ev.Event) -> ev.Event:
    """The record, but for what belongs to the agent as it is now."""
    if isinstance(then, ev.TurnOpened) and isinstance(now, ev.TurnOpened):
        # Journals from before the flags were told are played as they were made.
        flags = now.flags if then.flags & ANSWERS_TOLD else then.flags
        return msgspec.structs.replace(then, limits=now.limits, flags=flags)
    if isinstance(then, ev.QuestionAnswered | ev.QuestionUnanswered | ev.QuestionAsked):
        return msgspec.structs.replace(now, at=then.at)
    return then
