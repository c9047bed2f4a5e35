from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from adh.commands.arguments import parse_arguments
from adh.commands.log_command import format_entry, main
from adh.storage.audit_log import AuditEntry, AuditLog

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AuditLog:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    audit = AuditLog(tmp_path / "data" / "adh-cli" / "audit.log")
    for tool, decision, session in (
        ("read_file", "allowed", "s-1"),
        ("write_file", "denied", "s-1"),
        ("Write_Notes", "allowed", "s-2"),
    ):
        audit.write(
            AuditEntry(at=AT, event="decision", tool=tool, decision=decision, session=session)
        )
    return audit


@pytest.mark.parametrize(
    ("words", "tools"),
    [
        ([], ["read_file", "write_file", "Write_Notes"]),
        (["--session", "s-1"], ["read_file", "write_file"]),
        (["--tool", "write_*"], ["write_file", "Write_Notes"]),
        (["--decision", "allowed"], ["read_file", "Write_Notes"]),
        (["--decision", "allowed", "--last", "1"], ["Write_Notes"]),
        (["--session", "none"], []),
    ],
)
def test_lines_are_filtered(
    log: AuditLog, words: list[str], tools: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(parse_arguments(["log", "--output", "json", *words])) == 0
    printed = capsys.readouterr()
    assert [json.loads(line)["tool"] for line in printed.out.splitlines()] == tools
    assert printed.err == ""


def test_a_cut_line_is_told_and_the_others_are_shown(
    log: AuditLog, capsys: pytest.CaptureFixture[str]
) -> None:
    with log.path.open("a") as file:
        file.write('{"at": "2026-')
    assert main(parse_arguments(["log"])) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 3
    assert "1 line of the log cannot be read" in printed.err
    assert printed.err.rstrip().endswith("4")


def test_without_a_log_nothing_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main(parse_arguments(["log"])) == 0
    assert capsys.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_a_line_for_a_person_has_no_line_break_and_no_escape_sequence() -> None:
    entry = AuditEntry(
        at=AT,
        event="outcome",
        tool="execute_command",
        decision="failed",
        decided_by="person",
        level="confirm",
        risk="medium",
        rule="commands.other (built-in)",
        parameters={"command": "x" * 500},
        reason="one\ntwo\x1b[2J",
        agent="tester",
        session="s-1",
        seconds=1.5,
    )
    line = format_entry(entry)
    assert "\n" not in line
    assert "\x1b" not in line
    for part in ("failed by person", "(confirm, medium)", "because one two", "1.50 s", "s-1"):
        assert part in line
    assert "(514 characters)" in line
