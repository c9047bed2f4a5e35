from __future__ import annotations

import json
from pathlib import Path

import pytest

from adh.commands.arguments import parse_arguments
from adh.commands.program import run_command


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.chdir(tmp_path)


def test_each_tool_has_its_effects_and_defaults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(parse_arguments(["tools", "--output", "json"])) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["read_file"]["parameters"] == [
        "file_path: string",
        "max_lines: integer or null = null",
    ]
    assert rows["execute_command"]["effects"] == ["executes_process"]
    assert "timeout: number = 300" in " ".join(rows["execute_command"]["parameters"]).replace(
        "integer", "number"
    )
    assert set(rows) >= {"write_file", "delete_file", "fetch_url", "create_directory"}
    assert list(tmp_path.iterdir()) == []


def test_the_list_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(parse_arguments(["tools"])) == 0
    shown = capsys.readouterr().out
    assert "read_file: " in shown
    assert "  effects: reads_fs" in shown
