"""What follows a phase is read from the table of transitions, and stands nowhere else.

The table was compared with the machine by tests and drawn in the docs, but the machine chose the
next phase by itself: a wrong row of the table changed nothing but the drawing.
"""

from __future__ import annotations

import ast
import inspect

import pytest

from holdfast.core import events as ev
from holdfast.core import machine as machine_module
from holdfast.core.effects import CallModel
from holdfast.core.errors import ErrorCategory, ErrorInfo, IllegalEventError
from holdfast.core.limits import Limits
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import Reply, Text, ToolCall, user
from holdfast.core.session_state import Phase
from holdfast.core.transitions import TRANSITIONS

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
