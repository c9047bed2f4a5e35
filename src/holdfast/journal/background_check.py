"""Checks the records of an open SQLite journal in the background, in short batches.

A large file is not read completely when it is opened. The writer thread calls `check_some` between
its jobs; one call takes a few milliseconds. Damage is logged, and changes nothing else: reading a
damaged record raises an error of its own.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from typing import TypeAlias

from holdfast.journal.journal_errors import JournalCorruptError, JournalError
from holdfast.journal.journal_names import DELETED, UNFINISHED
from holdfast.journal.rows import SEQ, RowReader
from holdfast.journal.sqlite_queries import RunHead, select_records

_log = logging.getLogger("holdfast")

_Run: TypeAlias = tuple[int, str, str]

PAUSE = 0.01  # seconds between two batches
_LONGEST = 0.0005  # seconds after which a batch begins no other piece
_READING = 0.0002  # seconds to read a piece; checking it takes longer
_NEXT_RUN = (
    "SELECT id, tenant, name FROM runs"
    " WHERE id > ? AND id <= ? AND tenant NOT IN (?, ?) ORDER BY id LIMIT 1"
)
_LAST_RUN = "SELECT COALESCE(MAX(id), 0) FROM runs"
_FIX = "`holdfast journal verify` lists all damage; restore the session from a backup"


class BackgroundCheck:
    """Reads each run of each tenant once, and compares checksums and numbers.

    It leaves out the runs that are made after it has begun.

    Args:
        path: the journal.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._due = time.monotonic()
        self._run: _Run = (0, "", "")
        self._last_run: int | None = None
        self._after = 0  # the number of the last record of this run that was checked
        self._head: RunHead | None = None
        self._is_finished = False
        self.damage: list[JournalCorruptError] = []

    def seconds_left(self) -> float | None:
        """Return the seconds until the next batch is due; None after the last one."""
        return None if self._is_finished else max(0.0, self._due - time.monotonic())

    def check_some(self, connection: sqlite3.Connection) -> None:
        """Check the next records."""
        end = time.monotonic() + _LONGEST
        while not self._is_finished and time.monotonic() < end:
            self._check_piece(connection)
        self._due = time.monotonic() + PAUSE

    def _check_piece(self, connection: sqlite3.Connection) -> None:
        try:
            if self._head is None and not self._begin_next_run(connection):
                self._is_finished = True
                return
        except (sqlite3.Error, ValueError) as error:
            self._report(f"its list of runs cannot be read: {error}")
            self._is_finished = True
            return
        try:
            self._check_rows(connection)
        except (JournalError, sqlite3.Error, ValueError) as error:
            place = RowReader(self._path, self._run[1]).format_location(self._run[2])
            self._report(getattr(error, "problem", f"{error}"), getattr(error, "path", place))
            self._head = None

    def _begin_next_run(self, connection: sqlite3.Connection) -> bool:
        if self._last_run is None:
            self._last_run = connection.execute(_LAST_RUN).fetchone()[0]
        values = (self._run[0], self._last_run, DELETED, UNFINISHED)
        found = connection.execute(_NEXT_RUN, values).fetchone()
        if found is None:
            return False
        self._run, self._after = found, 0
        self._head = RunHead(self._run[0], 0, -1)
        return True

    def _check_rows(self, connection: sqlite3.Connection) -> None:
        _, tenant, name = self._run
        piece = select_records(tenant, name, self._after, connection, seconds=_READING)
        if piece is None:
            self._head = None  # it was deleted
            return
        head, rows, is_end = piece
        if self._after and head.deletions != (self._head or head).deletions:
            self._head, self._after = head, 0  # perhaps another run of that name: begin again
            return
        self._head = head
        reader = RowReader(self._path, tenant)
        end = head.records if is_end else self._after + len(rows)
        reader.check_sequence(rows, name, self._after, end)
        for row in rows:
            reader.to_line(row)
        if is_end:
            self._head = None
        else:
            self._after = int(str(rows[-1][SEQ]))

    def _report(self, problem: str, place: str = "") -> None:
        error = JournalCorruptError(place or self._path, problem, fix=_FIX)
        self.damage.append(error)
        _log.error("the background check found damage: %s", error)
