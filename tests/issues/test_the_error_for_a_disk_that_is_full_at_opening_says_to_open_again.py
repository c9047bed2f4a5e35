"""A full disk that was met while a journal was being opened "goes on by itself", said the error.

Nothing goes on: there is no journal, and somebody has to open it again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import SqliteJournal
from holdfast.journal.journal_errors import JournalStorageError
from holdfast.journal.run_heads import WriterConnection


class Small(WriterConnection):
    """A file that has room for so few pages, as on a full disk."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.execute("PRAGMA max_page_count = 2")


def test_it_is_to_be_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "talk.db"
    with monkeypatch.context() as patched:
        patched.setattr("holdfast.journal.opening.WriterConnection", Small)
        with pytest.raises(JournalStorageError) as caught:
            SqliteJournal(path)
    assert caught.value.problem == "the disk is full"
    assert caught.value.fix == "Free some space, and open it again"
    SqliteJournal(path).close()
