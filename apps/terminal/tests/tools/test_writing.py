import os
import stat
from pathlib import Path

import pytest
from apps.terminal.tests.tools.workbench import AT, Workbench
from hypothesis import given
from hypothesis import strategies as st

from adh.storage.call_context import ApprovedCall
from adh.storage.changes import ChangeStore
from adh.storage.content_digest import ABSENT, digest_bytes
from adh.storage.file_undo import plan_undo, undo_changes
from adh.storage.storage_errors import ProjectFileError, StorageError
from adh.tools.failure_words import describe_failure


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def undo(bench: Workbench) -> tuple[str, ...]:
    plan = plan_undo(bench.changes, "s", 1)
    return undo_changes(bench.changes, bench.pending, plan, AT)


async def test_a_new_file_is_written_with_its_folders(bench: Workbench) -> None:
    written = await bench.call_json("write_file", file_path="x/y/a", content="grüße\n")
    path = bench.root / "x" / "y" / "a"
    assert written == {"path": str(path), "bytes": 8, "changed": True}
    assert path.read_text() == "grüße\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list_names(bench.root / "x" / "y") == ["a"]
    undo(bench)
    assert list_names(bench.root) == []


async def test_a_missing_folder_is_told_when_it_must_not_be_created(bench: Workbench) -> None:
    text = await bench.call("write_file", file_path="x/a", content="", create_dirs=False)
    assert "does not exist" in text
    text = await bench.call("create_directory", directory="x/y", parents=False)
    assert "has no parent folder" in text
    assert list_names(bench.root) == []


async def test_a_file_keeps_its_mode_and_can_be_undone(bench: Workbench) -> None:
    path = bench.root / "run.sh"
    path.write_bytes(b"old\r\n\xff")
    path.chmod(0o751)
    await bench.call("write_file", file_path="run.sh", content="new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    undo(bench)
    assert path.read_bytes() == b"old\r\n\xff"
    assert stat.S_IMODE(path.stat().st_mode) == 0o751


async def test_the_same_content_is_not_written_again(bench: Workbench) -> None:
    path = bench.root / "a"
    path.write_text("same")
    before = path.stat()
    written = await bench.call_json("write_file", file_path="a", content="same")
    assert written["changed"] is False
    assert path.stat().st_ino == before.st_ino
    assert bench.changes.list_changes("s") == ()


@pytest.mark.parametrize("expected", [ABSENT, digest_bytes(b"as approved")])
async def test_a_file_that_changed_after_the_approval_is_not_written(
    bench: Workbench, expected: str
) -> None:
    path = bench.root / "a"
    path.write_text("of the person")
    approved = ApprovedCall(paths={"a": str(path)}, content={str(path): expected})
    for name, arguments in (("write_file", {"content": "x"}), ("delete_file", {"confirm": True})):
        text = await bench.call(name, approved, file_path="a", **arguments)
        assert text == (
            "ChangedContentError: file_path has changed since the call was approved. "
            "Read it again, then decide anew. Nothing was changed."
        )
    assert path.read_text() == "of the person"
    assert bench.changes.list_changes("s") == ()


async def test_a_file_as_it_was_approved_is_written(bench: Workbench) -> None:
    path = bench.root / "a"
    path.write_text("as approved")
    content = {str(path): digest_bytes(b"as approved")}
    approved = ApprovedCall(paths={"a": str(path)}, content=content)
    await bench.call("write_file", approved, file_path="a", content="new")
    assert path.read_text() == "new"


async def test_a_link_that_came_after_the_approval_is_not_written_through(
    bench: Workbench,
) -> None:
    outside = bench.root.parent / "outside"
    outside.write_text("secret")
    (bench.root / "a").symlink_to(outside)
    approved = ApprovedCall(paths={"a": str(bench.root / "a")})
    text = await bench.call("write_file", approved, file_path="a", content="x")
    assert text.startswith("LinkInPathError: file_path is a symbolic link")
    assert outside.read_text() == "secret"
    assert (bench.root / "a").is_symlink()


async def test_what_is_not_a_file_is_not_written(bench: Workbench) -> None:
    os.mkfifo(bench.root / "pipe")
    (bench.root / "folder").mkdir()
    for name in ("pipe", "folder"):
        text = await bench.call("write_file", file_path=name, content="x")
        assert "is not a regular file" in text
    (bench.root / "a").touch()
    assert "not a folder" in await bench.call("write_file", file_path="a/b", content="x")
    assert "outside" in await bench.call("write_file", file_path="../b", content="x")


async def test_what_cannot_be_recorded_is_not_written(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: ChangeStore, change: object) -> None:
        raise StorageError("/data/changes", "does not fit: the disk is full", "Free some space")

    path = bench.root / "a"
    path.write_text("old")
    monkeypatch.setattr(ChangeStore, "record", refuse)
    for name, arguments in (("write_file", {"content": "x"}), ("delete_file", {"confirm": True})):
        text = await bench.call(name, None, file_path="a", **arguments)
        assert "the disk is full" in text
    assert "disk is full" in await bench.call("create_directory", directory="x")
    assert path.read_text() == "old"
    assert list_names(bench.root) == ["a"]


async def test_a_disk_that_is_full_leaves_the_old_file(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bench.root / "a"
    path.write_text("old")

    def refuse(*arguments: object, **keywords: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", refuse)
    text = await bench.call("write_file", file_path="a", content="new")
    assert text.startswith("OSError: file_path does not fit: the disk is full")
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert list_names(bench.root) == ["a"]
    assert plan_undo(bench.changes, "s", 1).conflicts == ()


async def test_a_folder_is_created_once(bench: Workbench) -> None:
    assert await bench.call("create_directory", directory="x/y") == "created"
    assert await bench.call("create_directory", directory="x/y") == "it is there already"
    (bench.root / "a").touch()
    assert "not a folder" in await bench.call("create_directory", directory="a")
    undo(bench)
    assert list_names(bench.root) == ["a"]


async def test_a_deleted_file_is_in_the_backups_and_can_be_undone(bench: Workbench) -> None:
    path = bench.root / "a"
    path.write_text("old")
    assert "confirm must be true" in await bench.call("delete_file", file_path="a", confirm=False)
    assert "deleted" in await bench.call("delete_file", file_path="a", confirm=True)
    assert not path.exists()
    copies = [copy for copy in bench.backups.rglob("a") if copy.is_file()]
    assert [copy.read_text() for copy in copies] == ["old"]
    assert "does not exist" in await bench.call("delete_file", file_path="a", confirm=True)
    undo(bench)
    assert path.read_text() == "old"


async def test_a_file_that_cannot_be_backed_up_is_not_deleted(bench: Workbench) -> None:
    (bench.root / "a").write_text("old")
    bench.backups.write_text("in the way")
    text = await bench.call("delete_file", file_path="a", confirm=True)
    assert text.startswith("BackupError")
    assert (bench.root / "a").read_text() == "old"


async def test_a_link_is_not_deleted_and_neither_is_its_target(bench: Workbench) -> None:
    (bench.root / "a").write_text("old")
    (bench.root / "link").symlink_to("a")
    text = await bench.call("delete_file", file_path="link", confirm=True)
    assert "is a symbolic link" in text
    assert list_names(bench.root) == ["a", "link"]


async def test_a_folder_is_not_deleted(bench: Workbench) -> None:
    (bench.root / "x").mkdir()
    assert "not a regular file" in await bench.call("delete_file", file_path="x", confirm=True)


@given(st.sampled_from([2, 13, 21, 28, 30, 36, 40, 999]), st.text(min_size=3))
def test_no_error_holds_the_path(number: int, path: str) -> None:
    words = describe_failure(OSError(number, "reason", path), "file_path")
    known = describe_failure(OSError(number, "reason", "another"), "file_path")
    assert words == known
    told = describe_failure(ProjectFileError(path, "is wrong", "Do it"), "file_path")
    assert told == "ProjectFileError: file_path is wrong. Do it."
    told = describe_failure(StorageError(path, "is wrong", "Do it"), "file_path")
    assert told == "StorageError: nothing was done, because a file of the program is wrong. Do it."
