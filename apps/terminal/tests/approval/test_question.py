"""An approval holds for what was shown and for nothing else; the texts of answers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from adh.approval.question import ApprovalQuestion, NamedApproval
from adh.approval.question_making import still_holds
from adh.checks.check_context import CheckOutcome
from holdfast import Denied

SHOWN = ApprovalQuestion(
    tool="write_file",
    arguments={"file_path": "a"},
    level="manual",
    risk="medium",
    folder="/project",
    commands=("ls",),
    paths=("write /project/a",),
    diff="+x",
    base="abc /project/a",
    shown="d1",
    checks=(CheckOutcome("sandbox", passed=True),),
)

CHANGES: list[dict[str, Any]] = [
    {"level": "deny"},
    {"risk": "high"},
    {"base": "def /project/a"},
    {"must_type": "a"},
    {"checks": (CheckOutcome("sandbox", passed=False),)},
    {"folder": "/other"},
    {"commands": ("rm",)},
    {"paths": ("write /etc/a",)},
    {"diff": "+y"},
    {"tool": "delete_file"},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_whatever_changed_voids_an_approval(change: dict[str, Any]) -> None:
    assert still_holds(SHOWN, SHOWN)
    assert not still_holds(SHOWN, msgspec.structs.replace(SHOWN, **change))


def test_what_became_milder_or_moved_in_its_file_does_not() -> None:
    milder = msgspec.structs.replace(
        SHOWN, level="confirm", risk="low", rule="files.x (own.yaml:9)"
    )
    assert still_holds(SHOWN, milder)


def test_edited_arguments_hold_where_editing_was_allowed_and_nothing_is_stricter() -> None:
    edited = msgspec.structs.replace(SHOWN, shown="d2", diff="+y", commands=())
    assert not still_holds(SHOWN, edited)
    editable = msgspec.structs.replace(SHOWN, may_edit=True)
    assert still_holds(editable, edited)
    for change in CHANGES[:5]:
        assert not still_holds(editable, msgspec.structs.replace(edited, **change))


def test_answers_and_their_texts() -> None:
    assert SHOWN.deny().value == Denied(reason="Tool 'write_file' execution cancelled by user")
    assert (
        SHOWN.deny("later").value.reason == "Tool 'write_file' execution cancelled by user: later"
    )
    assert SHOWN.approve(typed="a", remember="tool").value == NamedApproval(
        typed="a", remember="tool"
    )
    once = msgspec.structs.replace(SHOWN, may_remember=False)
    assert once.approve(remember="tool").value == NamedApproval()
    assert SHOWN.leave_unanswered().value == Denied(
        reason="Tool 'write_file' was not executed: nobody answered within 300 seconds",
        because="timeout",
    )
    for why in ("timeout", "cancelled", "nobody", "failed", "expired"):
        assert SHOWN.default_answer(why).because == why
