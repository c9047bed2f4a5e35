from __future__ import annotations

import json
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adh.commands.exit_statuses import ExitStatus
from adh.commands.run_report import (
    CallOutcome,
    ReportedCall,
    RunMetadata,
    RunReport,
    collect_calls,
    format_json,
    format_markdown,
    format_text,
    list_used_tools,
)
from adh.transcript.blocks import NoteBlock, ToolBlock, ToolState

METADATA = RunMetadata(
    execution_time_ms=1234,
    tools_used=("read_file",),
    model="gemini:flash",
    agent="orchestrator",
    session="s-1",
    usage={"input": 1200, "output": 34},
)
DONE = RunReport(kind="done", response="It is fixed.", metadata=METADATA, prompt="Fix it")
READ = ReportedCall(
    tool="read_file",
    arguments='{"file_path": "a.py"}',
    level="automatic",
    risk="low",
    rule="files.read (built-in)",
    outcome="ran",
)


def with_call(**changes: object) -> RunReport:
    return msgspec.structs.replace(DONE, calls=(msgspec.structs.replace(READ, **changes),))


def test_json_has_exactly_the_keys_of_a_run_that_is_done() -> None:
    text = format_json(DONE)
    assert "\n" not in text
    assert json.loads(text) == {
        "success": True,
        "kind": "done",
        "response": "It is fixed.",
        "metadata": {
            "execution_time_ms": 1234,
            "tools_used": ["read_file"],
            "model": "gemini:flash",
            "agent": "orchestrator",
            "session": "s-1",
            "usage": {"input": 1200, "output": 34},
        },
    }


def test_json_of_a_failure_has_the_error_and_the_partial_text() -> None:
    report = msgspec.structs.replace(
        DONE, kind="broken_off", response="", error="The reply broke off.", partial="It is"
    )
    found = json.loads(format_json(report))
    assert found["success"] is False
    assert list(found) == ["success", "kind", "response", "error", "partial", "metadata"]
    assert (found["error"], found["partial"]) == ("The reply broke off.", "It is")


@pytest.mark.parametrize(
    ("report", "status"),
    [
        (DONE, ExitStatus.DONE),
        (with_call(), ExitStatus.DONE),
        (with_call(outcome="approved", by="--yes"), ExitStatus.DONE),
        (with_call(outcome="denied", by="ada"), ExitStatus.DONE),
        (with_call(outcome="denied", by="nobody"), ExitStatus.BLOCKED),
        (with_call(outcome="blocked"), ExitStatus.BLOCKED),
        (with_call(outcome="failed"), ExitStatus.BLOCKED),
        (msgspec.structs.replace(DONE, kind="blocked_by_policy"), ExitStatus.BLOCKED),
        (msgspec.structs.replace(DONE, kind="waiting"), ExitStatus.BLOCKED),
        (msgspec.structs.replace(DONE, kind="refused"), ExitStatus.FAILED),
        (msgspec.structs.replace(DONE, kind="limit"), ExitStatus.FAILED),
        (msgspec.structs.replace(DONE, kind="cancelled"), ExitStatus.INTERRUPTED),
    ],
)
def test_the_status_tells_a_stopped_call_from_a_failure(
    report: RunReport, status: ExitStatus
) -> None:
    assert report.status is status
    assert json.loads(format_json(report))["success"] is (status is ExitStatus.DONE)


def test_text_is_the_answer_alone_without_control_characters() -> None:
    report = msgspec.structs.replace(DONE, response="one\ttwo\n\x1b[2Jthree")
    assert format_text(report) == "one\ttwo\n\\x1b[2Jthree"


def test_markdown_tells_what_was_asked_and_denied() -> None:
    denied = msgspec.structs.replace(
        READ, tool="delete_file", level="confirm", risk="high", outcome="denied", by="nobody"
    )
    report = msgspec.structs.replace(DONE, calls=(READ, denied))
    text = format_markdown(report)
    assert "Outcome: **done** (exit status 2)" in text
    assert "Calls: 2, of which 1 were stopped" in text
    assert "| 1 | read\\_file |" in text
    assert "| 2 | delete\\_file |" in text
    assert "asked, and denied by nobody" in text
    assert text.index("## Task") < text.index("## What was asked") < text.index("## Answer")


@given(st.text(), st.text())
def test_no_text_of_a_tool_leaves_its_cell_or_its_quotation(arguments: str, reason: str) -> None:
    report = msgspec.structs.replace(
        with_call(arguments=arguments, reason=reason, outcome="blocked"), prompt=arguments
    )
    lines = format_markdown(report).split("\n")
    row = next(line for line in lines if line.startswith("| 1 |"))
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 7
    assert "\x1b" not in row
    task = lines[lines.index("## Task") + 2 : lines.index("## What was asked and denied") - 1]
    assert all(line.startswith(">") for line in task)


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
