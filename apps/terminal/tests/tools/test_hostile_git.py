import subprocess
from pathlib import Path

import pytest
from apps.terminal.tests.tools.workbench import Workbench

from adh.tools.command_tool import only_reads_with_git


def git(bench: Workbench, *words: str) -> None:
    environ = {
        **bench.environ,
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "HOME": str(bench.root.parent),
    }
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", *identity, *words], cwd=bench.root, env=environ, check=True)


@pytest.fixture
def trap(bench: Workbench) -> Path:
    """A repository whose settings name a program that leaves a file."""
    git(bench, "init", "--quiet")
    (bench.root / "a.x").write_text("one\n")
    git(bench, "add", "a.x")
    git(bench, "commit", "--quiet", "-m", "first")
    (bench.root / "a.x").write_text("two\n")
    sprung = bench.root.parent / "sprung"
    program = bench.root.parent / "program"
    program.write_text(f"#!/bin/sh\necho $0 $@ >>{sprung}\ncat 2>/dev/null\nexit 0\n")
    program.chmod(0o755)
    for name in (
        "core.fsmonitor",
        "core.pager",
        "core.editor",
        "pager.log",
        "pager.diff",
        "pager.status",
        "diff.external",
        "diff.evil.textconv",
        "diff.evil.command",
        "filter.evil.clean",
    ):
        git(bench, "config", name, str(program))
    (bench.root / ".git" / "info" / "attributes").write_text("*.x diff=evil filter=evil\n")
    hook = bench.root / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(program.read_text())
    hook.chmod(0o755)
    sprung.unlink(missing_ok=True)
    return sprung


def list_started(trap: Path) -> list[str]:
    return trap.read_text().splitlines() if trap.exists() else []


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git diff",
        "git log -p --oneline | cat",
        "git show HEAD && git status --short",
        "timeout 20 git diff",
        "(cd . ; nice git log -p)",
        "echo $(git diff --stat)",
        "git branch --list; git remote -v",
    ],
)
async def test_a_form_that_reads_runs_nothing_of_the_repository(
    bench: Workbench, trap: Path, command: str
) -> None:
    ended = await bench.call_json("execute_command", command=command)
    assert ended["success"] is True, ended
    assert list_started(trap) == []


async def test_the_trap_works(bench: Workbench, trap: Path) -> None:
    await bench.call_json("execute_command", command="/usr/bin/env git diff; git add a.x")
    assert list_started(trap) != []


async def test_the_output_is_that_of_git(bench: Workbench, trap: Path) -> None:
    ended = await bench.call_json("execute_command", command="git diff")
    assert "-one\n+two\n" in ended["stdout"]
    ended = await bench.call_json("execute_command", command="git log --oneline", shell=False)
    assert ended["stdout"].endswith("first\n")


@pytest.mark.parametrize(
    "command",
    ["git commit", "git log; git push", "git log --output=f", "ls", "git $x", "git log ("],
)
def test_a_line_that_does_more_is_left_as_it_is(command: str) -> None:
    assert not only_reads_with_git(command, "/", "/")
