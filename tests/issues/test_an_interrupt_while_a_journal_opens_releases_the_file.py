"""Ctrl-C while a journal was being opened: the process kept the file and could not open it again."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path

import pytest

from holdfast import SqliteJournal


class Interrupted(Future[None]):
    def result(self, timeout: float | None = None) -> None:
        super().result(timeout)  # the file is open, and then
        raise KeyboardInterrupt


def test_it_can_be_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "talk.db"
    before = set(threading.enumerate())
    with monkeypatch.context() as patched:
        patched.setattr("holdfast.journal.writer.Future", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            SqliteJournal(path)
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
    SqliteJournal(path).close()
