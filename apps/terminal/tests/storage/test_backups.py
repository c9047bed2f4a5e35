import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from apps.terminal.tests.storage.folders import list_names

from adh.storage.backups import BackupError, Backups


class Clock:
    def __init__(self) -> None:
        self.at = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def backups(tmp_path: Path, clock: Clock) -> Backups:
    return Backups(tmp_path / "backups", clock)


def test_copies_within_a_second_are_all_kept(tmp_path: Path, backups: Backups) -> None:
    file = tmp_path / "a.txt"
    copies = []
    for content in ("one", "two", "three"):
        file.write_text(content)
        copies.append(backups.save(file))
    assert [copy.read_text() for copy in copies] == ["one", "two", "three"]
    assert str(copies[0]).endswith(f"20260314T150926Z-000{file}")
    assert stat.S_IMODE(copies[0].stat().st_mode) == 0o600


def test_copies_are_deleted_after_30_days(tmp_path: Path, backups: Backups, clock: Clock) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")
    old = backups.save(file)
    clock.at += timedelta(days=30, seconds=1)
    new = backups.save(file)
    assert backups.prune() == 1
    assert (old.exists(), new.exists()) == (False, True)


def test_a_clock_that_jumps_ahead_deletes_nothing(
    tmp_path: Path, backups: Backups, clock: Clock
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("kept")
    copies = [backups.save(file)]
    clock.at += timedelta(days=20)
    copies.append(backups.save(file))
    clock.at += timedelta(days=4_000)
    backups.prune()
    assert copies[1].exists()


def test_other_files_in_the_folder_are_left(tmp_path: Path, backups: Backups) -> None:
    mine = tmp_path / "backups" / "mine"
    mine.mkdir(parents=True)
    assert backups.prune(datetime(2100, 1, 1, tzinfo=UTC)) == 0
    assert mine.exists()


@pytest.mark.parametrize("kind", ["missing", "folder", "fifo", "link"])
def test_what_cannot_be_copied_is_an_error_and_leaves_nothing(
    tmp_path: Path, backups: Backups, kind: str
) -> None:
    file = tmp_path / "a"
    if kind == "folder":
        file.mkdir()
    elif kind == "fifo":
        os.mkfifo(file)
    elif kind == "link":
        (tmp_path / "b").write_text("x")
        file.symlink_to("b")
    with pytest.raises(BackupError):
        backups.save(file)
    assert not (tmp_path / "backups").exists()


def test_a_full_disk_leaves_no_half_copy(
    tmp_path: Path, backups: Backups, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("x")

    def refuse(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(BackupError, match="disk is full"):
        backups.save(file)
    monkeypatch.undo()
    assert list_names(tmp_path / "backups") == []
