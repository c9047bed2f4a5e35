"""A journal whose file was deleted or replaced acknowledged every append and saved none of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import SqliteJournal
from holdfast.errors import JournalError
from holdfast.journal.journal_errors import JournalStorageError
from holdfast.testing.journal_conformance import make_turn_opened, read_keys


def delete(file: Path) -> None:
    file.unlink()


def replace(file: Path) -> None:
    other = file.with_name("other")
    other.write_bytes(file.read_bytes())
    other.replace(file)


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
async def test_nothing_is_acknowledged_afterwards(
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
        log = contents(tmp_path)["talk.db-wal"]
        with pytest.raises(JournalError):
            await journal.append("r", make_turn_opened(2))
    left = contents(tmp_path)
    assert (left["talk.db"], left["talk.db-wal"]) == (b"something else", log)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}
