"""Kills a change of a session at every statement, and looks at what the next process finds.

Run by `test_changes.py` in a process of its own: it forks a child for each kill.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import shutil
import signal
import sqlite3
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from holdfast import PostgresJournal, SqliteJournal
from holdfast.core.events import ModelReplied, SessionTitled, Status, TurnClosed, TurnOpened
from holdfast.core.messages import Reply, Text, user
from holdfast.journal.journal_names import DELETED, UNFINISHED
from holdfast.journal.sqlite import hidden_runs, opening
from holdfast.sessions.session_export import export_lines
from holdfast.sessions.sessions import Sessions

Store = SqliteJournal | PostgresJournal


async def fill(journal: Store) -> None:
    """Two sessions, one with a title and the run of an agent that it used as a tool."""
    reply = Reply((Text("hello"),), model="m")
    for run in ("ada", "ada/t1.i0.tool.0", "bob"):
        for turn in (1, 2):
            await journal.append(run, TurnOpened(f"t{turn}", turn, user(f"hello {run}")))
            await journal.append(run, ModelReplied(f"t{turn}.i0.model", turn, reply))
            await journal.append(run, TurnClosed(f"t{turn}.closed", turn, Status.COMPLETED))
    await journal.append("ada/:title", SessionTitled("t1", 3.0, "Ada"))
    await journal.save_snapshot("ada", 4, b"{}")


async def delete(journal: Store) -> None:
    await Sessions(journal).delete("ada")


async def fork(journal: Store) -> None:
    await Sessions(journal).fork("ada", to="eve")


async def rename(journal: Store) -> None:
    await Sessions(journal, clock=lambda: 9.0).rename("ada", "Countess")


async def import_(journal: Store) -> None:
    names = ("ada", "ada/:title", "ada/t1.i0.tool.0")
    runs = {run: await journal.read(run) for run in names}
    # The last turn has not ended, and nobody may ever see it open.
    lines = export_lines({**runs, "ada": runs["ada"][:-2]})
    await Sessions(journal, clock=lambda: 9.0).import_(lines, session="ivy")


CHANGES: dict[str, Callable[[Store], Awaitable[None]]] = {
    "delete": delete,
    "fork": fork,
    "rename": rename,
    "import": import_,
}


class Killer:
    """Kills this process at a statement that is not a SELECT.

    The number of SELECTs varies: the journal also checks records in the background, and reads
    several things at the same time.
    """

    def __init__(self) -> None:
        self.left = -1

    def count(self, statement: str | bytes) -> None:
        text = statement.decode() if isinstance(statement, bytes) else statement
        if text.lstrip().upper().startswith("SELECT"):
            return
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1


def watch_sqlite(killer: Killer) -> None:
    original = opening.open_connection

    def open_connection(path: str, wait: float) -> Any:
        connection = original(path, wait)
        connection.set_trace_callback(killer.count)
        return connection

    opening.open_connection = open_connection


def watch_postgres(killer: Killer) -> None:
    import psycopg

    for kind in (psycopg.AsyncConnection, psycopg.AsyncCursor):
        original = kind.execute

        async def execute(self: Any, *given: Any, original: Any = original, **named: Any) -> Any:
            killer.count(given[0])
            return await original(self, *given, **named)

        kind.execute = execute  # type: ignore[method-assign]


class Lives:
    """One store, made anew for each kill.

    Args:
        address: a folder for files, or the address of a database.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.killer = Killer()
        self.is_file = "://" not in address
        (watch_sqlite if self.is_file else watch_postgres)(self.killer)

    def open(self) -> Store:
        if self.is_file:
            return SqliteJournal(Path(self.address) / "talk.db", wait=10)
        return PostgresJournal(self.address)

    def begin(self) -> None:
        if self.is_file:
            self._begin_files()
            return
        with self.open() as journal:
            asyncio.run(self._reset(journal))

    def _begin_files(self) -> None:
        """The files are the same each time, so they are made once and copied."""
        shutil.rmtree(self.address, ignore_errors=True)
        filled = Path(f"{self.address}-filled")
        if not filled.exists():
            Path(self.address).mkdir()
            with self.open() as journal:
                asyncio.run(fill(journal))
            Path(self.address).rename(filled)
        shutil.copytree(filled, self.address)

    @staticmethod
    async def _reset(journal: Store) -> None:
        await journal.delete(*[entry.run for entry in await journal.runs()])
        await fill(journal)

    def look(self) -> str:
        """What a new process finds: every record of every run, and every title."""
        with self.open() as journal:
            if isinstance(journal, SqliteJournal):
                self._wait_for_deletions(journal)
            return asyncio.run(self._look(journal))

    @staticmethod
    def _wait_for_deletions(journal: SqliteJournal) -> None:
        """What a killed process left of a long run is deleted in the background."""
        query = "SELECT COUNT(*) FROM runs WHERE tenant IN (?, ?)"
        end = time.monotonic() + 20
        with closing(sqlite3.connect(f"file:{journal.path}?mode=ro", uri=True)) as connection:
            while connection.execute(query, (DELETED, UNFINISHED)).fetchone()[0]:
                assert time.monotonic() < end
                time.sleep(0.005)

    @staticmethod
    async def _look(journal: Store) -> str:
        runs = [entry.run for entry in await journal.runs()]
        records = {run: [repr(one) for one in await journal.read(run)] for run in runs}
        titles = [(one.session, one.title) for one in await Sessions(journal).list()]
        snapshot = await journal.load_snapshot("ada") is not None
        orphans = await journal.count_orphans()
        return json.dumps([records, sorted(titles), snapshot, orphans])

    def kill_at(self, change: str, statement: int) -> bool:
        """Make a change in a child that is killed at a statement; False if it ended before."""
        child = os.fork()
        if not child:
            journal = self.open()
            self.killer.left = statement
            try:
                asyncio.run(CHANGES[change](journal))  # type: ignore[arg-type]
            except BaseException:  # noqa: BLE001  # REASON: the parent reports it
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) or status == 0
        return os.WIFSIGNALED(status)


def main(address: str, change: str, size: str = "") -> None:
    # A piece that ended after some time would have another number of statements on a busy machine.
    hidden_runs.PIECE = math.inf
    if size == "long":  # each run counts as a long one, and a piece ends after its first statement
        hidden_runs.SHORT_RUN = 0
        hidden_runs.PIECE = 0.0
        hidden_runs._ROWS_AT_ONCE = 2
    lives = Lives(address)
    lives.begin()
    before = lives.look()
    assert not lives.kill_at(change, -1)
    after = lives.look()
    assert before != after
    found = []
    statement = 0
    while True:
        lives.begin()
        was_killed = lives.kill_at(change, statement)
        state = lives.look()
        assert state in (before, after), f"killed at {statement}: {state}"
        found.append(state == after)
        if not was_killed:
            break
        statement += 1
    # It is not there until the commit, and there from then on.
    assert found == sorted(found), found
    assert not found[0]
    assert found[-1]
    print(len(found) - 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
