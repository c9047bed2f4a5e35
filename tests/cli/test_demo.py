"""The demo, run as a user runs it: its report is correct, and it works in any folder."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.cli.terminal import HOLDFAST, environment, holdfast, read_and_close

from holdfast.cli.demo_folder import (
    MOST_FILES,
    SECRET,
    FolderCounts,
    count_folder,
    folder_tools,
    text_files,
)
from holdfast.cli.demo_script import NO_FILES, format_conclusion, trouble_for
from holdfast.testing.emulator import EmulatedRequest
from holdfast.tools import ToolError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inner").mkdir()
    (tmp_path / "a.py").write_text("def f():\n    return 1\n")
    (tmp_path / "inner" / "b.txt").write_text("no return\nhere\nat all\n")
    return tmp_path


@pytest.mark.slow  # starts a program or a server
def test_the_answer_is_right_and_every_fault_was_met(folder: Path) -> None:
    done = holdfast("demo", str(folder))
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout
    assert f"2 text files with 5 lines.\n{' ' * 9}The longest is {Path('inner/b.txt')}" in said
    assert "2 lines with 'return'." in said
    assert "The answer is right" in said
    for number in ("429, Retry-After: 1", "tool calls with cut JSON", "the stream drops midway"):
        assert f"⚡ the provider fails: {number}" in said
    rows = said[said.index("what went wrong") :].splitlines()[1:5]
    assert re.match(r"429.*waited 1\.0 s as asked, retried +\d+\.\d\d s, 1 request$", rows[0])
    assert re.match(r"tool calls.*2 of 2 calls not run +\d+\.\d\d s, 1 request", rows[1])
    assert re.match(
        r"a tool raises a password +2 attempts, then an error result +\d+\.\d\d", rows[2]
    )
    assert re.match(r"the stream.*\d words discarded, retried +\d+\.\d\d s, 1 request", rows[3])
    assert "7 requests for 5 model replies" in said


@pytest.mark.slow  # starts a program or a server
def test_the_password_is_nowhere_and_the_lines_fit(folder: Path) -> None:
    done = holdfast("demo", str(folder))
    assert SECRET not in done.stdout + done.stderr
    assert "neither sent to the provider nor shown" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.slow  # starts a program or a server
def test_an_empty_folder_has_a_right_answer_and_no_invented_fault(tmp_path: Path) -> None:
    done = holdfast("demo", str(tmp_path))
    assert done.returncode == 0
    assert NO_FILES in done.stdout
    assert done.stdout.count("did not happen in this run") == 2
    assert "password" not in done.stdout


@pytest.mark.slow  # starts a program or a server
def test_a_hostile_folder(folder: Path) -> None:
    (folder / "binary").write_bytes(bytes(range(256)) * 100)
    (folder / "zeros.txt").write_bytes(b"\0" * 100)
    (folder / "huge.log").write_text("return\n" * 200_000)
    (folder / ".hidden").write_text("return\n")
    (folder / "loop").symlink_to(folder)
    (folder / "away").symlink_to("/etc/passwd")
    (folder / "red\x1b[31m").write_text("return\n")
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "x.js").write_text("return\n")
    os.mkfifo(folder / "pipe")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.txt")).write_text("return\n")
    (folder / "Grüße 'n' <b>.md").write_text("return\nreturn")
    assert count_folder(folder, "return") == FolderCounts(3, 7, "inner/b.txt", 3, 4)
    done = holdfast("demo", str(folder))
    assert (done.returncode, done.stderr) == (0, "")
    assert "3 text files with 7 lines." in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.slow  # starts a program or a server
def test_a_folder_of_many_files_says_that_not_all_were_looked_at(tmp_path: Path) -> None:
    for number in range(MOST_FILES + 5):
        (tmp_path / f"{number}.txt").write_text("x\n")
    done = holdfast("demo", str(tmp_path))
    assert done.returncode == 0
    assert f"the first {MOST_FILES} text files were read" in done.stdout


@pytest.mark.slow  # starts a program or a server
def test_a_folder_with_as_many_files_as_fit_is_read_completely(tmp_path: Path) -> None:
    for number in range(MOST_FILES):
        (tmp_path / f"{number}.txt").write_text("x\n")
    assert text_files(tmp_path).complete
    assert len(text_files(tmp_path).files) == MOST_FILES


def test_a_file_is_not_a_folder(folder: Path) -> None:
    done = holdfast("demo", str(folder / "a.py"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


def test_a_tool_does_not_leave_the_folder(folder: Path) -> None:
    count_lines = folder_tools(folder / "inner")[1]
    for path in ("../a.py", "/etc/passwd", str(folder / "a.py")):
        with pytest.raises(ToolError, match="outside the folder"):
            count_lines([path])


def test_the_conclusion_uses_singulars() -> None:
    assert format_conclusion(FolderCounts(1, 1, "a", 1, 0)) == (
        "1 text file with 1 line.\nThe longest is a with 1 line.\n0 lines with 'return'."
    )


def test_only_a_reply_with_calls_has_its_arguments_cut() -> None:
    assert trouble_for(EmulatedRequest(number=1)) is not None
    assert trouble_for(EmulatedRequest(number=2)) is None
    assert trouble_for(EmulatedRequest(number=3)) is not None


@pytest.mark.slow  # starts a program or a server
def test_a_reader_that_closes_the_output_ends_it_silently(folder: Path) -> None:
    assert read_and_close("demo", str(folder), count=1) == (141, b"")


@pytest.mark.slow  # starts a program or a server
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full disk to write to")
def test_a_full_disk_is_one_line(folder: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [HOLDFAST, "demo", str(folder)],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(),
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, b"holdfast: No space left on device\n")


@pytest.mark.slow  # starts a program or a server
def test_no_standard_output_at_all_is_not_an_error(folder: Path) -> None:
    command = f"exec {HOLDFAST} demo {folder} >&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (0, b"")
