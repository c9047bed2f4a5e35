"""Programs of the project that are called like those of the system: they are asked about, and never stand in."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from apps.terminal.tests.approval.desk import Desk, approve, call, texts
from apps.terminal.tests.approval.test_real_tools import AtLast

from adh.approval.call_facts import build_facts, find_search_path
from adh.approval.pipeline import make_pipeline
from adh.checks.confinement import NOT_CONFINED, find_confinement
from adh.rules.decision import Decision
from adh.rules.levels import Level
from adh.rules.restrictions import Moment
from adh.rules.rule_files import built_in_files, load_rules
from adh.storage.search_path import list_folders_outside
from adh.tools.all_tools import make_tools
from adh.tools.tool_registry import TOOL_EFFECTS
from adh.tools.tools_context import make_tools_context
from holdfast import Tool

RULES = load_rules(built_in_files())
MOMENT = Moment(datetime(2026, 7, 1, 12, tzinfo=UTC), lambda _: ())
SYSTEM = "/usr/bin:/bin"
FREE = [
    "ls",
    "pwd",
    "echo",
    "cat",
    "head",
    "tail",
    "grep",
    "find",
    "which",
    "whoami",
    "date",
    "uname",
]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "project" / "bin").mkdir(parents=True)
    return Desk(tmp_path, search_path=f"{tmp_path}/project/bin:{SYSTEM}")


def plant(place: Path, text: str = "exit 0") -> None:
    place.parent.mkdir(exist_ok=True)
    place.write_text(f"#!/bin/sh\n{text}\n")
    place.chmod(0o755)


def make_real_tools(desk: Desk) -> list[Tool]:
    environ = {**os.environ, "PATH": os.pathsep.join(desk.places.program_folders)}
    return list(make_tools(make_tools_context(desk.places, environ)))


def judge(desk: Desk, command: str, **arguments: object) -> Decision:
    called = {"command": command, **arguments}
    project = str(desk.places.project)
    facts = build_facts("execute_command", called, desk.places, project, TOOL_EFFECTS)
    return RULES.decide(facts, MOMENT)


@pytest.mark.parametrize(
    "line", [*(f"{name} x" for name in FREE if name != "date"), "date", "git status"]
)
def test_a_program_of_the_project_is_not_the_free_one_of_its_name(desk: Desk, line: str) -> None:
    name = line.split(maxsplit=1)[0]
    assert not judge(desk, line).level.asks
    plant(desk.project / "bin" / name)
    decision = judge(desk, line)
    assert decision.level is Level.MANUAL
    assert f"{name} is {desk.project}/bin/{name} here, which is not the" in decision.reason


@pytest.mark.parametrize(
    "line",
    [
        "pwd; cat a",
        "echo $(cat a)",
        "find . -name a | xargs cat",
        "bash -c 'cat a'",
        "pwd && command cat a",
    ],
)
def test_a_part_of_a_line_is_found_too(desk: Desk, line: str) -> None:
    plant(desk.project / "bin" / "cat")
    decision = judge(desk, line)
    assert decision.level is Level.MANUAL
    assert "bin/cat here" in decision.reason


def test_without_a_shell_it_is_the_same(desk: Desk) -> None:
    plant(desk.project / "bin" / "cat")
    assert judge(desk, "cat a", shell=False).level is Level.MANUAL


def test_links_are_followed_both_ways(desk: Desk, tmp_path: Path) -> None:
    # A folder outside that leads into the project.
    plant(desk.project / "bin" / "cat")
    (tmp_path / "tools").symlink_to(desk.project / "bin")
    assert judge(Desk(tmp_path, search_path=f"{tmp_path}/tools:{SYSTEM}"), "cat a").level.asks
    # A program outside that leads into the project.
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "cat").symlink_to(desk.project / "bin" / "cat")
    assert judge(Desk(tmp_path, search_path=f"{tmp_path}/own:{SYSTEM}"), "cat a").level.asks
    # A link of the project that leads to another program of the system.
    (desk.project / "bin" / "ls").symlink_to("/usr/bin/env")
    assert judge(desk, "ls a").level.asks


def test_what_the_shell_does_not_find_changes_nothing(desk: Desk, tmp_path: Path) -> None:
    plant(desk.project / "bin" / "cat")
    behind = Desk(tmp_path, search_path=f"{SYSTEM}:{desk.project}/bin")
    assert not judge(behind, "cat a").level.asks
    (desk.project / "bin" / "cat").chmod(0o644)
    assert not judge(desk, "cat a").level.asks


def test_a_relative_or_empty_entry_is_never_searched(tmp_path: Path) -> None:
    plant(tmp_path / "project" / "cat")
    desk = Desk(tmp_path, search_path=f".::bin:{SYSTEM}")
    assert desk.places.program_folders == ("/usr/bin", "/bin")
    assert not judge(desk, "cat a").level.asks
    assert judge(desk, "./cat a").level.asks


def test_the_tools_of_an_environment_in_the_project_are_judged_as_before(desk: Desk) -> None:
    plant(desk.project / "bin" / "pytest")
    decision = judge(desk, "pytest -q")
    assert (decision.level, decision.reason) == (Level.CONFIRM, "")


@pytest.mark.parametrize(
    ("line", "whole"),
    [
        ("cat a | head", False),
        ("git status", False),
        ("pytest", True),
        ("cat a; pytest", True),
        ("ls", True),
    ],
)
def test_known_programs_get_no_folder_of_the_project(desk: Desk, line: str, *, whole: bool) -> None:
    plant(desk.project / "bin" / "ls")
    project = str(desk.places.project)
    facts = build_facts("execute_command", {"command": line}, desk.places, project, TOOL_EFFECTS)
    assert find_search_path(facts, desk.places) == ("" if whole else SYSTEM)


async def test_what_is_planted_after_the_last_check_does_not_run(desk: Desk) -> None:
    def plant_now() -> None:
        plant(desk.project / "bin" / "uname", "echo planted")

    pipeline = make_pipeline(desk.setup(effects=TOOL_EFFECTS))
    middleware = [pipeline.permission, pipeline.safeguards, AtLast(plant_now)]
    script = call("execute_command", command="uname")
    agent = desk.agent(script, "Ok.", tools=make_real_tools(desk), middleware=middleware)
    (text,) = texts(await desk.run(agent))
    assert "planted" not in text
    assert os.uname().sysname in text


async def test_a_planted_program_runs_only_after_a_yes(desk: Desk) -> None:
    plant(desk.project / "bin" / "uname", "echo planted")
    tools = make_real_tools(desk)
    script = call("execute_command", command="uname")
    setup = desk.setup(effects=TOOL_EFFECTS)
    (text,) = texts(await desk.run(desk.agent(script, "Ok.", tools=tools, setup=setup)))
    assert "planted" not in text
    (text,) = texts(await desk.run(desk.agent(script, "Ok.", tools=tools, setup=setup), approve))
    assert "planted" in text


def test_no_bubblewrap_of_the_project_is_started(desk: Desk) -> None:
    sprung = desk.folder / "sprung"
    plant(desk.project / "bin" / "bwrap", f"touch {sprung}")
    folders = [str(desk.project / "bin")]
    assert find_confinement(list_folders_outside(folders, str(desk.project))) == NOT_CONFINED
    assert not sprung.exists()
