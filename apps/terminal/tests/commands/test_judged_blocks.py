from __future__ import annotations

import pytest

from adh.commands.judged_blocks import collect_calls, list_used_tools
from adh.commands.run_report import CallOutcome
from adh.transcript.blocks import NoteBlock, ToolBlock, ToolState

KEY = "t2.i0.tool.0"


def block(state: ToolState, *, error: str = "", number: int = 0, turn: int = 2) -> ToolBlock:
    return ToolBlock(
        id=f"t{turn}.i0.tool.{number}",
        turn=turn,
        name="write_file",
        state=state,
        error=error,
        level="confirm",
        risk="medium",
        rule="files.write (built-in)",
        arguments='{"file_path": "a.py"}',
    )


@pytest.mark.parametrize(
    ("state", "error", "by", "outcome"),
    [
        (ToolState.SUCCESS, "", "", "ran"),
        (ToolState.SUCCESS, "", "ada", "approved"),
        (ToolState.FAILED, "not found", "ada", "errored"),
        (ToolState.IN_DOUBT, "", "", "errored"),
        (ToolState.BLOCKED, "A rule denies it.", "", "blocked"),
        (ToolState.BLOCKED, "Safety check(s) failed: sandbox", "", "failed"),
        (ToolState.CANCELLED, "no", "nobody", "denied"),
        (ToolState.CANCELLED, "", "", "cancelled"),
        (ToolState.PENDING, "", "", "cancelled"),
    ],
)
def test_each_state_has_one_outcome(
    state: ToolState, error: str, by: str, outcome: CallOutcome
) -> None:
    answered = {f"{KEY}.ask.0": by} if by else {}
    (call,) = collect_calls([block(state, error=error)], 2, answered)
    assert (call.outcome, call.by) == (outcome, by)
    assert call.is_stopped is (outcome in ("blocked", "failed") or by == "nobody")


def test_only_the_calls_of_the_turn_count_in_order() -> None:
    blocks = [
        block(ToolState.SUCCESS, turn=1),
        NoteBlock(id="n", text="x"),
        block(ToolState.SUCCESS),
        block(ToolState.BLOCKED, number=1),
    ]
    assert [call.outcome for call in collect_calls(blocks, 2, {})] == ["ran", "blocked"]
    assert list_used_tools(blocks, 2) == ("write_file",)
    assert list_used_tools(blocks[3:], 2) == ()


def test_a_delegated_call_finds_its_answer() -> None:
    nested = block(ToolState.SUCCESS)
    nested.id = f"t2.i1.tool.0/{KEY}"
    (call,) = collect_calls([nested], 2, {f"{KEY}.ask.0": "ada"})
    assert (call.outcome, call.by) == ("approved", "ada")


def test_secrets_are_not_reported() -> None:
    secret = block(ToolState.FAILED, error="login failed: password=hunter2")
    secret.arguments = '{"command": "login --token ghp_abcdefghijklmnopqrstuvwxyz0123456789"}'
    (call,) = collect_calls([secret], 2, {})
    assert "hunter2" not in call.reason
    assert "ghp_abc" not in call.arguments
