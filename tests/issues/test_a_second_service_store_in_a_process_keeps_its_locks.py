"""POSIX drops all locks of a process on a file when the process closes any descriptor of that file.

Opening a second service store of the same file did that. Another process that opened and closed the
file then took itself for the last one, and deleted the write-ahead log in use.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from holdfast.journal.service_store_sqlite import SqliteServiceStore


def test_the_log_stays(tmp_path: Path) -> None:
    journal = tmp_path / "talk.db"
    first, second = SqliteServiceStore(journal), SqliteServiceStore(journal)
    look = (
        f"import sqlite3; c = sqlite3.connect({first.path!r});"
        "c.execute('SELECT count(*) FROM sqlite_schema').fetchall(); c.close()"
    )
    subprocess.run([sys.executable, "-c", look], check=True)
    assert Path(f"{first.path}-wal").exists()
    second.close()
    first.close()
