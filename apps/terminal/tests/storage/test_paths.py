import os
import subprocess
import sys
from pathlib import Path

import pytest
from apps.terminal.tests.storage.folders import list_names

from adh.storage.content_digest import ABSENT, digest_bytes, digest_path
from adh.storage.path_steps import open_parent, open_regular_file
from adh.storage.pending_writes import PendingWrites
from adh.storage.replaced_files import Entry, replace_file
from adh.storage.storage_errors import ChangedContentError, LinkInPathError, StorageError


def read(path: Path) -> bytes:
    with open_parent(str(path)) as (folder, name):
        descriptor = open_regular_file(folder, name, str(path))
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def test_a_path_without_links_is_opened(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_bytes(b"x")
    assert read(tmp_path / "a" / "b" / "c") == b"x"


@pytest.mark.parametrize("link", ["a", "a/b", "a/b/c"])
def test_a_link_anywhere_in_a_path_is_refused(tmp_path: Path, link: str) -> None:
    real = tmp_path / "real"
    (real / "a" / "b").mkdir(parents=True)
    (real / "a" / "b" / "c").write_bytes(b"x")
    place = tmp_path / "project" / link
    place.parent.mkdir(parents=True)
    place.symlink_to(real / link)
    with pytest.raises(LinkInPathError, match="symbolic link") as caught:
        read(tmp_path / "project" / "a" / "b" / "c")
    assert caught.value.path == str(place)


@pytest.mark.parametrize("path", ["relative", "/a/../b", ""])
def test_a_path_must_be_resolved(path: str) -> None:
    with pytest.raises(ValueError, match="absolute"), open_parent(path):
        pass


def test_a_folder_that_may_only_be_entered_can_be_passed(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / "a").write_bytes(b"x")
    (tmp_path / "closed").chmod(0o300)
    try:
        assert read(tmp_path / "closed" / "a") == b"x"
    finally:
        (tmp_path / "closed").chmod(0o700)


@pytest.mark.parametrize("kind", ["fifo", "socket", "folder", "device"])
def test_only_regular_files_are_opened_and_nothing_is_waited_for(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    path = tmp_path / "x"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path = Path("/dev/zero")
    else:
        monkeypatch.chdir(tmp_path)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("x")
    words = {"fifo": "named pipe", "device": "character device"}
    with pytest.raises(StorageError, match=words.get(kind, kind)):
        read(path)


def test_a_file_is_replaced_only_if_it_is_what_was_expected(tmp_path: Path) -> None:
    path = tmp_path / "a"

    def replace(content: bytes, expected: str | None) -> None:
        with open_parent(str(path)) as (folder, name):
            entry = Entry(folder=folder, name=name, path=str(path))
            replace_file(entry, [content], ".new", expected=expected, mode=0o640)

    replace(b"one", ABSENT)
    with pytest.raises(ChangedContentError, match="exists now"):
        replace(b"two", ABSENT)
    replace(b"two", digest_bytes(b"one"))
    with pytest.raises(ChangedContentError, match="has changed"):
        replace(b"three", digest_bytes(b"one"))
    assert digest_path(str(path)) == digest_bytes(b"two")
    assert path.stat().st_mode & 0o777 == 0o640
    assert list_names(tmp_path) == ["a"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to another user")
def test_a_replaced_file_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    os.chown(path, 12_345, 54_321)
    with open_parent(str(path)) as (folder, name):
        entry = Entry(folder=folder, name=name, path=str(path))
        replace_file(entry, [b"two"], ".new", expected=None, mode=0o644)
    assert (path.stat().st_uid, path.stat().st_gid) == (12_345, 54_321)


def test_a_file_that_changes_while_it_is_written_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")

    def blocks():  # type: ignore[no-untyped-def]
        path.write_bytes(b"of the person")
        yield b"two"

    with open_parent(str(path)) as (folder, name):
        entry = Entry(folder=folder, name=name, path=str(path))
        with pytest.raises(ChangedContentError, match="has changed"):
            replace_file(entry, blocks(), ".new", expected=digest_bytes(b"one"), mode=0o644)
    assert path.read_bytes() == b"of the person"
    assert list_names(tmp_path) == ["a"]


PROGRAM = """
import os, sys
from pathlib import Path
from adh.storage.path_steps import open_parent
from adh.storage.pending_writes import PendingWrites
from adh.storage.replaced_files import Entry, replace_file
path = sys.argv[1]
def blocks():
    yield b"half of it"
    print("begun", flush=True)
    sys.stdin.read()
with open_parent(path) as (folder, name), PendingWrites(Path(sys.argv[2])).reserve_name(
    os.path.dirname(path)
) as temporary:
    entry = Entry(folder=folder, name=name, path=path)
    replace_file(entry, blocks(), temporary, expected=None, mode=0o644)
"""


@pytest.mark.slow  # kills processes
def test_a_kill_in_the_middle_of_a_write_leaves_the_old_content(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    path = project / "a"
    path.write_bytes(b"old")
    notes = tmp_path / "notes"
    command = [sys.executable, "-c", PROGRAM, str(path), str(notes)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        assert PendingWrites(notes).remove_leftovers() == ()  # it is still writing
        process.kill()
    assert path.read_bytes() == b"old"
    assert len(list_names(project)) == 2
    assert len(PendingWrites(notes).remove_leftovers()) == 1
    assert list_names(project) == ["a"]
    assert list_names(notes) == []


def test_a_note_that_names_another_file_removes_nothing(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("x")
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "0123.json").write_text(f'{{"path": "{victim}", "process": 999999999, "started": 1}}')
    (notes / "bad.json").write_text("[")
    assert PendingWrites(notes).remove_leftovers() == ()
    assert victim.exists()
