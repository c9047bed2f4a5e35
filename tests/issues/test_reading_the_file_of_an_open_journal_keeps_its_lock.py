"""A process that read the file of its open journal lost its lock, and a second one wrote into it.

A POSIX record lock ends when its process closes any descriptor of the file: after a copy, a checksum
or a download, two processes had the journal open. Turns that were acknowledged vanished.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.terminal import holdfast

from holdfast import SqliteJournal
from holdfast.testing.journal_conformance import make_turn_opened, read_keys

OPENS = """
import sys
from holdfast import SqliteJournal
try:
    SqliteJournal(sys.argv[1], wait=0)
except Exception as error:
    print(type(error).__name__, error)
"""


def open_elsewhere(path: Path) -> str:
    second = [sys.executable, "-c", OPENS, path]
    return subprocess.run(second, capture_output=True, text=True, check=True).stdout


def copy(path: Path) -> None:
    shutil.copy(path, path.with_name("backup.db"))


def read(path: Path) -> None:
    path.read_bytes()


def digest(path: Path) -> None:
    with path.open("rb") as file:
        hashlib.file_digest(file, "sha256")


def copy_all(path: Path) -> None:
    shutil.copytree(path.parent, path.parent.parent / "backup")


@pytest.mark.parametrize("look", [copy, read, digest, copy_all])
async def test_a_second_process_is_refused_afterwards(
    tmp_path: Path, look: Callable[[Path], None]
) -> None:
    path = tmp_path / "folder" / "talk.db"
    path.parent.mkdir()
    with SqliteJournal(path) as journal:
        await journal.append("r", make_turn_opened(1))
        look(path)
        outcome = open_elsewhere(path)
        assert outcome.startswith("JournalBusyError"), outcome
        assert f"is open in process {os.getpid()}, started " in outcome
        await journal.append("r", make_turn_opened(2))
    with SqliteJournal(path) as journal:
        assert await read_keys(journal, "r") == ["t1", "t2"]


@pytest.mark.parametrize(
    "words", [("sessions", "delete", "r", "--yes"), ("journal", "prune", "--days", "1")]
)
def test_a_change_is_refused_afterwards(tmp_path: Path, words: tuple[str, ...]) -> None:
    path = tmp_path / "talk.db"
    with SqliteJournal(path):
        read(path)
        done = holdfast(*words[:2], str(path), *words[2:])
    assert done.returncode != 0
    assert f"is open in process {os.getpid()}" in done.stderr
