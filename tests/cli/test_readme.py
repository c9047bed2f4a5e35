"""The output of the demo in README.md equals what the demo prints, except for the figures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.cli.terminal import holdfast

ROOT = Path(__file__).parents[2]


def plain(line: str) -> str:
    line = re.sub(r"longest is \S+", "longest is FILE", line)
    return " ".join(re.sub(r"\d+", "#", line).split())


@pytest.mark.slow  # starts a program or a server
def test_the_demo_prints_what_the_readme_shows() -> None:
    page = (ROOT / "README.md").read_text("utf-8")
    (shown,) = re.findall(r"```text\n(\? .*?)```", page, re.DOTALL)
    printed = holdfast("demo", str(ROOT / "src")).stdout
    assert "The folder has more" not in printed
    assert "The answer is right" in printed or "the folder changed during the run" in printed
    known = {plain(line) for line in printed.splitlines()}
    missing = [line for line in shown.splitlines() if line and plain(line) not in known]
    assert not [line for line in missing if not line.startswith("The answer")]


def test_the_first_screen_has_the_command_and_the_page_has_those_of_ci() -> None:
    page = (ROOT / "README.md").read_text("utf-8")
    first_screen = "\n".join(page.splitlines()[:40])
    assert "./run demo" in first_screen
    assert "docs/images/demo.svg" in first_screen
    program = (ROOT / ".ci" / "run").read_text("utf-8")
    commands = re.findall(r"^limit \d+ (\./run \w+)", program, re.MULTILINE)
    assert commands == ["./run check", "./run conformance", "./run test"]
    for command in commands:
        assert re.search(rf"^{command}\b", page, re.MULTILINE)
