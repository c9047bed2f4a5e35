"""TurnStopped is legal while an effect is pending, and the history stays valid."""

from __future__ import annotations

import pytest

from holdfast.core import events as ev
from holdfast.core.errors import ErrorCategory, ErrorInfo, IllegalEventError
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import Reply, Text, ToolCall, ToolResult, user
from holdfast.core.session_state import Phase


def opened() -> SessionMachine:
    machine = SessionMachine()
    machine.apply(ev.TurnOpened("t1", 0.0, user("go")))
    return machine


def asked_for_tools() -> SessionMachine:
    machine = opened()
    reply = Reply((ToolCall("1", "pay"), ToolCall("2", "look")))
    machine.apply(ev.ModelReplied("t1.i0.model", 1.0, reply))
    return machine


def close(machine: SessionMachine) -> SessionMachine:
    (effect,) = machine.pending_effects()
    machine.apply(ev.TurnClosed(effect.key, 3.0, effect.status, effect.error))  # type: ignore[union-attr]
    return machine


STOPPED = ev.TurnStopped("t1.stopped", 2.0, "why", "Enough.", "Guard")


def test_a_stop_before_the_model_call_gives_the_final_text() -> None:
    machine = opened()
    machine.apply(STOPPED)
    close(machine)
    assert (machine.status, machine.phase) == (ev.Status.STOPPED, Phase.IDLE)
    assert [message.text for message in machine.transcript] == ["go", "Enough."]


def test_a_stop_before_the_tools_gives_every_call_an_error_result() -> None:
    machine = asked_for_tools()
    machine.apply(STOPPED)
    close(machine)
    results = [part for part in machine.transcript[2].parts if isinstance(part, ToolResult)]
    assert ["was not run" in result.text for result in results] == [True, True]
    assert machine.transcript[-1].text == "Enough."


def test_tools_that_had_begun_are_in_doubt() -> None:
    machine = asked_for_tools()
    machine.apply(ev.ToolsBegun("t1.i0.begun", 1.0))
    machine.apply(ev.ToolFinished("t1.i0.tool.1", 1.5, ToolResult("2", "look", (Text("ok"),))))
    machine.apply(STOPPED)
    results = [part for part in machine.transcript[2].parts if isinstance(part, ToolResult)]
    assert "Whether it took effect is unknown" in results[0].text
    assert results[1].text == "ok"


def test_a_stop_with_an_error_fails_the_turn_without_text() -> None:
    info = ErrorInfo(category=ErrorCategory.PROGRAMMING, safe="Guard.after_tool raised KeyError")
    machine = opened()
    machine.apply(ev.TurnStopped("t1.stopped", 2.0, "why", error=info))
    close(machine)
    assert machine.status is ev.Status.FAILED
    assert [message.role for message in machine.transcript] == ["user"]


def test_a_stop_that_refuses_the_message_removes_it() -> None:
    machine = opened()
    machine.apply(ev.TurnStopped("t1.stopped", 2.0, "denied", "No.", refused=True))
    close(machine)
    assert machine.status is ev.Status.STOPPED
    assert len(machine.transcript) == 0
    assert not machine.can_try_again


def test_the_next_turn_follows_a_stopped_one() -> None:
    machine = opened()
    machine.apply(STOPPED)
    close(machine)
    machine.apply(ev.TurnOpened("t2", 9.0, user("more")))
    assert machine.stop_event is None
    assert machine.pending_effects()[0].key == "t2.i0.model"


def test_a_stop_is_illegal_when_nothing_is_pending_or_the_turn_has_ended() -> None:
    with pytest.raises(IllegalEventError):
        SessionMachine().apply(ev.TurnStopped("t0.stopped", 0.0, "why"))
    machine = opened()
    machine.apply(ev.ModelReplied("t1.i0.model", 1.0, Reply((Text("done"),))))
    with pytest.raises(IllegalEventError):
        machine.apply(STOPPED)
    with pytest.raises(IllegalEventError):
        opened().apply(ev.TurnStopped("t2.stopped", 0.0, "why"))


def test_an_event_refuses_the_private_half_of_an_error() -> None:
    info = ErrorInfo(category=ErrorCategory.PROGRAMMING, safe="x", private="secret")
    with pytest.raises(ValueError, match="private half"):
        ev.TurnStopped("t1.stopped", 2.0, "why", error=info)
