"""A refused file stays as it was: all files of the folder, byte for byte, and their times."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import SqliteJournal
from holdfast.cli.main import main
from holdfast.errors import JournalError
from holdfast.journal.files import log_check, log_file
from holdfast.journal.journal_errors import (
    JournalCorruptError,
    JournalStorageError,
    JournalVersionError,
)
from holdfast.testing.journal_conformance import make_turn_opened, read_keys

FIRST_PAGE = "SELECT rootpage FROM sqlite_master WHERE name = ?"
NEWER = "PRAGMA user_version = 99"
TRIGGER = "CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END"


def append(path: Path, *numbers: int, run: str = "ada", text: str = "hi") -> None:
    with SqliteJournal(path) as journal:
        append_to(journal, *numbers, run=run, text=text)


def append_to(journal: SqliteJournal, *numbers: int, run: str = "ada", text: str = "hi") -> None:
    async def appends() -> None:
        for number in numbers:
            await journal.append(run, make_turn_opened(number, text))

    asyncio.run(appends())


def kill_after(path: Path, *numbers: int) -> None:
    """Append in a process that is killed afterwards, so that the log and its note stay beside the file."""
    code = (
        "import asyncio, os, signal, sys; from holdfast import SqliteJournal;"
        "from holdfast.testing.journal_conformance import make_turn_opened;"
        "journal = SqliteJournal(sys.argv[1]);"
        "[asyncio.run(journal.append('ada', make_turn_opened(int(n)))) for n in sys.argv[2:]];"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, path, *map(str, numbers)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert log_of(path).stat().st_size


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def note_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal.json")


def leave_log(path: Path, *statements: str) -> None:
    """Run statements in a database of another program, and leave them in a log."""
    work = path.with_name("work.db")
    if path.exists():
        shutil.copy(path, work)
    connection = sqlite3.connect(work)
    connection.execute("PRAGMA journal_mode = WAL")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    shutil.copy(work, path)
    shutil.copy(log_of(work), log_of(path))
    connection.close()
    work.unlink()


def write_raw(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def overwrite(path: Path, at: int, data: bytes, *, keeps_time: bool = False) -> None:
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)
    if keeps_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def make_foreign_log(path: Path) -> None:
    append(path, *range(1, 4))
    other = path.with_name("other.db")
    with SqliteJournal(other) as journal:
        append_to(journal, *range(1, 6), run="bob")
        shutil.copy(log_of(other), log_of(path))
    other.unlink()


def make_log_of_another_program(path: Path) -> None:
    append(path, *range(1, 4))
    kept = path.read_bytes()
    path.unlink()
    leave_log(path, "CREATE TABLE theirs (x)", "INSERT INTO theirs VALUES (1)")
    path.write_bytes(kept)


def make_log_of_an_older_state(path: Path) -> None:
    with SqliteJournal(path) as journal:
        append_to(journal, 1)
        older = log_of(path).read_bytes()
        append_to(journal, 2, 3)
    log_of(path).write_bytes(older)


def make_log_of_an_older_opening(path: Path) -> None:
    append(path, 1)
    with SqliteJournal(path) as journal:
        append_to(journal, 2)
        older = log_of(path).read_bytes()
    # It holds all pages that the next opening changes.
    append(path, 3)
    log_of(path).write_bytes(older)


def make_log_from_before_a_deletion(path: Path) -> None:
    append(path, 1, 2)
    with SqliteJournal(path) as journal:
        append_to(journal, 1, run="bob")
        older = log_of(path).read_bytes()
        asyncio.run(journal.delete("bob"))
    log_of(path).write_bytes(older)


def make_log_of_a_copy_that_went_on(path: Path) -> None:
    append(path, 1)
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    with SqliteJournal(copy) as journal:
        append_to(journal, *range(2, 8), text="differently")
        log = log_of(copy).read_bytes()
    copy.unlink()
    append(path, 2, 3)
    log_of(path).write_bytes(log)


def make_log_beside_an_older_file(path: Path) -> None:
    append(path, 1)
    older = path.read_bytes()
    append(path, *range(2, 30), text="x" * 5000)
    append(path, 30)
    kill_after(path, 31)
    path.write_bytes(older)


def make_truncated_log(path: Path) -> None:
    with SqliteJournal(path) as journal:
        append_to(journal, *range(1, 30))
        log = log_of(path).read_bytes()
    log_of(path).write_bytes(log[: len(log) // 2])


def make_garbage_log(path: Path) -> None:
    append(path, 1)
    log_of(path).write_bytes(bytes(range(1, 251)) * 100)


def make_log_that_is_damaged_in_the_middle(path: Path) -> None:
    kill_after(path, *range(1, 20))
    log = log_of(path)
    overwrite(log, log.stat().st_size // 2, b"\xff" * 10)


def make_noted_log_that_is_damaged_in_the_middle(path: Path) -> None:
    append(path, 1)
    kill_after(path, *range(2, 20))
    log = log_of(path)
    overwrite(log, log.stat().st_size // 2, b"\xff" * 10)


def make_log_with_a_damaged_header(path: Path) -> None:
    kill_after(path, 1, 2)
    overwrite(log_of(path), 17, b"\xff")


def make_other_program(path: Path) -> None:
    write_raw(path, "CREATE TABLE theirs (x)")


def make_other_program_with_log(path: Path) -> None:
    write_raw(path, "CREATE TABLE theirs (x)")
    leave_log(path, "INSERT INTO theirs VALUES (1)")


def make_other_program_with_log_of_a_journal(path: Path) -> None:
    write_raw(path, "CREATE TABLE theirs (x)")
    other = path.with_name("other.db")
    with SqliteJournal(other) as journal:
        append_to(journal, 1, run="bob")
        shutil.copy(log_of(other), log_of(path))
    other.unlink()


def make_newer(path: Path) -> None:
    append(path, 1)
    write_raw(path, NEWER)


def make_newer_with_log(path: Path) -> None:
    append(path, 1)
    leave_log(path, NEWER)


def make_older_log_beside_newer(path: Path) -> None:
    append(path, 1)
    kill_after(path, 2)
    log = log_of(path).read_bytes()
    write_raw(path, NEWER)
    log_of(path).write_bytes(log)


def make_crafted(path: Path) -> None:
    append(path, 1)
    write_raw(path, TRIGGER)


def make_crafted_with_log(path: Path) -> None:
    append(path, 1)
    leave_log(path, TRIGGER)


def make_rollback_mode_crafted(path: Path) -> None:
    append(path, 1)
    write_raw(path, "PRAGMA journal_mode = DELETE", "CREATE VIEW v AS SELECT 1")


def make_negative_version(path: Path) -> None:
    append(path, 1)
    write_raw(path, "PRAGMA user_version = -1")


def make_without_identity(path: Path) -> None:
    append(path, 1)
    write_raw(path, "DELETE FROM identity")


def make_damaged_with_own_log(path: Path) -> None:
    append(path, *range(1, 40), text="x" * 500)
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute(FIRST_PAGE, ("requests",)).fetchone()
    kill_after(path, 40)
    overwrite(path, (page - 1) * 4096, os.urandom(600))


def make_truncated(path: Path) -> None:
    append(path, *range(1, 40), text="x" * 500)
    os.truncate(path, path.stat().st_size // 2)


def make_truncated_with_own_log(path: Path) -> None:
    append(path, *range(1, 40), text="x" * 500)
    kill_after(path, 40)
    os.truncate(path, path.stat().st_size // 2)


def make_text(path: Path) -> None:
    path.write_text("Dear diary, " * 1000)


def make_text_with_log(path: Path) -> None:
    kill_after(path, 1)
    path.write_text("Dear diary, " * 1000)


def make_short_text(path: Path) -> None:
    path.write_text("Dear diary")


def make_empty_with_log(path: Path) -> None:
    kill_after(path, 1)
    os.truncate(path, 0)


def make_foreign_rollback_journal(path: Path) -> None:
    """A transaction of another state of the file was interrupted: SQLite would undo it here."""
    append(path, *range(1, 20), text="x" * 500)
    work = path.with_name("work.db")
    shutil.copy(path, work)
    connection = sqlite3.connect(work, isolation_level=None)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("PRAGMA cache_spill = 1")
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("BEGIN")
    connection.execute("UPDATE records SET event = zeroblob(2000)")
    shutil.copy(path.with_name("work.db-journal"), path.with_name("talk.db-journal"))
    connection.close()
    work.unlink()
    append_journal = path.with_name("talk.db-journal").read_bytes()
    path.with_name("talk.db-journal").unlink()
    append(path, *range(20, 60), text="x" * 500)
    path.with_name("talk.db-journal").write_bytes(append_journal)


REFUSED: list[tuple[Callable[[Path], None], type[JournalError]]] = [
    (make_foreign_log, JournalCorruptError),
    (make_log_of_another_program, JournalCorruptError),
    (make_log_of_an_older_state, JournalCorruptError),
    (make_log_of_an_older_opening, JournalCorruptError),
    (make_log_from_before_a_deletion, JournalCorruptError),
    (make_log_of_a_copy_that_went_on, JournalCorruptError),
    (make_log_beside_an_older_file, JournalCorruptError),
    (make_truncated_log, JournalCorruptError),
    (make_garbage_log, JournalCorruptError),
    (make_log_that_is_damaged_in_the_middle, JournalCorruptError),
    (make_noted_log_that_is_damaged_in_the_middle, JournalCorruptError),
    (make_log_with_a_damaged_header, JournalCorruptError),
    (make_other_program, JournalVersionError),
    (make_other_program_with_log, JournalVersionError),
    (make_other_program_with_log_of_a_journal, JournalVersionError),
    (make_newer, JournalVersionError),
    (make_newer_with_log, JournalVersionError),
    (make_older_log_beside_newer, JournalVersionError),
    (make_crafted, JournalVersionError),
    (make_crafted_with_log, JournalVersionError),
    (make_rollback_mode_crafted, JournalVersionError),
    (make_negative_version, JournalCorruptError),
    (make_without_identity, JournalCorruptError),
    (make_damaged_with_own_log, JournalCorruptError),
    (make_truncated, JournalCorruptError),
    (make_truncated_with_own_log, JournalCorruptError),
    (make_text, JournalCorruptError),
    (make_text_with_log, JournalCorruptError),
    (make_short_text, JournalCorruptError),
    (make_empty_with_log, JournalCorruptError),
    (make_foreign_rollback_journal, JournalCorruptError),
]


def look(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        one.name: (one.read_bytes(), one.stat().st_mtime_ns)
        for one in folder.iterdir()
        if one.suffix != ".lock"  # it holds nothing of the journal
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talk.db"


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize(
    ("make", "kind"), [pytest.param(*case, id=case[0].__name__[5:]) for case in REFUSED]
)
def test_a_refused_file_is_left_as_it_was(
    path: Path, make: Callable[[Path], None], kind: type[JournalError]
) -> None:
    make(path)
    before = look(path.parent)
    with pytest.raises(kind) as caught:
        SqliteJournal(path)
    assert type(caught.value) is kind
    assert str(path) in str(caught.value)
    assert caught.value.fix
    assert look(path.parent) == before
    name = str(path)
    for words in (
        ["journal", "verify", name],
        ["journal", "show", name],
        ["journal", "export", name, "ada"],
        ["sessions", "list", name],
        ["replay", name],
    ):
        assert main(words) != 0
        assert look(path.parent) == before, words


def test_a_file_that_is_missing_beside_its_log_is_not_created(path: Path) -> None:
    kill_after(path, 1)
    path.unlink()
    before = look(path.parent)
    with pytest.raises(JournalCorruptError, match="is missing, but its -wal file is not"):
        SqliteJournal(path)
    assert look(path.parent) == before


@pytest.mark.parametrize("make", [make_foreign_log, make_garbage_log, make_log_of_an_older_opening])
def test_a_journal_opens_without_the_log_that_is_not_its_own(
    path: Path, make: Callable[[Path], None]
) -> None:
    make(path)
    with pytest.raises(JournalCorruptError):
        SqliteJournal(path)
    log_of(path).unlink()
    with SqliteJournal(path) as journal:
        assert "t1" in asyncio.run(read_keys(journal, "ada"))


def spoil_nothing(path: Path) -> None:
    return


def delete_note(path: Path) -> None:
    note_of(path).unlink()


def spoil_note(path: Path) -> None:
    note_of(path).write_bytes(b"\xff{garbage")


def make_note_of_another_file(path: Path) -> None:
    text = note_of(path).read_text("utf-8")
    note_of(path).write_text(text.replace('"file":[', '"file":[1'), "utf-8")


def make_folder_of_note(path: Path) -> None:
    note_of(path).unlink()
    note_of(path).mkdir()


def leave_folder_of_a_killed_check(path: Path) -> None:
    delete_note(path)
    folder = path.with_name(f".{path.name}-check")
    folder.mkdir()
    (folder / "copy").write_text("half a copy")


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize(
    "spoil",
    [
        spoil_nothing,
        delete_note,
        spoil_note,
        make_note_of_another_file,
        make_folder_of_note,
        leave_folder_of_a_killed_check,
    ],
)
def test_a_log_of_a_killed_process_is_taken_whatever_its_note_says(
    path: Path, spoil: Callable[[Path], None]
) -> None:
    for first in (1, 4, 7):
        kill_after(path, first, first + 1, first + 2)
        spoil(path)
        with SqliteJournal(path) as journal:
            assert len(asyncio.run(read_keys(journal, "ada"))) == first + 2
        assert {one.name for one in path.parent.iterdir()} <= {
            path.name,
            "talk.db.lock",
            note_of(path).name,
        }
        if note_of(path).is_dir():
            note_of(path).rmdir()


def test_a_log_that_is_noted_is_not_tried_on_a_copy_of_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_after(path, 1, 2)
    monkeypatch.setattr(log_check, "_check_copy", None)
    SqliteJournal(path).close()
    kill_after(path, 3)
    SqliteJournal(path).close()


def test_a_schema_that_is_not_at_the_beginning_is_found_in_the_whole_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_check, "_BEGINNING", 4096)
    append(path, 1)
    kill_after(path, 2)
    with SqliteJournal(path) as journal:
        assert asyncio.run(read_keys(journal, "ada")) == ["t1", "t2"]


def test_a_journal_is_moved_with_its_log(path: Path, tmp_path: Path) -> None:
    append(path, 1)
    kill_after(path, 2)
    moved = tmp_path / "moved" / "other name?#%.db"
    moved.parent.mkdir()
    shutil.copy(path, moved)
    shutil.copy(log_of(path), log_of(moved))
    with SqliteJournal(moved) as journal:
        assert asyncio.run(read_keys(journal, "ada")) == ["t1", "t2"]


def test_a_log_without_a_whole_transaction_loses_nothing(path: Path) -> None:
    append(path, 1)
    with SqliteJournal(path) as journal:
        append_to(journal, 2)
        log = log_of(path).read_bytes()
    for length in (1, 31, 32, 33, 60, 5000):
        older = path.with_name(f"{length}.db")
        append(older, 1)
        log_of(older).write_bytes(log[:length])
        if length >= 5000:  # a log of another journal, of which SQLite reads nothing
            assert len(log_file.find_commits(str(log_of(older)), read(log_of(older)))) == 0
        with SqliteJournal(older) as journal:
            assert asyncio.run(read_keys(journal, "ada")) == ["t1"]


def read(log: Path) -> log_file.LogHeader:
    header = log_file.read_header(str(log))
    assert header is not None
    return header


def test_zeros_after_a_power_failure_are_not_a_log(path: Path) -> None:
    append(path, 1)
    log_of(path).write_bytes(bytes(70_000))
    with SqliteJournal(path) as journal:
        assert asyncio.run(read_keys(journal, "ada")) == ["t1"]


def test_no_room_for_the_copy_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kill_after(path, 1)
    delete_note(path)
    before = look(path.parent)
    monkeypatch.setattr(
        log_check.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 10, 0)
    )
    with pytest.raises(JournalStorageError, match="no room for a copy"):
        SqliteJournal(path)
    assert look(path.parent) == before


def test_a_folder_in_the_place_of_the_copy_is_not_emptied(path: Path) -> None:
    kill_after(path, 1)
    delete_note(path)
    folder = path.with_name(f".{path.name}-check")
    folder.mkdir()
    (folder / "mine").write_text("keep")
    with pytest.raises(JournalStorageError, match="cannot be checked on a copy"):
        SqliteJournal(path)
    assert (folder / "mine").read_text() == "keep"


def test_the_note_names_the_log_that_is_written_now(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_file, "FRAMES_TO_FOLD", 30)
    with SqliteJournal(path) as journal:
        seen = set()
        for number in range(1, 60):
            append_to(journal, number)
            note = log_file.read_note(str(path))
            assert note is not None
            seen.add(note.salts)
            assert note.salts == read(log_of(path)).salts.hex()
        assert len(seen) > 3
        assert log_of(path).stat().st_size < 80 * 4120
    assert {one.name for one in path.parent.iterdir()} == {path.name, "talk.db.lock"}


def test_an_id_is_never_given_again(path: Path) -> None:
    ids = "SELECT id FROM records"
    with SqliteJournal(path) as journal:
        append_to(journal, 1)
        append_to(journal, 1, 2, 3, run="bob")
        assert asyncio.run(journal.delete("bob")) == 3
        append_to(journal, 2)
    connection = sqlite3.connect(path)
    assert connection.execute(ids).fetchall() == [(1,), (5,)]
    connection.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_file_that_cannot_be_written_is_left_as_it_is(path: Path) -> None:
    append(path, 1)
    path.chmod(0o444)
    before = look(path.parent)
    child = os.fork()
    if child == 0:
        try:
            for folder in path.parents[:-1]:
                if folder.stat().st_uid == 0 and folder.name.startswith("pytest"):
                    folder.chmod(0o755)
            os.setuid(65534)
            SqliteJournal(path)
        except JournalStorageError:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert look(path.parent) == before


def test_a_new_log_is_noted_and_the_folder_does_not_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_file, "FRAMES_TO_FOLD", 30)
    path = tmp_path / "talk.db"
    with SqliteJournal(path) as journal:
        append_to(journal, 1)
        folder, notes = tmp_path.stat().st_ctime_ns, set()
        for number in range(2, 60):
            append_to(journal, number)
            if log_file.is_noted(str(path)):  # not when the log was just copied into the file
                notes.add(note_of(path).read_bytes())
        assert len(notes) > 2
        assert tmp_path.stat().st_ctime_ns == folder
