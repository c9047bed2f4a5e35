"""A store whose tables another process made, between two looks at its file, was taken for a file of another program."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from holdfast.journal import service_store_sqlite
from holdfast.journal.service_store_sqlite import SqliteServiceStore


class LateConnection:
    """Another process makes the tables once so many statements were answered."""

    def __init__(self, path: Path, after: int) -> None:
        self.path, self.after = path, after
        self.file = sqlite3.connect(f"{path}-service.db")

    def execute(self, text: str) -> Any:
        rows = self.file.execute(text).fetchall()
        self.after -= 1
        if self.after == 0:
            SqliteServiceStore(self.path).close()
        return Cursor(rows)


class Cursor:
    """The rows of a statement that was answered."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def fetchone(self) -> Any:
        return self.rows[0]


def test_its_version_is_read_at_one_time(tmp_path: Path) -> None:
    for after in (1, 2):
        path = tmp_path / f"talk{after}.db"
        late: Any = LateConnection(path, after)
        with closing(late.file):
            assert service_store_sqlite._check_version(late, str(path)) == 0
            late.execute("SELECT 1")
            found = service_store_sqlite._check_version(late, str(path))
            assert found == service_store_sqlite.VERSION
