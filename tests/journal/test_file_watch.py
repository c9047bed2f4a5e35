"""Other programs change the files of an open journal, at any moment of a commit and at the end."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from holdfast import SqliteJournal
from holdfast.core.errors import ConflictError
from holdfast.errors import JournalError
from holdfast.journal.files.file_lock import take_lock
from holdfast.journal.files.file_watch import FileWatch
from holdfast.journal.journal_errors import JournalStorageError
from holdfast.journal.sqlite import opening
from holdfast.journal.sqlite.writer import WriterJob
from holdfast.testing.journal_conformance import make_turn_opened, read_keys

# ruff: noqa: ASYNC240  # REASON: a test may block its own loop


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder / "talk.db"


def contents(path: Path) -> dict[str, bytes]:
    files = path.parent.iterdir()
    return {
        file.name: file.read_bytes() for file in files if not file.name.endswith((".lock", "-shm"))
    }


def replace(file: Path) -> None:
    other = file.with_name("other")
    other.write_bytes(file.read_bytes())
    other.replace(file)


def swap(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


@pytest.mark.parametrize("ending", ["", "-wal"])
@pytest.mark.parametrize("harm", [Path.unlink, partial(os.truncate, length=0)])
async def test_a_change_while_a_group_is_written_is_noticed(
    path: Path, ending: str, harm: Callable[[Path], None]
) -> None:
    with SqliteJournal(path) as journal:
        await journal.append("r", make_turn_opened(1))
        # After BEGIN and before COMMIT, so that the log is continued at its former end.
        harming = WriterJob(lambda _: harm(Path(f"{path}{ending}")), writes=True)
        journal._writer.submit(harming)
        append = journal.append("r", make_turn_opened(2))
        with pytest.raises(JournalStorageError, match="while it was open"):
            await append
        with pytest.raises(JournalStorageError, match="while it was open"):
            await journal.append("r", make_turn_opened(3))


async def test_every_append_of_a_group_fails_with_an_error_of_its_own(path: Path) -> None:
    with SqliteJournal(path) as journal:
        path.unlink()
        appends = [journal.append("r", make_turn_opened(number)) for number in range(20)]
        outcomes = await asyncio.gather(*appends, return_exceptions=True)
        assert len({str(outcome) for outcome in outcomes}) == 1
        assert {type(outcome) for outcome in outcomes} == {JournalStorageError}
        assert len({id(outcome) for outcome in outcomes}) == 20


async def test_what_was_read_before_can_still_be_read(path: Path) -> None:
    with SqliteJournal(path) as journal:
        await journal.append("r", make_turn_opened(1))
        path.unlink()
        with pytest.raises(JournalStorageError):
            await journal.append("r", make_turn_opened(2))
        assert await read_keys(journal, "r") == ["t1"]


async def test_a_folder_that_is_moved_is_noticed(path: Path) -> None:
    with SqliteJournal(path) as journal:
        await journal.append("r", make_turn_opened(1))
        path.parent.rename(path.parent.with_name("moved"))
        with pytest.raises(JournalStorageError, match="was deleted while it was open"):
            await journal.append("r", make_turn_opened(2))
        path.parent.with_name("moved").rename(path.parent)
        with pytest.raises(JournalStorageError, match="was deleted while it was open"):
            await journal.append("r", make_turn_opened(2))
    with SqliteJournal(path) as journal:
        assert await read_keys(journal, "r") == ["t1"]


async def test_a_lock_file_that_was_deleted_is_created_again_by_opening_it_again(
    path: Path,
) -> None:
    with SqliteJournal(path) as journal:
        await journal.append("r", make_turn_opened(1))
        path.with_name("talk.db.lock").unlink()
        with pytest.raises(JournalStorageError, match="another process may have the journal"):
            await journal.append("r", make_turn_opened(2))
    with SqliteJournal(path) as journal:
        assert await read_keys(journal, "r") == ["t1"]
        await journal.append("r", make_turn_opened(2))


@pytest.mark.parametrize("ending", ["", "-wal"])
async def test_closing_writes_to_no_file_that_others_cut_off(path: Path, ending: str) -> None:
    with SqliteJournal(path) as journal:
        await journal.append("r", make_turn_opened(1))
        await journal.append("r", make_turn_opened(2, "x" * 100_000))
        os.truncate(f"{path}{ending}", 1000)
        left = contents(path)
    assert contents(path) == left


async def test_closing_leaves_the_files_of_another_journal_alone(path: Path) -> None:
    other = path.with_name("other.db")
    with SqliteJournal(path) as journal, SqliteJournal(other) as theirs:
        await journal.append("r", make_turn_opened(1))
        await theirs.append("s", make_turn_opened(1))
        for ending in ("", "-wal"):
            Path(f"{path}{ending}").write_bytes(Path(f"{other}{ending}").read_bytes())
        left = contents(path)
        journal.close()
        assert contents(path) == left
    with SqliteJournal(path) as journal:
        assert await read_keys(journal, "s") == ["t1"]


async def test_what_the_journal_does_itself_is_not_a_change(path: Path) -> None:
    with SqliteJournal(path) as journal:
        sizes = set()
        for number in range(30):  # several checkpoints, and a log that starts again
            await journal.append("long", make_turn_opened(number, "x" * 400_000))
            sizes.add(path.stat().st_size)
        assert len(sizes) > 2
        assert await journal.delete("long") == 30
        await journal.append("r", make_turn_opened(1))
        await journal.delete("nobody")
        await journal.delete("nobody")
        await journal.append("r", make_turn_opened(2))
        assert await read_keys(journal, "r") == ["t1", "t2"]


@pytest.mark.parametrize("writes", [True, False])
async def test_what_a_failed_group_left_in_the_log_is_not_a_change(
    path: Path, writes: bool
) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        if writes:  # more than fits in memory, so that it is in the log before COMMIT
            connection.execute("CREATE TABLE large AS SELECT zeroblob(9000000) AS x")
        else:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        raise sqlite3.OperationalError("disk I/O error")

    with SqliteJournal(path) as journal:
        await journal.append("r", make_turn_opened(1))
        before = Path(f"{path}-wal").stat().st_size
        with pytest.raises(JournalStorageError, match="disk I/O error"):
            await journal._writer.submit(WriterJob(fail, writes=writes))
        assert Path(f"{path}-wal").stat().st_size != before
        await journal.append("r", make_turn_opened(2))
        assert await read_keys(journal, "r") == ["t1", "t2"]


async def test_a_log_of_zeros_that_a_power_failure_left_is_not_a_change(path: Path) -> None:
    with SqliteJournal(path) as journal:
        await journal.append("r", make_turn_opened(1))
    Path(f"{path}-wal").write_bytes(bytes(8192))
    with SqliteJournal(path) as journal:
        with pytest.raises(ConflictError):
            await journal.append("r", make_turn_opened(1))
        await journal.append("r", make_turn_opened(2))
        assert await read_keys(journal, "r") == ["t1", "t2"]


async def test_a_file_that_gives_room_back_is_not_taken_for_cut_off(path: Path) -> None:
    SqliteJournal(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA auto_vacuum = FULL")
    connection.execute("VACUUM")
    connection.close()
    with SqliteJournal(path) as journal:
        for number in range(12):
            await journal.append("long", make_turn_opened(number, "x" * 400_000))
        await journal._writer.submit(
            WriterJob(
                lambda c: c.execute(
                    "DELETE FROM records WHERE run = (SELECT id FROM runs WHERE name = 'long')"
                ),
                writes=True,
            )
        )
        for number in range(12):
            await journal.append("r", make_turn_opened(number, "x" * 400_000))
        assert len(await read_keys(journal, "r")) == 12


@pytest.fixture
def watch(path: Path) -> Iterator[FileWatch]:
    """Return a watch whose folder has not changed for a while, so that it looks up no name."""
    lock = take_lock(str(path), 0)
    connection = opening.open_connection(str(path), 0)
    found = FileWatch(str(path), lock)
    time.sleep(0.1)
    found.check()
    yield found
    found.close()
    connection.close()
    lock.release()


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("ending", ["", "-wal", ".lock"])
@pytest.mark.parametrize("change", [Path.unlink, replace, swap])
def test_a_changed_name_is_noticed_also_between_two_lookups(
    path: Path, watch: FileWatch, ending: str, change: Callable[[Path], None]
) -> None:
    change(Path(f"{path}{ending}"))
    folder = path.parent.stat()
    os.utime(path.parent, ns=(folder.st_atime_ns, 1_700_000_000_123_456_789))
    with pytest.raises(JournalStorageError, match="while it was open"):
        watch.check_commit()


def test_other_files_of_the_folder_make_no_difference(path: Path, watch: FileWatch) -> None:
    for number in range(3):
        path.with_name(f"other-{number}").touch()
        watch.check()
        path.with_name(f"other-{number}").unlink()
        watch.check_commit()


def test_a_check_asks_for_the_time_of_no_file(
    watch: FileWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = os.lstat

    def lstat(path: str) -> os.stat_result:
        asked.append(path)
        return real(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "lstat", lstat)
        patched.setattr(os, "fstat", None)
        watch.check()
        watch.check_commit()
    assert len(asked) == 2
    assert {Path(path).name for path in asked} == {"folder"}


def test_a_file_that_is_replaced_while_it_is_opened_is_refused(path: Path) -> None:
    lock = take_lock(str(path), 0)
    path.rename(path.with_name("moved.db"))
    shutil.copy(path.with_name("moved.db"), path)
    connection = opening.open_connection(str(path), 0)
    with pytest.raises(JournalError, match="was replaced while it was open"):
        FileWatch(str(path), lock)
    connection.close()
    lock.release()
    SqliteJournal(path).close()


# A file that was deleted, replaced or truncated.


def delete(file: Path) -> None:
    file.unlink()


def move(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))


def move_and_link(file: Path) -> None:
    move(file)
    file.symlink_to("elsewhere")


def truncate(file: Path) -> None:
    os.truncate(file, 0)


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 1)


def lengthen(file: Path) -> None:
    with file.open("ab") as out:
        out.write(bytes(4096))


DONE = {
    delete: "was deleted",
    replace: "was replaced",
    move: "was deleted",
    move_and_link: "was replaced",
    truncate: "was truncated",
    cut: "was truncated",
    lengthen: "was written by another program",
}
CASES = [(done, ending) for ending in ("", "-wal") for done in DONE] + [
    (done, ".lock") for done in (delete, replace, move, move_and_link)
]


@pytest.mark.parametrize(("harm", "ending"), CASES)
async def test_no_append_is_acknowledged_after_its_file_was_replaced(
    tmp_path: Path, harm: Callable[[Path], None], ending: str
) -> None:
    path = tmp_path / "talk.db"
    journal = SqliteJournal(path)
    for number in range(5):
        await journal.append("r", make_turn_opened(number))
    harm(Path(f"{path}{ending}"))
    problems = []
    for number in range(5, 8):
        with pytest.raises(JournalStorageError, match=DONE[harm]) as caught:
            await journal.append("r", make_turn_opened(number))
        problems.append((caught.value.path, caught.value.problem, caught.value.fix))
    assert len(set(problems)) == 1
    assert not ending or ending in problems[0][1]
    journal.close()


@pytest.mark.parametrize("harm", [delete, replace])
async def test_what_was_acknowledged_outlives_the_loss_of_the_log(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    path = tmp_path / "talk.db"
    with SqliteJournal(path) as journal:
        for number in range(5):
            await journal.append("r", make_turn_opened(number))
        harm(Path(f"{path}-wal"))
        with pytest.raises(JournalError):
            await journal.append("r", make_turn_opened(5))
    with SqliteJournal(path) as journal:
        assert await read_keys(journal, "r") == [f"t{number}" for number in range(5)]
        await journal.append("r", make_turn_opened(5))


async def test_a_file_that_was_overwritten_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "talk.db"
    with SqliteJournal(path) as journal:
        await journal.append("r", make_turn_opened(1))
        path.write_bytes(b"something else")
        log = contents_file(tmp_path)["talk.db-wal"]
        with pytest.raises(JournalError):
            await journal.append("r", make_turn_opened(2))
    left = contents_file(tmp_path)
    assert (left["talk.db"], left["talk.db-wal"]) == (b"something else", log)


def contents_file(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}
