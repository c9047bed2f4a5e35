"""Rewinds and compactions of a session, event by event on the machine."""

from __future__ import annotations

import pytest

from holdfast.core import events as ev
from holdfast.core.errors import IllegalEventError
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import Reply, Text, ToolCall, ToolResult, user
from holdfast.core.session_state import Phase
from holdfast.core.transcript import Form
from holdfast.core.turn_history import ASK_SUMMARY


def talk(machine: SessionMachine, text: str, *, tool: bool = False) -> None:
    """Apply one complete turn."""
    number = machine.turn + 1
    machine.apply(ev.TurnOpened(f"t{number}", 0.0, user(text)))
    if tool:
        machine.apply(ev.ModelReplied(f"t{number}.i0.model", 0.0, Reply((ToolCall("c", "x"),))))
        result = ToolResult("c", "x", (Text("done"),))
        machine.apply(ev.ToolFinished(f"t{number}.i0.tool.0", 0.0, result))
    (effect,) = machine.pending_effects()
    machine.apply(ev.ModelReplied(effect.key, 0.0, Reply((Text(f"re {text}"),))))
    machine.apply(ev.TurnClosed(f"t{number}.closed", 0.0, ev.Status.COMPLETED))


def talked(*texts: str) -> SessionMachine:
    machine = SessionMachine()
    for text in texts:
        talk(machine, text)
    return machine


def users(machine: SessionMachine) -> list[str]:
    return [message.text for message in machine.transcript if message.role == "user"]


def rewind(machine: SessionMachine, to: int) -> None:
    machine.apply(ev.SessionRewound(f"t{machine.turn + 1}", 0.0, to))


def compact(machine: SessionMachine, *ranges: tuple[int, int], summary: str = "") -> None:
    machine.apply(ev.HistoryCompacted(f"t{machine.turn + 1}", 0.0, ranges, summary))


def test_a_rewind_removes_later_turns() -> None:
    machine = talked("a", "b", "c")
    rewind(machine, 1)
    assert users(machine) == ["a"]
    talk(machine, "d")
    assert users(machine) == ["a", "d"]


def test_a_number_is_never_used_again() -> None:
    machine = talked("a", "b")
    rewind(machine, 0)
    assert machine.turn == 3
    with pytest.raises(IllegalEventError):
        machine.apply(ev.TurnOpened("t1", 0.0, user("again")))
    machine.apply(ev.TurnOpened("t4", 0.0, user("again")))


def test_a_rewind_can_be_undone() -> None:
    machine = talked("a", "b", "c")
    rewind(machine, 1)
    talk(machine, "d")
    rewind(machine, 3)
    assert users(machine) == ["a", "b", "c"]
    rewind(machine, 5)
    assert users(machine) == ["a", "d"]
    rewind(machine, 4)
    assert users(machine) == ["a"]


def test_a_summary_replaces_messages_and_a_rewind_restores_them() -> None:
    machine = talked("a", "b", "c")
    whole = list(machine.transcript)
    compact(machine, (4, 6), summary="a and b")
    assert [message.text for message in machine.transcript] == [ASK_SUMMARY, "a and b", "c", "re c"]
    talk(machine, "d")
    rewind(machine, 3)
    assert list(machine.transcript) == whole


def test_without_a_summary_old_messages_are_dropped() -> None:
    machine = talked("a", "b", "c")
    compact(machine, (0, 2), (4, 6))
    assert users(machine) == ["a", "c"]


def test_the_common_encoded_prefix_is_reused() -> None:
    machine = talked("a", "b", "c")
    machine.transcript.encode_messages(Form("wire", lambda message: message.text.encode()))
    rewind(machine, 2)
    assert machine.transcript.encoded_count("wire") == 4


@pytest.mark.parametrize(
    "kept",
    [((1, 3),), ((2, 4),), ((0, 2), (3, 4)), ((0, 5),), ((2, 2),), ((2, 4), (0, 2)), ((-1, 4),)],
)
def test_a_compaction_that_separates_call_and_result_is_refused(
    kept: tuple[tuple[int, int], ...],
) -> None:
    machine = SessionMachine()
    talk(machine, "a", tool=True)  # user, call, result, answer
    before = machine.copy_state()
    with pytest.raises(IllegalEventError):
        compact(machine, *kept)
    assert machine.copy_state() == before


def test_nothing_changes_the_history_while_a_turn_is_open() -> None:
    machine = talked("a")
    machine.apply(ev.TurnOpened("t2", 0.0, user("b")))
    for event in (ev.SessionRewound("t3", 0.0, 1), ev.HistoryCompacted("t3", 0.0, (), "x")):
        with pytest.raises(IllegalEventError):
            machine.apply(event)
    assert machine.phase is Phase.MODEL


@pytest.mark.parametrize("to", [3, 99])
def test_a_rewind_to_a_future_number_is_refused(to: int) -> None:
    machine = talked("a", "b")
    with pytest.raises(IllegalEventError):
        rewind(machine, to)


def test_a_negative_number_is_refused() -> None:
    with pytest.raises(ValueError, match="from 0"):
        ev.SessionRewound("t1", 0.0, -1)


def test_a_session_can_be_rewound_to_a_failed_turn() -> None:
    machine = talked("a")
    machine.apply(ev.TurnOpened("t2", 0.0, user("b")))
    machine.apply(ev.TurnInterrupted("t2.interrupted", 0.0, "cancelled"))
    machine.apply(ev.TurnClosed("t2.closed", 0.0, ev.Status.CANCELLED))
    said = list(machine.transcript)
    talk(machine, "c")
    rewind(machine, 2)
    assert list(machine.transcript) == said


def test_the_history_before_the_first_turn_stays() -> None:
    machine = SessionMachine([user("before")])
    talk(machine, "a")
    rewind(machine, 0)
    assert users(machine) == ["before"]


@pytest.mark.parametrize("kind", ["compaction", "rewind that brought turns back"])
def test_a_rewind_to_a_change_restores_what_that_change_left(kind: str) -> None:
    machine = talked("a", "b")
    if kind == "compaction":
        compact(machine, (2, 4), summary="a")
    else:
        rewind(machine, 1)
        rewind(machine, 2)
    changed, left = machine.turn, users(machine)
    talk(machine, "c")
    rewind(machine, 0)
    rewind(machine, changed)
    assert users(machine) == left
