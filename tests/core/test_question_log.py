"""Questions and extensions of the limit, event by event on the machine."""

from __future__ import annotations

import pytest

from holdfast.core import events as ev
from holdfast.core.errors import ErrorCategory, ErrorInfo, IllegalEventError
from holdfast.core.limits import Limits
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import Reply, Text, ToolCall, ToolResult, user
from holdfast.core.question_log import QuestionOutcome
from holdfast.core.session_state import Phase

KEY = "t1.i0.tool.0.ask.0"
ASKED = ev.QuestionAsked(f"{KEY}.asked", 10.0, "PermissionQuestion", {"tool": "x"})
ANSWERED = ev.QuestionAnswered(KEY, 70.0, {"type": "approved"})


def in_tools(limits: Limits | None = None) -> SessionMachine:
    machine = SessionMachine()
    machine.apply(ev.TurnOpened("t1", 0.0, user("go"), limits or Limits()))
    machine.apply(ev.ModelReplied("t1.i0.model", 1.0, Reply((ToolCall("1", "x"),))))
    return machine


def finish(machine: SessionMachine, at: float = 71.0) -> None:
    key = machine.pending_effects()[0].key
    machine.apply(ev.ToolFinished(key, at, ToolResult("1", "x", (Text("done"),))))


def at_the_limit(*, extendable: bool = True) -> SessionMachine:
    machine = in_tools(Limits(iterations=1, extendable=extendable))
    finish(machine)
    return machine


def test_a_question_changes_neither_the_phase_nor_what_is_pending() -> None:
    machine = in_tools()
    before = machine.pending_effects()
    machine.apply(ASKED)
    assert machine.questions.open_questions == (ASKED,)
    machine.apply(ANSWERED)
    assert machine.questions.open_questions == ()
    assert machine.questions.outcomes == {KEY: QuestionOutcome({"type": "approved"})}
    assert machine.phase is Phase.TOOLS
    assert machine.pending_effects() == before


@pytest.mark.parametrize(
    "event",
    [
        ANSWERED,
        ev.QuestionUnanswered(KEY, 1.0, "timeout"),
        ev.QuestionAsked("t1.i0.tool.7.ask.0.asked", 1.0, "X", {}),
        ev.QuestionAsked("t1.i0.model.ask.0.asked", 1.0, "X", {}),
        ev.QuestionAsked(KEY, 1.0, "X", {}),
        ev.LimitExtended("t1.i0.extended", 1.0, 3),
    ],
)
def test_only_open_questions_are_answered_and_only_pending_effects_ask(
    event: ev.Event,
) -> None:
    machine = in_tools()
    before = machine.copy_state()
    with pytest.raises(IllegalEventError):
        machine.apply(event)
    assert machine.copy_state() == before


def test_a_question_is_asked_once_and_answered_once() -> None:
    machine = in_tools()
    machine.apply(ASKED)
    with pytest.raises(IllegalEventError, match="new"):
        machine.check_event(ASKED)
    machine.apply(ANSWERED)
    for again in (ASKED, ANSWERED, ev.QuestionUnanswered(KEY, 80.0, "timeout")):
        with pytest.raises(IllegalEventError):
            machine.check_event(again)


def test_the_time_of_an_open_question_does_not_count_for_the_turn() -> None:
    machine = in_tools(Limits(seconds=30))
    machine.apply(ASKED)
    machine.apply(ANSWERED)
    finish(machine, at=71.0)
    assert machine.phase is Phase.MODEL
    late = in_tools(Limits(seconds=30))
    finish(late, at=71.0)
    assert late.status is ev.Status.LIMIT


def test_questions_that_overlap_count_their_time_once() -> None:
    machine = SessionMachine()
    machine.apply(ev.TurnOpened("t1", 0.0, user("go")))
    calls = (ToolCall("1", "x"), ToolCall("2", "x"))
    machine.apply(ev.ModelReplied("t1.i0.model", 1.0, Reply(calls)))
    machine.apply(ASKED)
    other = "t1.i0.tool.1.ask.0"
    machine.apply(ev.QuestionAsked(f"{other}.asked", 20.0, "X", {}))
    machine.apply(ANSWERED)
    machine.apply(ev.QuestionUnanswered(other, 100.0, "timeout"))
    assert machine.questions.waited_seconds == 90.0
    assert machine.questions.outcomes[other].why == "timeout"


def test_a_stopped_turn_closes_its_questions() -> None:
    machine = in_tools()
    machine.apply(ASKED)
    machine.apply(ev.TurnInterrupted("t1.interrupted", 20.0, "cancelled"))
    assert machine.questions.open_questions == ()
    machine.apply(ev.TurnClosed("t1.closed", 20.0, ev.Status.CANCELLED))
    machine.apply(ev.TurnOpened("t2", 30.0, user("again")))
    assert machine.questions.outcomes == {}
    assert machine.questions.questions == {}


def test_without_extension_the_limit_ends_the_turn_as_before() -> None:
    machine = at_the_limit(extendable=False)
    assert machine.status is ev.Status.LIMIT


def test_at_an_extendable_limit_the_model_is_not_called_before_a_yes() -> None:
    machine = at_the_limit()
    assert machine.is_over_limit()
    with pytest.raises(IllegalEventError, match="over the limit"):
        machine.check_event(ev.ModelReplied("t1.i1.model", 80.0, Reply((Text("more"),))))
    machine.apply(ev.LimitExtended("t1.i1.extended", 80.0, 2))
    assert not machine.is_over_limit()
    assert machine.limits.iterations == 3
    with pytest.raises(IllegalEventError):
        machine.check_event(ev.LimitExtended("t1.i1.extended", 80.0, 2))
    machine.apply(ev.ModelReplied("t1.i1.model", 81.0, Reply((Text("done"),))))
    assert machine.status is ev.Status.COMPLETED


def test_a_no_at_the_limit_ends_the_turn_by_its_limit() -> None:
    machine = at_the_limit()
    info = ErrorInfo(category=ErrorCategory.LIMIT, safe="no", code="iterations")
    machine.apply(ev.ModelFailed("t1.i1.model", 80.0, info))
    assert machine.status is ev.Status.LIMIT
    machine.apply(ev.TurnClosed("t1.closed", 80.0, machine.status, machine.error))
    assert machine.transcript[-1].role == "tool"
    assert machine.can_try_again


def test_the_extension_applies_to_one_turn() -> None:
    machine = at_the_limit()
    machine.apply(ev.LimitExtended("t1.i1.extended", 80.0, 2))
    machine.apply(ev.ModelReplied("t1.i1.model", 81.0, Reply((Text("done"),))))
    machine.apply(ev.TurnClosed("t1.closed", 82.0, ev.Status.COMPLETED))
    machine.apply(ev.TurnOpened("t2", 90.0, user("again"), Limits(iterations=1)))
    assert machine.limits.iterations == 1


@pytest.mark.parametrize("iterations", [0, -3])
def test_an_extension_by_zero_is_refused(iterations: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        ev.LimitExtended("t1.i1.extended", 0.0, iterations)


def test_an_effect_that_ends_closes_its_question() -> None:
    machine = in_tools(Limits(seconds=30))
    machine.apply(ASKED)
    finish(machine, at=20.0)
    assert machine.questions.open_questions == ()
    assert machine.questions.waited_seconds == 10.0
    with pytest.raises(IllegalEventError):
        machine.check_event(ANSWERED)


# Suspended turns.

RESUMED = ev.TurnResumed("t1.resumed.0", 500.0)


def suspended(*, wait: str = "suspend", before: bool = False) -> SessionMachine:
    machine = in_tools(Limits(seconds=30))
    machine.apply(ev.ToolsBegun("t1.i0.begun", 2.0))
    machine.apply(ev.QuestionAsked(f"{KEY}.asked", 10.0, "X", {}, wait, before))  # type: ignore[arg-type]
    return machine


@pytest.mark.parametrize(
    ("wait", "before", "again"),
    [("suspend", False, True), ("hold", True, True), ("hold", False, False)],
)
def test_a_deferred_answer_is_used_once(wait: str, before: bool, again: bool) -> None:
    machine = suspended(wait=wait, before=before)
    scope = frozenset({"t1.i0.tool.0"}) if again else frozenset()
    assert machine.questions.rerunnable_askers == scope
    assert machine.questions.is_waiting is (wait == "suspend")
    with pytest.raises(IllegalEventError):
        machine.check_event(RESUMED)
    machine.apply(ev.QuestionAnswered(KEY, 400.0, {}, deferred=True))
    assert machine.questions.rerunnable_askers == scope
    assert machine.questions.is_waiting
    machine.apply(RESUMED)
    # From here on the tool may have taken effect.
    assert machine.questions.rerunnable_askers == frozenset()
    assert not machine.questions.is_waiting
    for number in (0, 1):
        with pytest.raises(IllegalEventError):
            machine.check_event(ev.TurnResumed(f"t1.resumed.{number}", 501.0))
    finish(machine, at=503.0)
    # In 490 of these seconds a question was open, or the run was suspended.
    assert machine.status is ev.Status.RUNNING


def test_an_effect_that_ends_drops_its_deferred_answer() -> None:
    machine = SessionMachine()
    machine.apply(ev.TurnOpened("t1", 0.0, user("go")))
    machine.apply(
        ev.ModelReplied("t1.i0.model", 1.0, Reply((ToolCall("1", "x"), ToolCall("2", "x"))))
    )
    machine.apply(ev.QuestionAsked(f"{KEY}.asked", 10.0, "X", {}, "suspend"))
    machine.apply(ev.QuestionAnswered(KEY, 400.0, {}, deferred=True))
    assert machine.questions.due_askers
    finish(machine, at=410.0)
    assert machine.phase is Phase.TOOLS
    assert machine.questions.due_askers == {}
    assert not machine.questions.is_waiting
    assert machine.questions.waited_seconds == 400.0
    with pytest.raises(IllegalEventError):
        machine.check_event(RESUMED)


def test_an_answer_to_a_waiting_asker_leaves_no_open_question() -> None:
    machine = suspended()
    machine.apply(ev.QuestionAnswered(KEY, 11.0, {}))
    assert machine.questions.rerunnable_askers == frozenset()
    assert not machine.questions.is_waiting


def test_an_asker_with_two_questions_waits_for_both() -> None:
    machine = suspended()
    other = "t1.i0.tool.0.ask.1"
    machine.apply(ev.QuestionAsked(f"{other}.asked", 11.0, "X", {}, "suspend"))
    machine.apply(ev.QuestionAnswered(other, 12.0, {}, deferred=True))
    machine.apply(ev.TurnResumed("t1.resumed.0", 13.0))
    assert machine.questions.rerunnable_askers == {"t1.i0.tool.0"}
    machine.apply(ev.QuestionUnanswered(KEY, 20.0, "timeout", deferred=True))
    machine.apply(ev.TurnResumed("t1.resumed.1", 21.0))
    assert machine.questions.rerunnable_askers == frozenset()


def test_an_abandoned_turn_waits_for_nothing() -> None:
    machine = suspended()
    machine.apply(ev.QuestionAnswered(KEY, 12.0, {}, deferred=True))
    machine.apply(ev.TurnInterrupted("t1.interrupted", 20.0, "cancelled"))
    assert not machine.questions.is_waiting
    assert machine.questions.due_askers == {}
