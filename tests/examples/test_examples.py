"""Each program of examples/ prints what its docstring says that it prints."""

from __future__ import annotations

import ast
import importlib.util
import re
import runpy
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
PROGRAMS = sorted(FOLDER.glob("*.py"))
KILLED = FOLDER / "survive_a_kill.py"


def promised(program: Path) -> str:
    about = ast.get_docstring(ast.parse(program.read_text("utf-8"))) or ""
    return textwrap.dedent(about.partition("It prints:\n")[2]).strip()


def test_there_are_programs_and_each_is_listed() -> None:
    listed = re.findall(
        r"^\| \[[\w.]+\]\(([\w.]+)\)", (FOLDER / "README.md").read_text("utf-8"), re.MULTILINE
    )
    assert sorted(listed) == [program.name for program in PROGRAMS]


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize(
    "program", [one for one in PROGRAMS if one != KILLED], ids=lambda program: program.stem
)
def test_it_prints_what_it_says(
    program: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if program.stem == "sdk_pieces" and importlib.util.find_spec("openai") is None:
        pytest.skip("SKIPPED WITHOUT EVIDENCE: the SDK of OpenAI is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(program)])
    runpy.run_path(str(program), run_name="__main__")
    printed = capsys.readouterr()
    assert printed.err == ""
    assert promised(program)
    assert printed.out.strip() == promised(program)


@pytest.mark.slow  # kills a process
def test_the_program_whose_process_is_killed_prints_what_it_says(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", str(KILLED)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == promised(KILLED)
