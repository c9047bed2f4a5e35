"""The lanes of the tests: what `./run test` leaves out, and which rooms its words name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RUN_TESTS = re.compile(r"^run_tests\(\) \{\n.*?^\}\n", re.DOTALL | re.MULTILINE)
QUICK, ALL = "-m|not slow", "-m|"


@pytest.fixture
def program(tmp_path: Path) -> str:
    """The function of ./run, with a pytest that prints its arguments."""
    (found,) = RUN_TESTS.findall((ROOT / "run").read_text("utf-8"))
    fake = tmp_path / "pytest"
    fake.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    fake.chmod(0o755)
    return f"bin='{tmp_path}'\n{found}run_tests \"$@\"\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", QUICK),
        ("--all", ALL),
        ("journal", f"{QUICK}|tests/journal"),
        ("journal terminal -x", f"{QUICK}|tests/journal|apps/terminal/tests|-x"),
        ("registration --all", f"{ALL}|apps/registration/tests"),
        ("tests/core -k journal", f"{QUICK}|tests/core|-k|journal"),
        ("-x --all", f"{ALL}|-x"),
        ("tests/test_lanes.py -x", f"{ALL}|tests/test_lanes.py|-x"),
        ("tests/test_lanes.py::test_a[b]", f"{ALL}|tests/test_lanes.py::test_a[b]"),
        ("-m slow", f"{QUICK}|-m|slow"),  # the last one counts for pytest
    ],
)
def test_words_are_rooms_and_a_file_runs_whole(program: str, words: str, expected: str) -> None:
    command = ["sh", "-c", program, "run", *words.split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.partition("reorder|")[2] == f"{expected}|"


def test_a_slow_test_says_why() -> None:
    # Only the project's own: below conformance/ are the environments of other libraries, with tests.
    kept = subprocess.run(
        ["git", "ls-files", "*test_*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    silent = []
    for name in kept.stdout.splitlines():
        lines = ["", *(ROOT / name).read_text("utf-8").splitlines()]
        for before, line in pairwise(lines):
            if re.search(r"^\W*(pytestmark = .*)?pytest\.mark\.slow\b", line):
                silent += [] if "#" in before + line else [f"{name}: {line}"]
    assert silent == []


@pytest.mark.slow  # starts a program or a server
def test_a_group_of_tests_runs_on_one_worker(tmp_path: Path) -> None:
    """Which pytest-xdist must do, since slow tests share the two cores."""
    (tmp_path / "test_group.py").write_text(
        "import os, pathlib, pytest\n"
        'pytestmark = pytest.mark.xdist_group("one")\n'
        '@pytest.mark.parametrize("case", range(6))\n'
        "def test_it(case):\n"
        '    path = pathlib.Path(__file__).with_name(f"ran-{case}")\n'
        '    path.write_text(os.environ["PYTEST_XDIST_WORKER"])\n'
    )
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup"]
    subprocess.run([*command, "-c", os.devnull, tmp_path], check=True, capture_output=True)
    assert len({path.read_text() for path in tmp_path.glob("ran-*")}) == 1
