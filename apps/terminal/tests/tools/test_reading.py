import os
import socket
import threading
from pathlib import Path

import pytest
from apps.terminal.tests.tools.workbench import Workbench
from hypothesis import given
from hypothesis import strategies as st

from adh.storage.call_context import ApprovedCall
from adh.tools import file_readers
from adh.tools.text_content import cut_lines, decode_text, find_binary_kind


async def test_a_file_is_read_whole_or_to_a_line(bench: Workbench) -> None:
    (bench.root / "a").write_text("one\ntwo\nthree")
    assert await bench.call("read_file", file_path="a") == "one\ntwo\nthree"
    assert await bench.call("read_file", file_path=str(bench.root / "a"), max_lines=2) == (
        "one\ntwo\n[cut: 1 more line]"
    )
    assert "max_lines: must be at least 1 or null; got 0" in await bench.call(
        "read_file", file_path="a", max_lines=0
    )


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("missing", "FileNotFoundError: file_path does not exist"),
        ("a/inner", "NotADirectoryError: file_path leads through something that is not a folder"),
        (".", "file_path is a folder. Use list_directory"),
        ("", "ValueError: the path cannot be used"),
        ("a\0b", "ValueError: the path cannot be used"),
        ("n" * 300, "file_path has a name that is too long"),
        ("../outside", "PermissionError: the path is outside of the project"),
        ("/etc/passwd", "PermissionError: the path is outside of the project"),
        ("~/outside", "PermissionError: the path is outside of the project"),
    ],
)
async def test_what_cannot_be_read_is_told_without_the_path(
    bench: Workbench, path: str, problem: str
) -> None:
    (bench.root / "a").write_text("x")
    (bench.root.parent / "outside").write_text("secret")
    text = await bench.call("read_file", file_path=path)
    assert problem in text
    assert "secret" not in text
    assert len(path) < 3 or path not in text


async def test_a_judged_path_outside_is_read(bench: Workbench) -> None:
    outside = bench.root.parent / "outside"
    outside.write_text("allowed")
    approved = ApprovedCall(paths={"~/outside": str(outside)})
    assert await bench.call("read_file", approved, file_path="~/outside") == "allowed"


async def test_what_could_wait_without_end_is_refused(bench: Workbench) -> None:
    os.mkfifo(bench.root / "pipe")
    assert "is not a regular file but a named pipe" in await bench.call(
        "read_file", file_path="pipe"
    )
    approved = ApprovedCall(paths={"zero": "/dev/zero"})
    assert "a character device" in await bench.call("read_file", approved, file_path="zero")
    folder = os.open(bench.root, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(f"/proc/self/fd/{folder}/socket")
            assert "a socket" in await bench.call("read_file", file_path="socket")
    finally:
        os.close(folder)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "a PNG image"),
        (b"%PDF-1.7\n\0", "a PDF document"),
        (b"\x7fELF\2\1\1\0", "a program"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "a WebP image"),
        (b"SQLite format 3\0...", "a SQLite database"),
        (b"text\0with a NUL", "binary data"),
        (bytes(range(1, 32)), "binary data"),
    ],
)
async def test_what_is_not_text_is_told_with_its_kind(
    bench: Workbench, content: bytes, kind: str
) -> None:
    (bench.root / "a").write_bytes(content)
    text = await bench.call("read_file", file_path="a")
    assert text == f"ValueError: file_path is not a text file but {kind}."


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("grüße".encode(), "grüße"),
        ("grüße".encode("utf-8-sig"), "grüße"),
        ("grüße".encode("utf-16"), "[the file is encoded as utf-16]\ngrüße"),
        ("grüße €".encode("cp1252"), "[the file is encoded as cp1252]\ngrüße €"),
        (b"\x81\xe9", "[the file is encoded as latin-1]\n\x81é"),
        (b"", ""),
        (b"MZ is text here\n", "MZ is text here\n"),
        (b"a\r\nb\r\n", "a\r\nb\r\n"),
    ],
)
async def test_encodings_are_recognized(bench: Workbench, content: bytes, text: str) -> None:
    (bench.root / "a").write_bytes(content)
    assert await bench.call("read_file", file_path="a") == text


async def test_a_file_over_10_mb_is_read_only_in_part(bench: Workbench) -> None:
    with (bench.root / "big").open("wb") as file:
        file.write(b"first\nsecond\n")
        file.truncate(20_000_000)
    text = await bench.call("read_file", file_path="big")
    assert "20,000,000 bytes, and at most 10,000,000 are read. Pass max_lines" in text


async def test_a_huge_line_is_cut(bench: Workbench) -> None:
    (bench.root / "a").write_text("x" * 3_000_000 + "\nend\n")
    text = await bench.call("read_file", file_path="a")
    assert len(text) < 25_000
    assert "[cut: 2,980,000 more characters of this line]\nend\n" in text


@given(st.binary())
def test_any_content_is_text_or_of_a_kind(content: bytes) -> None:
    if not find_binary_kind(content):
        cut_lines(decode_text(content).text, 3)


@given(st.text(), st.integers(1, 5))
def test_lines_are_cut_only_with_a_note(text: str, lines: int) -> None:
    cut = cut_lines(text, lines)
    assert cut == text or "[cut: " in cut
    assert cut_lines(text) == text


async def test_a_folder_is_listed_with_kinds_and_sizes(bench: Workbench) -> None:
    (bench.root / "b").mkdir()
    (bench.root / "a").write_text("xyz")
    (bench.root / ".hidden").write_text("")
    (bench.root / "link").symlink_to("/etc/passwd")
    (bench.root / os.fsdecode(b"\xff")).write_text("")
    entries = (await bench.call_json("list_directory"))["entries"]
    assert entries[:3] == [
        {"name": "a", "kind": "file", "size": 3},
        {"name": "b", "kind": "folder"},
        {"name": "link", "kind": "symbolic link"},
    ]
    assert len(entries) == 4
    shown = await bench.call_json("list_directory", directory=".", show_hidden=True)
    assert shown["entries"][0]["name"] == ".hidden"


async def test_a_large_folder_is_listed_in_part(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_readers, "MOST_ENTRIES", 20)
    for number in range(30):
        (bench.root / f"{number:05}").touch()
    listed = await bench.call_json("list_directory")
    assert len(listed["entries"]) == 20
    assert listed["not_listed"] == 10


async def test_what_is_no_folder_is_not_listed(bench: Workbench) -> None:
    (bench.root / "a").touch()
    assert "NotADirectoryError" in await bench.call("list_directory", directory="a")
    assert "outside of the project" in await bench.call("list_directory", directory="..")


async def test_the_facts_of_a_file_are_told(bench: Workbench) -> None:
    (bench.root / "a").write_text("xyz")
    (bench.root / "a").chmod(0o640)
    os.utime(bench.root / "a", (0, 0))
    found = await bench.call_json("get_file_info", file_path="a")
    assert (found["kind"], found["size"], found["mode"]) == ("file", 3, "-rw-r-----")
    assert found["modified"] == "1970-01-01T00:00:00+00:00"
    assert (await bench.call_json("get_file_info", file_path="."))["kind"] == "folder"


async def test_a_time_beyond_the_calendar_is_told(bench: Workbench) -> None:
    (bench.root / "a").touch()
    try:
        os.utime(bench.root / "a", (0, 10**12))
    except OSError:
        pytest.skip("this disk has no such times")
    found = await bench.call_json("get_file_info", file_path="a")
    assert found["kind"] == "file"


async def test_a_link_inside_that_leads_outside_is_outside(bench: Workbench) -> None:
    (bench.root / "link").symlink_to("/etc")
    text = await bench.call("read_file", file_path="link/passwd")
    assert text == "PermissionError: the path is outside of the project"


class Swapping:
    """Swaps a folder of the project with a link to a folder outside, all the time."""

    def __init__(self, inside: Path, outside: Path) -> None:
        self.inside, self.outside = inside, outside
        self.spare = inside.with_name("spare")
        self.spare.symlink_to(outside)
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        other = self.inside.with_name("other")
        while not self.stop.is_set():
            self.inside.rename(other)
            self.spare.rename(self.inside)
            self.inside.rename(self.spare)
            other.rename(self.inside)

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *exception: object) -> None:
        self.stop.set()
        self.thread.join()


async def test_a_link_that_is_swapped_in_is_never_followed(bench: Workbench) -> None:
    outside = bench.root.parent / "outside"
    outside.mkdir()
    (outside / "a").write_text("secret")
    (bench.root / "inside").mkdir()
    (bench.root / "inside" / "a").write_text("ours")
    path = str(bench.root / "inside" / "a")
    approved = ApprovedCall(paths={"inside/a": path, "inside/b": str(bench.root / "inside" / "b")})
    texts = set()
    with Swapping(bench.root / "inside", outside):
        for number in range(25):
            texts.add(await bench.call("read_file", approved, file_path="inside/a"))
            content = f"mine {number}"
            await bench.call(
                "write_file", approved, file_path="inside/b", content=content, create_dirs=False
            )
    assert "secret" not in texts
    assert "ours" in texts
    assert [path.name for path in outside.iterdir()] == ["a"]
    assert (outside / "a").read_text() == "secret"
