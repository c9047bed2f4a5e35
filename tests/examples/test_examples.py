"""Each program of examples/ prints what its docstring says that it prints."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
PROGRAMS = sorted(FOLDER.glob("*.py"))


def promised(program: Path) -> str:
    about = ast.get_docstring(ast.parse(program.read_text("utf-8"))) or ""
    return textwrap.dedent(about.partition("It prints:\n")[2]).strip()


def test_there_are_programs_and_each_is_listed() -> None:
    listed = re.findall(
        r"^\| \[[\w.]+\]\(([\w.]+)\)", (FOLDER / "README.md").read_text("utf-8"), re.MULTILINE
    )
    assert sorted(listed) == [program.name for program in PROGRAMS]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_it_prints_what_it_says(program: Path, tmp_path: Path) -> None:
    if program.stem == "sdk_pieces" and importlib.util.find_spec("openai") is None:
        pytest.skip("SKIPPED WITHOUT EVIDENCE: the SDK of OpenAI is not installed")
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", str(program)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert promised(program)
    assert done.stdout.strip() == promised(program)
