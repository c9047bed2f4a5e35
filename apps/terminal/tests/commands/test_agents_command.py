from __future__ import annotations

import json
from pathlib import Path

import pytest

from adh.commands.arguments import parse_arguments
from adh.commands.program import run_command
from adh.storage.places import find_places
from adh.storage.trust import TrustedFolders

AGENT = """\
---
name: painter
description: Paints the house.
tools: [read_file]
---
# System Prompt
Paint.
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def add_agent(folder: Path, text: str = AGENT) -> None:
    (folder / "painter").mkdir(parents=True)
    (folder / "painter" / "agent.md").write_text(text)


def list_names(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, object]]:
    assert run_command(parse_arguments(["agents", "--output", "json"])) == 0
    return {row["name"]: row for row in json.loads(capsys.readouterr().out)}


def test_the_built_in_agents_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list_names(capsys)
    assert set(rows) == {
        "orchestrator",
        "planner",
        "researcher",
        "code_reviewer",
        "tester",
        "search",
    }
    assert [name for name, row in rows.items() if row["is_default"]] == ["orchestrator"]
    assert run_command(parse_arguments(["agents"])) == 0
    assert "orchestrator (default): " in capsys.readouterr().out


def test_agents_of_a_project_count_only_when_it_is_trusted(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_agent(project / ".adh" / "agents")
    assert run_command(parse_arguments(["agents", "--output", "json"])) == 0
    printed = capsys.readouterr()
    assert "painter" not in printed.out
    assert "not trusted: .adh/agents" in printed.err
    places = find_places({"HOME": str(project.parent / "home")}, project)
    TrustedFolders(places.trust_file).trust(project)
    assert list_names(capsys)["painter"]["origin"] == "project"


def test_a_broken_agent_names_the_file_and_the_line(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_agent(
        project.parent / "home" / ".config" / "adh-cli" / "agents",
        AGENT.replace("description", "descripton"),
    )
    assert run_command(parse_arguments(["agents"])) == 2
    printed = capsys.readouterr()
    assert "painter/agent.md:" in printed.err
    assert printed.out == ""
