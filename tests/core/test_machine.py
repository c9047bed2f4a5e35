"""The machine, event by event, without the runtime."""

from __future__ import annotations

import ast
import inspect

import pytest

from holdfast.core import events as ev
from holdfast.core import machine as machine_module
from holdfast.core.effects import CallModel, CloseTurn, RunTool, effect_digest
from holdfast.core.errors import ErrorCategory, ErrorInfo, IllegalEventError
from holdfast.core.limits import Limits
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import (
    Reply,
    ReplyKind,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    user,
)
from holdfast.core.output_retries import OUTPUT_CHECKED
from holdfast.core.problems import Problem
from holdfast.core.session_state import TRANSITIONS, Phase

FAILURE = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="the provider is down")


def opened(limits: Limits | None = None, flags: int = 0) -> SessionMachine:
    machine = SessionMachine()
    machine.apply(ev.TurnOpened("t1", 0.0, user("Hello"), limits or Limits(), flags))
    return machine


def says(
    machine: SessionMachine, *parts: Text | ToolCall, kind: ReplyKind = ReplyKind.COMPLETE
) -> None:
    (effect,) = machine.pending_effects()
    machine.apply(ev.ModelReplied(effect.key, 1.0, Reply(parts, kind=kind, usage=Usage(5, 2))))


def finish(machine: SessionMachine, key: str, text: str = "ok", at: float = 2.0) -> None:
    effect = next(e for e in machine.pending_effects() if e.key == key)
    assert isinstance(effect, RunTool)
    result = ToolResult(effect.call.id, effect.call.name, (Text(text),))
    machine.apply(ev.ToolFinished(key, at, result))


def close(machine: SessionMachine) -> CloseTurn:
    (effect,) = machine.pending_effects()
    assert isinstance(effect, CloseTurn)
    machine.apply(ev.TurnClosed(effect.key, 3.0, effect.status, effect.error))
    return effect


def test_a_turn_without_tools() -> None:
    machine = opened()
    assert machine.pending_effects() == (CallModel("t1.i0.model", 0, 1),)
    says(machine, Text("Hi"))
    assert close(machine).status is ev.Status.COMPLETED
    assert machine.output == "Hi"
    assert [m.role for m in machine.transcript] == ["user", "assistant"]
    assert machine.pending_effects() == ()


def test_tools_are_planned_by_index_and_not_by_the_provider_id() -> None:
    machine = opened()
    says(machine, ToolCall("same", "a"), ToolCall("same", "b"))
    assert [effect.key for effect in machine.pending_effects()] == ["t1.i0.tool.0", "t1.i0.tool.1"]


def test_results_are_in_call_order_whatever_finished_first() -> None:
    machine = opened()
    says(machine, ToolCall("1", "a"), ToolCall("2", "b"))
    finish(machine, "t1.i0.tool.1", "second")
    assert [effect.key for effect in machine.pending_effects()] == ["t1.i0.tool.0"]
    finish(machine, "t1.i0.tool.0", "first")
    texts = [part.text for part in machine.transcript[-1].parts if isinstance(part, ToolResult)]
    assert texts == ["first", "second"]
    assert machine.pending_effects() == (CallModel("t1.i1.model", 1, 3),)


def test_calls_of_a_truncated_reply_are_planned_as_unfinished() -> None:
    machine = opened()
    says(machine, ToolCall("1", "pay", '{"amount": 5'), kind=ReplyKind.TRUNCATED)
    (effect,) = machine.pending_effects()
    assert isinstance(effect, RunTool)
    assert effect.unfinished


def test_a_paused_reply_continues_with_another_iteration() -> None:
    machine = opened()
    says(machine, Text("searching"), kind=ReplyKind.PAUSED)
    assert machine.pending_effects() == (CallModel("t1.i1.model", 1, 2),)


@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        (Limits(iterations=1), "iterations"),
        (Limits(seconds=2), "seconds"),
        (Limits(tokens=7), "tokens"),
    ],
)
def test_a_limit_ends_the_turn_with_a_valid_history(limits: Limits, limit: str) -> None:
    machine = opened(limits)
    says(machine, ToolCall("1", "a"))
    finish(machine, "t1.i0.tool.0")
    effect = close(machine)
    assert effect.status is ev.Status.LIMIT
    assert effect.error is not None
    assert effect.error.code == limit
    assert [message.role for message in machine.transcript] == ["user", "assistant", "tool"]


def test_the_iteration_limit_uses_the_prescribed_text() -> None:
    machine = opened(Limits(iterations=1))
    says(machine, ToolCall("1", "a"))
    finish(machine, "t1.i0.tool.0")
    assert machine.error is not None
    assert machine.error.safe == (
        "Maximum iteration limit reached (1 iterations). The agent was unable to complete the "
        "task within the allowed number of turns."
    )


def test_calls_over_the_tool_limit_get_results_without_running() -> None:
    machine = opened(Limits(tool_calls=1))
    says(machine, ToolCall("1", "a"), ToolCall("2", "b"))
    assert close(machine).status is ev.Status.LIMIT
    answered = [
        part
        for message in machine.transcript
        for part in message.parts
        if isinstance(part, ToolResult)
    ]
    assert [part.is_error for part in answered] == [True, True]


def test_a_failed_turn_keeps_what_the_user_said() -> None:
    machine = opened()
    machine.apply(ev.ModelFailed("t1.i0.model", 1.0, FAILURE))
    assert close(machine).status is ev.Status.FAILED
    assert [message.role for message in machine.transcript] == ["user"]
    assert machine.can_try_again


REFUSALS = [
    ErrorInfo(category=ErrorCategory.CONTENT_FILTERED, safe="filtered"),
    ErrorInfo(category=ErrorCategory.CONTEXT_WINDOW, safe="too long"),
    ErrorInfo(category=ErrorCategory.CLIENT_ERROR, safe="a bad picture", status=400),
]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refused_message_is_removed(refusal: ErrorInfo) -> None:
    machine = opened()
    machine.apply(ev.ModelFailed("t1.i0.model", 1.0, refusal))
    close(machine)
    assert len(machine.transcript) == 0
    assert not machine.can_try_again


def test_a_message_that_is_refused_when_it_is_tried_again_is_removed() -> None:
    machine = opened()
    machine.apply(ev.ModelFailed("t1.i0.model", 1.0, FAILURE))
    close(machine)
    machine.apply(ev.TurnOpened("t2", 2.0, None))
    assert [message.role for message in machine.transcript] == ["user"]
    machine.apply(ev.ModelFailed("t2.i0.model", 3.0, REFUSALS[0]))
    machine.apply(ev.TurnClosed("t2.closed", 3.0, machine.status, machine.error))
    assert len(machine.transcript) == 0


def test_a_refusal_after_tools_keeps_their_results() -> None:
    machine = opened()
    says(machine, ToolCall("1", "pay"))
    finish(machine, "t1.i0.tool.0")
    machine.apply(ev.ModelFailed("t1.i1.model", 3.0, REFUSALS[0]))
    close(machine)
    assert [message.role for message in machine.transcript] == ["user", "assistant", "tool"]
    assert not machine.can_try_again


def test_a_turn_without_a_message_continues_after_the_results() -> None:
    machine = opened()
    says(machine, ToolCall("1", "pay"))
    finish(machine, "t1.i0.tool.0")
    machine.apply(ev.ModelFailed("t1.i1.model", 3.0, FAILURE))
    close(machine)
    machine.apply(ev.TurnOpened("t2", 4.0, None))
    assert machine.pending_effects() == (CallModel("t2.i0.model", 0, 3),)


@pytest.mark.parametrize("change", [ev.SessionRewound("t2", 2.0, 0), None])
def test_a_turn_without_a_message_needs_a_failed_turn(change: ev.Event | None) -> None:
    machine = opened()
    if change is None:
        says(machine, Text("fine"))
    else:
        machine.apply(ev.ModelFailed("t1.i0.model", 1.0, FAILURE))
    close(machine)
    if change is not None:
        machine.apply(change)
    assert not machine.can_try_again
    with pytest.raises(IllegalEventError, match="try again"):
        machine.check_event(ev.TurnOpened(f"t{machine.turn + 1}", 4.0, None))


def test_a_failed_turn_whose_tools_ran_keeps_their_results() -> None:
    machine = opened()
    says(machine, ToolCall("1", "pay"))
    finish(machine, "t1.i0.tool.0")
    machine.apply(ev.ModelFailed("t1.i1.model", 3.0, FAILURE))
    close(machine)
    assert [m.role for m in machine.transcript] == ["user", "assistant", "tool"]


def test_an_interruption_gives_every_call_a_result() -> None:
    machine = opened()
    says(machine, ToolCall("1", "pay"), ToolCall("2", "mail"), ToolCall("3", "look"))
    machine.apply(ev.ToolsBegun("t1.i0.begun", 1.0))
    finish(machine, "t1.i0.tool.2")
    machine.apply(ev.TurnInterrupted("t1.interrupted", 2.0, "cancelled", ("t1.i0.tool.0",)))
    assert close(machine).status is ev.Status.CANCELLED
    results = [part for part in machine.transcript[-1].parts if isinstance(part, ToolResult)]
    assert "Whether it took effect is unknown" in results[0].text
    assert "was not run" in results[1].text
    assert results[2].text == "ok"


def test_an_interrupted_reply_keeps_the_text_that_was_shown() -> None:
    machine = opened()
    partial = Reply((Text("Half an ans"),), kind=ReplyKind.UNTERMINATED)
    machine.apply(ev.TurnInterrupted("t1.interrupted", 2.0, "cancelled", (), partial))
    close(machine)
    assert machine.transcript[-1].text == "Half an ans"
    machine.apply(ev.TurnOpened("t2", 3.0, None))
    assert [message.role for message in machine.transcript] == ["user"]


def test_turns_follow_each_other_on_one_machine() -> None:
    machine = opened()
    says(machine, Text("Hi"))
    close(machine)
    machine.apply(ev.TurnOpened("t2", 9.0, user("More")))
    assert machine.pending_effects() == (CallModel("t2.i0.model", 0, 3),)


ILLEGAL = [
    ev.TurnOpened("t1", 0.0, user("again")),
    ev.ModelReplied("t1.i1.model", 0.0, Reply((Text("x"),))),
    ev.ToolFinished("t1.i0.tool.0", 0.0, ToolResult("1", "a", ())),
    ev.TurnClosed("t1.closed", 0.0, ev.Status.COMPLETED),
    ev.ToolsBegun("t1.i0.begun", 0.0),
    ev.TurnInterrupted("t2.interrupted", 0.0, "cancelled"),
]


@pytest.mark.parametrize("event", ILLEGAL, ids=lambda event: type(event).__name__)
def test_an_illegal_event_is_an_error_and_changes_nothing(event: ev.Event) -> None:
    machine = opened()
    before = machine.copy_state()
    with pytest.raises(IllegalEventError):
        machine.apply(event)
    assert machine.copy_state() == before


def test_a_tool_cannot_finish_twice_nor_begin_twice() -> None:
    machine = opened()
    says(machine, ToolCall("1", "a"), ToolCall("2", "b"))
    machine.apply(ev.ToolsBegun("t1.i0.begun", 1.0))
    finish(machine, "t1.i0.tool.0")
    for event in (
        ev.ToolFinished("t1.i0.tool.0", 2.0, ToolResult("1", "a", ())),
        ev.ToolsBegun("t1.i0.begun", 1.0),
    ):
        with pytest.raises(IllegalEventError):
            machine.apply(event)


def test_every_phase_can_be_left_and_every_event_is_in_the_table() -> None:
    assert set(TRANSITIONS) == set(Phase)
    assert {kind for events in TRANSITIONS.values() for kind in events} == set(ev.Event.__args__)


def test_an_answer_of_the_wrong_shape_is_asked_for_again_with_every_problem() -> None:
    machine = opened(flags=OUTPUT_CHECKED)
    says(machine, Text("seven"))
    machine.apply(ev.OutputChecked("t1.i0.output", 2.0, problems=(Problem("", "no digit"),)))
    assert "no digit" in machine.transcript[-1].text
    says(machine, Text("7"))
    machine.apply(ev.OutputChecked("t1.i1.output", 3.0, "strict"))
    assert close(machine).status is ev.Status.COMPLETED


def test_repairs_are_bounded() -> None:
    machine = opened(Limits(output_repairs=1), flags=OUTPUT_CHECKED)
    for number, text in enumerate(("seven", "eight")):
        says(machine, Text(text))
        problems = (Problem("", "no digit"),)
        machine.apply(ev.OutputChecked(f"t1.i{number}.output", 2.0, problems=problems))
    effect = close(machine)
    assert effect.status is ev.Status.FAILED
    assert effect.error is not None
    assert effect.error.code == "output"
    assert [message.role for message in machine.transcript] == ["user"]


def test_a_digest_distinguishes_content_under_the_same_key() -> None:
    one = RunTool("t1.i0.tool.0", ToolCall("1", "pay", '{"amount": 5}'), 0)
    other = RunTool("t1.i0.tool.0", ToolCall("1", "pay", '{"amount": 6}'), 0)
    assert effect_digest(one) == effect_digest(one)
    assert effect_digest(one) != effect_digest(other)


def test_an_event_refuses_the_private_half_of_an_error() -> None:
    private = ErrorInfo(category=ErrorCategory.UNKNOWN, safe="x", private="password=hunter2")
    with pytest.raises(ValueError, match="public"):
        ev.ModelFailed("t1.i0.model", 0.0, private)
    assert "hunter2" not in repr(private)


def test_the_given_history_is_copied() -> None:
    past = [user("a"), assistant("b")]
    machine = SessionMachine(past)
    machine.apply(ev.TurnOpened("t1", 0.0, user("c")))
    assert len(past) == 2
    assert len(machine.transcript) == 3


# The next phase is read from the table of transitions, and is defined nowhere else.

FAILED = ev.ModelFailed("t1.i0.model", 1.0, ErrorInfo(category=ErrorCategory.UNKNOWN, safe="no"))


def open_turn() -> SessionMachine:
    machine = SessionMachine()
    machine.apply(ev.TurnOpened("t1", 0.0, user("Hello"), Limits()))
    return machine


def test_another_row_leads_to_another_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TRANSITIONS[Phase.MODEL], ev.ModelFailed, (Phase.MODEL,))
    machine = open_turn()
    machine.apply(FAILED)
    assert machine.phase is Phase.MODEL
    assert machine.pending_effects() == (CallModel("t1.i0.model", 0, 1),)


def test_the_first_phase_that_fits_is_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    reply = ev.ModelReplied("t1.i0.model", 1.0, Reply((Text("Hi"), ToolCall("1", "a"))))
    for phases, entered in (
        ((Phase.OUTPUT, Phase.TOOLS, Phase.MODEL), Phase.TOOLS),
        ((Phase.OUTPUT, Phase.CLOSING, Phase.MODEL), Phase.MODEL),
    ):
        monkeypatch.setitem(TRANSITIONS[Phase.MODEL], ev.ModelReplied, phases)
        machine = open_turn()
        machine.apply(reply)
        assert machine.phase is entered


def test_an_event_without_a_row_is_illegal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(TRANSITIONS[Phase.MODEL], ev.ModelFailed)
    machine = open_turn()
    assert not machine.allows_event(ev.ModelFailed)
    with pytest.raises(IllegalEventError, match="waits for model"):
        machine.apply(FAILED)


def test_no_handler_of_an_event_sets_the_phase_or_the_plan() -> None:
    """Only the start values, the start of a turn, and the reader of the table do."""
    tree = ast.parse(inspect.getsource(machine_module))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert {one.name for one in functions if assigned_names(one) & {"phase", "_planned"}} == {
        "__init__",
        "_reset_turn",
        "_enter_next_phase",
    }


def assigned_names(function: ast.FunctionDef) -> set[str]:
    nodes = [node for node in ast.walk(function) if isinstance(node, ast.Attribute)]
    return {node.attr for node in nodes if isinstance(node.ctx, ast.Store)}


def test_each_event_counts_once() -> None:
    machine = opened()
    says(machine, Text("Hi"))
    close(machine)
    assert machine.event_count == 3


def test_the_limits_of_a_turn_without_any_given_ones() -> None:
    limits = Limits()
    assert (limits.iterations, limits.seconds, limits.output_repairs) == (10, 300.0, 2)
    assert not limits.extendable
    assert limits.tool_calls is limits.tokens is None
    assert limits.output_repair_tokens is limits.output_repair_seconds is None
