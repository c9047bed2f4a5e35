"""Whatever an export says of a turn that has not ended: nothing of it is executed after an import.

The runs are drawn from the table of transitions, so that every kind of record comes, in every phase.
The agent that continues has the tools, the output type and the questions that the records speak of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import get_args

import pytest
from hypothesis import Phase as Step
from hypothesis import find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from holdfast import Agent, MemoryJournal, ToolPermission, tool
from holdfast.codecs.pairing import check_pairs
from holdfast.core import effects as ef
from holdfast.core import events as ev
from holdfast.core.errors import (
    ConfigurationError,
    ErrorCategory,
    ErrorInfo,
    HoldfastError,
    IllegalEventError,
)
from holdfast.core.limits import Limits
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import Message, Reply, ReplyKind, Text, ToolCall, ToolResult, user
from holdfast.core.model_request import ModelRequest
from holdfast.core.output_retries import turn_flags
from holdfast.core.problems import Problem
from holdfast.core.question_log import ASKED, ask_key, asked_key, restore_question
from holdfast.core.questions import Answer, Approved
from holdfast.core.session_state import TRANSITIONS, Phase
from holdfast.journal.port import Record
from holdfast.sessions.session_export import export_lines
from holdfast.sessions.sessions import Sessions
from holdfast.testing import FakeClock, ScriptedModel

FAILURE = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="down")
ARGUMENTS = '{"euros": 1000000}'
CALLS = tuple(
    ToolCall(str(at), name, ARGUMENTS) for at, name in enumerate(("pay", "pay", "helper"))
)
ASKS = {"tool": "pay", "arguments": {"euros": 1000000}, "source": "ToolPermission"}
ANSWERS = (
    {"type": "approved", "remember": "tool"},
    {"type": "approved", "arguments": {"euros": 7}},
)
BETWEEN = (ev.SessionTitled, ev.SessionRewound, ev.HistoryCompacted)
CALL = "ada/t1.i0.tool.2"


@cache
def pick(count: int) -> st.SearchStrategy[int]:
    return st.integers(0, count - 1)


@st.composite
def open_runs(draw: st.DrawFn) -> list[Record]:
    """The records of a run whose last turn has not ended, cut anywhere."""
    machine, records = SessionMachine(), []

    def add(event: ev.Event) -> None:
        effect = machine.find_pending(event.key)
        machine.apply(event)
        records.append(Record(event, ef.effect_digest(effect) if effect else ""))

    for _ in range(1 + draw(pick(20))):
        kinds = sorted(TRANSITIONS[machine.phase], key=lambda kind: kind.__name__)
        event = make_event(draw, machine, kinds[draw(pick(len(kinds)))], float(len(records)))
        if event is not None and is_possible(machine, event):
            add(event)
    if machine.phase is Phase.IDLE:
        add(open_turn(draw, machine, float(len(records))))
    return records


def is_possible(machine: SessionMachine, event: ev.Event) -> bool:
    try:
        machine.check_event(event)
    except IllegalEventError:
        return False
    return True


def open_turn(draw: st.DrawFn, machine: SessionMachine, at: float) -> ev.Event:
    key, hooks = ef.turn_key(machine.turn + 1), (None, 0)[draw(pick(2))]
    flags = turn_flags(checked=draw(pick(2)) == 1)
    limits = Limits(iterations=2, extendable=draw(pick(2)) == 1)
    return ev.TurnOpened(key, at, user("Pay."), limits, flags, "payer", hooks_called=hooks)


def make_event(
    draw: st.DrawFn, machine: SessionMachine, kind: type[ev.Event], at: float
) -> ev.Event | None:
    """Return an event of this kind; None if the state has no place for one."""
    if kind is ev.TurnOpened:
        return open_turn(draw, machine, at)
    if kind in BETWEEN:
        key, value = ef.turn_key(machine.turn + 1), {ev.SessionRewound: 0, ev.HistoryCompacted: ()}
        return kind(key, at, value.get(kind, "A title"))  # type: ignore[arg-type, call-arg]
    if kind in (ev.QuestionAsked, ev.QuestionAnswered, ev.QuestionUnanswered, ev.TurnResumed):
        return make_question_event(draw, machine, kind, at)
    turn, iteration, pending = machine.turn, machine.iteration, machine.pending_effects()
    first = pending[draw(pick(len(pending)))]
    if kind is ev.TurnInterrupted:
        return kind(ef.interrupted_key(turn), at, "cancelled", (first.key,))
    if kind is ev.TurnStopped:
        return kind(ef.stopped_key(turn), at, "enough", "Enough.")
    if kind is ev.ToolsBegun:
        return kind(ef.begun_key(turn, iteration), at)
    if kind is ev.DoubtChecked:
        number = len(machine.find_checks(first.key))
        return kind(ef.check_key(first.key, number), at, "not_happened", settled=True)
    if kind is ev.LimitExtended:
        return kind(ef.extended_key(turn, iteration), at, 1)
    if kind is ev.ResultsWithheld:
        return kind(ef.withheld_key(turn, iteration), at, FAILURE)
    return make_outcome(draw, first, kind, at)


def make_outcome(
    draw: st.DrawFn, first: ef.Effect, kind: type[ev.Event], at: float
) -> ev.Event | None:
    if isinstance(first, ef.CloseTurn):
        return ev.TurnClosed(first.key, at, first.status, first.error)
    if kind is ev.ModelReplied:
        calls = CALLS[: draw(pick(4))]
        cut = (ReplyKind.COMPLETE, ReplyKind.COMPLETE, ReplyKind.TRUNCATED)[draw(pick(3))]
        return ev.ModelReplied(first.key, at, Reply((Text("Yes."), *calls), kind=cut))
    if kind is ev.ModelFailed:
        return ev.ModelFailed(first.key, at, FAILURE, Reply((Text("Y"),)))
    if isinstance(first, ef.RunTool) and kind is ev.ToolFinished:
        return ev.ToolFinished(first.key, at, ToolResult(first.call.id, first.call.name, ()))
    if kind is ev.OutputChecked:
        call = (None, CALLS[0])[draw(pick(2))]
        problems = () if call is not None else (Problem("", "is not one"),)
        return ev.OutputChecked(first.key, at, "raw" if call else "", problems, call=call)
    return ev.TurnAccepted(first.key, at) if kind is ev.TurnAccepted else None


def make_question_event(
    draw: st.DrawFn, machine: SessionMachine, kind: type[ev.Event], at: float
) -> ev.Event | None:
    log, late = machine.questions, draw(pick(2)) == 1
    if kind is ev.TurnResumed:
        return ev.TurnResumed(ef.resumed_key(machine.turn, log.resume_count), at)
    if kind is ev.QuestionAsked:
        pending = [effect.key for effect in machine.pending_effects()]
        scopes = (*pending, *pending, *ef.asking_scopes(machine.turn, machine.iteration))
        scope = scopes[draw(pick(len(scopes)))]
        number = sum(key.startswith(f"{scope}.ask.") for key in log.questions)
        key, wait = asked_key(ask_key(scope, number)), ("hold", "suspend")[draw(pick(2))]
        until = (None, 9e9)[draw(pick(2))]
        return ev.QuestionAsked(key, at, "PermissionQuestion", ASKS, wait, late, until, "n")  # type: ignore[arg-type]
    if not log.open_questions:
        return None
    key = log.open_questions[0].key.removesuffix(ASKED)
    if kind is ev.QuestionAnswered:
        return ev.QuestionAnswered(key, at, ANSWERS[draw(pick(2))], late, "the boss")
    return ev.QuestionUnanswered(key, at, "timeout", late)


class Watched:
    """An agent that may pay, with an agent as a tool that may pay too, and what they did."""

    def __init__(self, journal: MemoryJournal, model: ScriptedModel) -> None:
        self.paid: list[int] = []

        @tool(effect="idempotent")
        def pay(euros: int) -> str:
            """Send money."""
            self.paid.append(euros)
            return "paid"

        rules = ToolPermission(ask=["pay"], default="allow")
        helper = Agent(ScriptedModel("Helped."), name="helper", tools=[pay], middleware=[rules])
        self.agent = Agent(
            model,
            name="payer",
            tools=[pay, helper.as_tool()],
            middleware=[rules],
            journal=journal,
            on_wait="suspend",
            clock=FakeClock(),
        )


def check_history(messages: Sequence[Message]) -> None:
    """Every call has one result, and the model can read it."""
    check_pairs(messages)
    results = [part for one in messages for part in one.parts if isinstance(part, ToolResult)]
    assert all(part.text for part in results if part.is_error)


async def import_and_continue(runs: dict[str, list[Record]]) -> list[int]:
    """Import runs, do with them all that a program can do, and return what was paid."""
    journal, histories = MemoryJournal(), []

    def reply(request: ModelRequest) -> Reply | str:
        histories.append(tuple(request.messages))
        return Reply((CALLS[0],)) if request.messages[-1].text == "Again." else "Done."

    watched = Watched(journal, ScriptedModel(*[reply] * 9))
    agent = watched.agent
    await agent.sessions.import_(export_lines(runs))
    assert await journal.runs(turn_open=True) == []
    assert await agent.recover() == []
    assert await agent.questions("ada") == ()
    for asked in (record.event for record in runs["ada"]):
        if isinstance(asked, ev.QuestionAsked):
            question = restore_question(asked, "ada")
            assert not await agent.answer("ada", Answer(question.key, Approved(), question.binding))
    assert histories == []
    with suppress(HoldfastError):
        await agent.resume("ada")  # it asks the model again, if the turn has no answer
    assert watched.paid == []
    again = await agent.run("Again.", session="ada")
    assert again.status == "waiting"  # the payment is asked about, whatever was remembered
    for messages in histories:
        check_history(messages)
    return watched.paid


@pytest.mark.slow  # takes half a second or more
@settings(max_examples=150)
@given(open_runs(), open_runs())
def test_nothing_of_an_open_turn_is_executed_after_an_import(
    session: list[Record], within: list[Record]
) -> None:
    assert asyncio.run(import_and_continue({"ada": session, CALL: within})) == []


@settings(max_examples=50)
@given(open_runs())
def test_what_is_imported_is_history_that_can_be_moved_again(session: list[Record]) -> None:
    """The import adds an end, changes no result, and a second one changes nothing."""

    async def move() -> None:
        journal = MemoryJournal()
        await Sessions(journal, clock=lambda: 99.0).import_(export_lines({"ada": session}))
        closed = await journal.read("ada")
        assert closed[-1].event.at == 99.0
        assert [one.event.key for one in closed[: len(session)]] == [
            one.event.key for one in session
        ]
        await Sessions(journal).import_(export_lines({"ada": closed}), session="eve")
        copy = await journal.read("eve")
        assert [one.event.key for one in copy] == [one.event.key for one in closed]
        # An open question of the original gets a binding of its own.
        different = [one for one in copy if one not in closed]
        assert all(isinstance(one.event, ev.QuestionAsked) for one in different)

    asyncio.run(move())


@settings(max_examples=50)
@given(open_runs())
def test_a_fork_has_only_turns_that_have_ended(session: list[Record]) -> None:
    async def fork() -> None:
        journal = MemoryJournal()
        await Sessions(journal).import_(export_lines({"ada": session}), open_turns=True)
        assert [entry.run for entry in await journal.runs(turn_open=True)] == ["ada"]
        numbered = (ev.TurnOpened, *BETWEEN)
        last = sum(isinstance(record.event, numbered) for record in session)
        for at in (None, *range(1, last + 1)):
            with suppress(ConfigurationError):  # the number of the turn that has not ended
                await Sessions(journal).fork("ada", at, to=f"fork {at}")
        forks = [entry.run for entry in await journal.runs() if entry.run != "ada"]
        assert len(forks) == (last if last > 1 else 0)  # the open turn has none, and None the last
        assert [entry.run for entry in await journal.runs(turn_open=True)] == ["ada"]
        for name in forks:
            assert not (await Sessions(journal).read(name)).open

    asyncio.run(fork())


@pytest.mark.slow  # takes half a second or more
def test_every_kind_of_record_is_drawn() -> None:
    missing = {*get_args(ev.Event)}

    def completes_the_kinds(records: list[Record]) -> bool:
        missing.difference_update(type(record.event) for record in records)
        return not missing

    # The same examples each time: the rarest kind stands in one of a thousand.
    once = settings(max_examples=20_000, phases=[Step.generate], derandomize=True, database=None)
    with suppress(NoSuchExample):
        find(open_runs(), completes_the_kinds, settings=once)
    assert missing == set()
