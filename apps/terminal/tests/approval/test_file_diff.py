"""The difference that a person approves: true, visible and bounded."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adh.approval.file_preview import (
    LONGEST_LINE,
    MOST_LINES,
    FilePreview,
    make_diff,
    preview_change,
)
from adh.rules.facts import Access, CallFacts, PathUse

lines = st.lists(st.sampled_from(["a", "b", "c", "", "longer line"]), max_size=30)


def apply_diff(old: list[str], diff: str) -> list[str]:
    """Apply a unified diff, as `patch` does."""
    result: list[str] = []
    at = 0
    for line in diff.splitlines()[2:]:
        header = re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@", line)
        if header is not None:
            # A range of no lines names the line before it.
            begin = int(header[1]) - (header[2] != "0")
            result += old[at:begin]
            at = begin
        elif line[0] == "+":
            result.append(line[1:])
        else:
            assert old[at] == line[1:]
            at += 1
            if line[0] == " ":
                result.append(line[1:])
    return result + old[at:]


@given(lines, lines)
def test_the_difference_makes_the_new_content_of_the_old_one(
    old: list[str], new: list[str]
) -> None:
    def text_of(content: list[str]) -> str:
        return "".join(f"{line}\n" for line in content)

    diff = make_diff(text_of(old), text_of(new), "x")
    assert apply_diff(old, diff) == new if old != new else diff == "(no change)"


def test_new_and_deleted_files_and_a_missing_last_line_break() -> None:
    assert make_diff(None, "a\n", "x").splitlines() == [
        "--- (new file)",
        "+++ x",
        "@@ -0,0 +1 @@",
        "+a",
    ]
    assert make_diff("a", None, "x").splitlines() == [
        "--- x",
        "+++ (deleted)",
        "@@ -1 +0,0 @@",
        "-a",
        "\\ No newline at end of file",
    ]
    assert make_diff(None, "", "x").splitlines() == ["--- (new file)", "+++ x"]


def test_invisible_characters_are_shown() -> None:
    diff = make_diff("a\n", "a\u202eb\x1b[2J\r\nc\u200b\r\n", "x")
    assert "+a\\u202eb\\x1b[2J\\x0d" in diff
    assert "+c\\u200b\\x0d" in diff


def test_long_lines_and_long_differences_are_bounded_and_say_so() -> None:
    diff = make_diff("", "x" * 10_000, "x")
    assert f"… ({10_000 - LONGEST_LINE:,} more characters)" in diff
    diff = make_diff("", "".join(f"{n}\n" for n in range(100_000)), "x")
    assert len(diff.splitlines()) == MOST_LINES + 1
    assert "lines are not shown …" in diff
    assert diff.endswith("+99999")


@pytest.mark.parametrize("kind", ["same", "different", "shuffled"])
def test_large_files_take_little_time(kind: str) -> None:
    old = [f"{n % 50}" for n in range(60_000)]
    new = {"same": [*old, "x"], "different": ["y"] * 60_000, "shuffled": old[::-1]}[kind]
    began = time.process_time()
    make_diff("\n".join(old), "\n".join(new), "x")
    assert time.process_time() - began < 5


def preview(path: Path, access: Access, content: str | None = None) -> FilePreview:
    arguments = {} if content is None else {"content": content}
    uses = (PathUse(str(path), access, "x"),)
    return preview_change(CallFacts(tool="t", arguments=arguments, paths=uses))


def test_previews(tmp_path: Path) -> None:
    file = tmp_path / "a"
    assert preview(file, "create", "x").digest == "absent"
    file.write_text("old\n")
    written = preview(file, "write", "new\n")
    assert written.diff.endswith("-old\n+new")
    assert preview(file, "delete").diff.endswith("-old")
    assert preview(file, "delete").digest == written.digest
    assert preview(file, "read") == FilePreview()
    assert preview(tmp_path / "folder", "create") == FilePreview()
    file.write_bytes(b"\0\xff")
    assert "(not text: 2 bytes before, 4 bytes after)" in preview(file, "write", "new\n").diff
    file.write_bytes(b"x" * 1_000_001)
    large = preview(file, "write", "new\n")
    assert large.diff == "(too large to compare: 1,000,001 bytes before, 4 bytes after)"
    assert len(large.digest) == 64


def test_what_is_no_file_is_never_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    shown = preview(pipe, "write", "x")
    assert (
        shown.diff == "(what is there cannot be shown: it is not a regular file but a named pipe)"
    )
    assert shown.digest == ""
