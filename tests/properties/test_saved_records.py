"""Whenever the records of a turn are saved, or cannot be saved: the promises of a journal hold.

Random turns are played on a journal whose thread is turned by hand, with faults of the disk and
cancellations, and beside it on journals that are never late. After each move:

* what a stream or an observer was shown is saved, in the order of the journal, each once;
* no tool begins before the marker of its reply is saved, and no write happens twice;
* no hook is called while a record of its run is being saved. Hooks of a tool are called beside the
  other tools of the same reply, and of those alone something may be under way;
* the model is not asked, and no answer is checked, while a record is being saved;
* what is saved can be folded, whatever the rest comes to.

At the end of the turn: when a record could not be saved, no later one of its run is, and the run
raises the error of the journal. The results of other tools may be saved until its failure is known;
and if whoever waits for it was cancelled, the turn is closed without it.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.properties.cranked_journal import CrankedJournal, Fault
from tests.properties.plays import HOOKS, RUN, Case, Play, waits

from holdfast import Limits, MemoryJournal, SqliteJournal
from holdfast.codecs.pairing import check_pairs
from holdfast.core.errors import ConflictError, HoldfastBug, HoldfastError, IllegalEventError
from holdfast.core.events import Event, Status
from holdfast.core.machine import SessionMachine
from holdfast.core.questions import Approved
from holdfast.core.session_state import Phase
from holdfast.journal.journal_errors import JournalError
from holdfast.runtime.result import Result

TOOLS = st.sampled_from(["look", "put", "pay", "fail", "peek", "buy", "helper", "scout", "gone"])
WITHIN = st.sampled_from(["look", "put", "pay", "peek", "buy"])


def batches(names: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    calls = st.lists(names, min_size=1, max_size=3).map(tuple)
    return st.one_of(calls, calls, calls.map(lambda names: ("cut", *names)))


WORDS = st.sampled_from(["text", "paused", "refused", "window", "bad"])
LINES = st.lists(st.one_of(batches(TOOLS), batches(TOOLS), WORDS), max_size=4).map(tuple)
INNER = st.lists(st.one_of(batches(WITHIN), WORDS), max_size=2).map(tuple)
WHAT = st.sampled_from(
    ["waits", "raises", "asks", "stops", "replies", "denies", "replaces", "waits", "asks"]
)
LIMITS = st.builds(Limits, iterations=st.integers(2, 6), tool_calls=st.none() | st.integers(1, 6))
CAN_ASK = ("before_iteration", "before_tools", "before_tool")


@st.composite
def cases(draw: st.DrawFn) -> Case:
    hooks = draw(
        st.frozensets(st.sampled_from(HOOKS), max_size=draw(st.sampled_from([0, 1, 1, 4])))
    )
    some = st.tuples(st.sampled_from(sorted(hooks) or HOOKS), st.integers(0, 2))
    decided = draw(st.dictionaries(some, WHAT, max_size=3))
    lines = draw(LINES)
    if "on_context_window" in hooks:  # which is about nothing else
        lines = (*lines[:1], "window", *lines[1:])
    return Case(
        lines=lines,
        within=draw(INNER),
        hooks=hooks,
        decided={at: what for at, what in decided.items() if what != "asks" or at[0] in CAN_ASK},
        limits=draw(LIMITS),
        # Which of three tools is the third to begin is up to the disk when two may run at once.
        parallel=draw(st.sampled_from([16, 1])),
        typed=draw(st.booleans()),
        suspends=draw(st.booleans()),
        handler=draw(st.sampled_from(["", "yes", "none"])),
        reader=draw(st.sampled_from(["", "yes", "looks"])),
        observed=draw(st.booleans()),
    )


CASES = cases()


class Move(NamedTuple):
    """What is done, to how many, and how often the loop goes round after that."""

    what: str
    most: int
    passes: int


def moves(*kinds: str) -> st.SearchStrategy[list[Move]]:
    passes = st.sampled_from([0, 1, 2, 5, 30])
    return st.lists(st.builds(Move, st.sampled_from(kinds), st.integers(1, 3), passes), max_size=30)


LATE = ("take", "finish", "turn", "turn", "turn", "rest")
FAULTY = (*LATE, *LATE, "insert", "commit")
SCHEDULES = moves(*FAULTY) | moves(*LATE, *LATE, "cancel") | moves(*FAULTY, "cancel", "leave")


class End(NamedTuple):
    """How a part of a conversation ended."""

    result: Result[Any] | None
    error: BaseException | None

    @property
    def said(self) -> object:
        if self.result is None:
            return (type(self.error), str(self.error))
        one = self.result
        return (one.status, one.text, one.output, one.usage, one.iterations, tuple(one.history))


async def ended(task: asyncio.Task[Result[Any]]) -> End:
    await asyncio.wait([task])
    if task.cancelled():
        return End(None, asyncio.CancelledError())
    error = task.exception()
    return End(None, error) if error is not None else End(task.result(), None)


async def passes(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


def fold(events: list[Event]) -> SessionMachine:
    machine = SessionMachine()
    for event in events:
        machine.apply(event)
    return machine


class Theatre:
    """One play on the journal that is turned by hand."""

    def __init__(self, case: Case) -> None:
        self.journal = CrankedJournal()
        self.play = Play(case, self.journal)
        self.cancels = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        # Whatever was found: whoever is cancelled waits for the journal.
        self.journal.writer.let_go()

    async def act(self, schedule: list[Move]) -> End:
        """The first turn, under the schedule and then without hindrance, to its end."""
        self.task = asyncio.create_task(self.play.turn("Go 1"))
        for move in schedule:
            self._move(move)
            await passes(move.passes)
            self.look()
            if self.task.done():
                break
        writer = self.journal.writer
        end_of_patience = time.monotonic() + 60
        for number in itertools.count():
            if self.task.done() and not (writer.waiting or writer.group):
                break
            if number >= 300:  # it waits for a thread, which a busy machine runs later
                if time.monotonic() > end_of_patience:
                    break
                await asyncio.sleep(0.005)
            writer.finish()
            writer.turn(256)
            await passes(25)
            self.look()
        assert self.task.done(), f"it hangs: {[h.key for h in self.journal.on_the_way(RUN)]}"
        end = await ended(self.task)
        await passes(3)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"left behind: {left}"
        return end

    def _move(self, move: Move) -> None:
        writer = self.journal.writer
        faults: dict[str, Fault] = {"insert": "insert", "commit": "commit"}
        if move.what == "take":
            writer.take(move.most)
        elif move.what == "turn" and not writer.group:
            writer.turn(move.most)
        elif move.what in ("finish", "turn"):
            writer.finish()
        elif move.what in faults:
            writer.take(move.most)
            writer.finish(faults[move.what])
        elif move.what in ("cancel", "leave"):
            self.cancels += 1
            if move.what == "cancel" and self.play.case.reader and self.play.streams():
                self.play.stream.cancel()
            else:
                self.task.cancel()

    def look(self) -> None:
        kept = self.journal.kept()
        assert not self.play.wrong, self.play.wrong
        for shown in (self.play.shown, self.play.streamed):
            for run, events in shown.items():
                places = [kept[run].index(event) if event in kept[run] else -1 for event in events]
                said = f"{run}: {[e.key for e in events]} of {[e.key for e in kept[run]]}"
                assert -1 not in places, f"shown and not kept, {said}"
                assert places == sorted(set(places)), f"shown in another order, {said}"
        for events in kept.values():
            fold(events)

    def check_failures(self, end: End) -> None:
        """Nothing is kept that rests on what could not be kept, or comes after that was known."""
        handed, done = self.journal.handed, self.journal.writer.done
        for one in handed:
            if one.error is None or one.known is None:
                continue
            assert isinstance(one.error, JournalError), one.error
            for later in handed[one.known :]:
                assert later.run != one.run or id(later.act) not in done, (
                    f"{later.key} is kept, and {one.key} is not"
                )
        errors = [one.error for one in self.journal.failed(RUN) if one.known is not None]
        if errors and not (self.cancels and isinstance(end.error, asyncio.CancelledError)):
            assert any(end.error is error for error in errors), f"{errors} ended as {end}"

    def check_shown(self) -> None:
        """A turn that nothing went wrong with is shown from end to end."""
        kept = self.journal.kept()
        if self.play.case.observed:
            assert dict(self.play.shown) == kept
        if self.play.case.reader:
            assert {run: list(events) for run, events in self.play.streamed.items()} == kept

    async def go_on(self, *, again: bool, resumes: bool) -> None:
        """The disk is well again: the turn goes on, or the next one begins."""
        journal, play = self.journal, self.play
        journal.writer.let_go()
        play.agent = play.new_agent() if again else play.agent
        machine = fold(journal.kept()[RUN])
        if machine.phase is not Phase.IDLE and resumes:
            await to_its_end(play)
        elif machine.questions.is_waiting:
            await play.agent.abandon(RUN)
        end = await next_turn(play)
        self.look()
        assert end.result is not None, end
        assert end.result.status is Status.COMPLETED
        check_pairs(end.result.history)
        kept = journal.kept()
        machine = fold(kept[RUN])
        assert machine.phase is Phase.IDLE
        assert tuple(machine.transcript) == tuple(end.result.history)
        assert [record.event for record in await journal.read(RUN)] == kept[RUN]


async def next_turn(play: Play) -> End:
    play.last = True
    return await ended(asyncio.create_task(play.turn("Go 2")))


async def to_its_end(play: Play) -> End:
    """Answer what is asked, and resume, until the turn is over."""
    for _ in range(12):
        for request in await play.agent.questions(RUN):
            assert await play.agent.answer(RUN, request, Approved())
        end = await ended(asyncio.create_task(play.agent.resume(RUN)))
        if not waits(end.result):
            break
    assert not waits(end.result)
    bugs = (JournalError, ConflictError, IllegalEventError, HoldfastBug)
    assert end.result or (isinstance(end.error, HoldfastError) and not isinstance(end.error, bugs))
    return end


async def whole(play: Play, first: End) -> list[object]:
    """All that is said in a conversation without hindrance, and all that is kept of it."""
    ends = [first]
    if waits(first.result):
        ends.append(await to_its_end(play))
    ends.append(await next_turn(play))
    runs = [entry.run for entry in await play.journal.runs()]
    kept = [in_short([r.event for r in await play.journal.read(run)]) for run in runs]
    return [[end.said for end in ends], runs, kept, play.wrong]


def in_short(events: list[Event]) -> list[Any]:
    """Without times and random texts; the tools of one reply are sorted, whichever ended first."""
    told: list[Any] = []
    for event in events:
        plain = msgspec.to_builtins(event)
        plain.update({"at": 0, "until": 0, "downtime": 0, "nonce": "", "origin": ""})
        if ".tool." not in event.key:
            told.append(plain)
        elif told and isinstance(told[-1], list):
            told[-1] = sorted([*told[-1], plain], key=lambda one: (one["key"], str(one)))
        else:
            told.append([plain])
    return told


async def on_memory(case: Case) -> list[object]:
    play = Play(case, MemoryJournal())
    return await whole(play, await ended(asyncio.create_task(play.turn("Go 1"))))


@pytest.mark.slow  # takes half a second or more
@settings(max_examples=60)
@given(CASES, moves(*LATE))
def test_a_turn_whose_records_come_late_is_the_same_turn(case: Case, schedule: list[Move]) -> None:
    async def both() -> None:
        async with Theatre(case) as theatre:
            first = await theatre.act(schedule)
            theatre.check_shown()
            theatre.journal.writer.let_go()
            assert await whole(theatre.play, first) == await on_memory(case)
            theatre.look()

    asyncio.run(both())


REPLY_REFUSED = [Move(what, 3, 30) for what in ("rest", "turn", "turn", "turn", "insert")]
"""The reply cannot be kept, and the marker after it comes in the same group."""


@pytest.mark.slow  # takes half a second or more
@settings(max_examples=60)
@example(case=Case((("pay",),)), schedule=REPLY_REFUSED, again=False, resumes=True)
@given(case=CASES, schedule=SCHEDULES, again=st.booleans(), resumes=st.booleans())
def test_whatever_happens_what_was_promised_holds(
    case: Case, schedule: list[Move], again: bool, resumes: bool
) -> None:
    async def play() -> None:
        async with Theatre(case) as theatre:
            end = await theatre.act(schedule)
            theatre.check_failures(end)
            await theatre.go_on(again=again, resumes=resumes)

    asyncio.run(play())


@pytest.mark.slow  # takes half a second or more
@settings(max_examples=12)
@given(CASES)
def test_a_file_keeps_what_memory_keeps(case: Case) -> None:
    async def both(path: Path) -> None:
        with SqliteJournal(path) as journal:
            play = Play(case, journal)
            first = await ended(asyncio.create_task(play.turn("Go 1")))
            assert await whole(play, first) == await on_memory(case)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(both(Path(folder) / "talk.db"))
