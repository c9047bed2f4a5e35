"""Rows of a SQLite journal, changed by hand with checksums that fit: as another Holdfast writes them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from holdfast.journal.encoding import Line
from holdfast.journal.rows import compute_checksum, number_checksum


def compute_checksums_again(path: Path) -> None:
    """Give every record of a file the checksum of what it holds now."""
    rows = (
        "SELECT records.id, tenant, schema, name, seq, key, digest, type, at, event"
        " FROM records JOIN runs ON runs.id = run"
    )
    with closing(sqlite3.connect(path)) as connection, connection:
        for number, tenant, *columns, event in connection.execute(rows).fetchall():
            line = Line(*columns, {})
            checksum = number_checksum(compute_checksum(tenant, line, event), line.seq)
            connection.execute("UPDATE records SET checksum = ? WHERE id = ?", (checksum, number))
