"""Opening a journal: on Windows, on a full disk, interrupted, and beside a silent server or process."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.postgres_server import PostgresServer

from holdfast import PostgresJournal, SqliteJournal
from holdfast.journal.journal_errors import JournalStorageError
from holdfast.journal.postgres import postgres_migration
from holdfast.journal.postgres.postgres_failures import PostgresAddress
from holdfast.journal.sqlite.run_heads import WriterConnection
from holdfast.worker.engines import postgres_engine
from holdfast.worker.engines.postgres_engine import PostgresEngine

# The process has the modules of Windows: no flags of Unix, no `fcntl`, no fork, and a `msvcrt`.

PROGRAM = """
import asyncio, concurrent.futures, multiprocessing, os, pathlib, platform, random, select, signal
import shutil, socket, sqlite3, ssl, subprocess, sys, tempfile, threading, types, uuid
import msgspec
from urllib.request import getproxies

locked = []

def locking(descriptor, mode, count):
    locked.append((mode, os.lseek(descriptor, 0, os.SEEK_CUR), count))

for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY", "fork", "register_at_fork"):
    delattr(os, name)
sys.modules["fcntl"] = None
sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK=2, LK_UNLCK=0)
sys.platform = "win32"

from holdfast import Agent
from holdfast.testing import ScriptedModel
from holdfast.journal import SqliteJournal

for answer in ("one", "two"):
    with SqliteJournal(sys.argv[1]) as journal:
        agent = Agent(ScriptedModel(answer), journal=journal)
        result = asyncio.run(agent.run("go", session="ada"))
        print(len(result.messages), result.output)
print(locked)
"""


@pytest.mark.slow  # starts a program or a server
def test_a_journal_opens_where_unix_is_missing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "talk.db")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    first, second, locked = done.stdout.splitlines()
    assert (first, second) == ("2 one", "4 two")
    assert locked == str([(2, 4096, 1), (0, 4096, 1)] * 2)


class Small(WriterConnection):
    """A file that has room for so few pages, as on a full disk."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.execute("PRAGMA max_page_count = 2")


def test_a_full_disk_is_an_error_that_says_to_open_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "talk.db"
    with monkeypatch.context() as patched:
        patched.setattr("holdfast.journal.sqlite.opening.WriterConnection", Small)
        with pytest.raises(JournalStorageError) as caught:
            SqliteJournal(path)
    assert caught.value.problem == "the disk is full"
    assert caught.value.fix == "Free some space, and open it again"
    SqliteJournal(path).close()


class Interrupted(Future[None]):
    def result(self, timeout: float | None = None) -> None:
        super().result(timeout)  # the file is open, and then
        raise KeyboardInterrupt


def test_a_journal_whose_opening_was_interrupted_can_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "talk.db"
    before = set(threading.enumerate())
    with monkeypatch.context() as patched:
        patched.setattr("holdfast.journal.sqlite.writer.Future", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            SqliteJournal(path)
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
    SqliteJournal(path).close()


async def test_a_cancelled_connection_to_a_silent_server_does_not_delay_closing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        journal = PostgresJournal(f"postgresql://a@127.0.0.1:{port}/x?connect_timeout=3600")
        asking = asyncio.ensure_future(journal.runs())
        connection, _ = await asyncio.to_thread(silent.accept)
        with connection:
            asking.cancel()
            await asyncio.wait([asking])
            assert asking.cancelled()
            closing = threading.Thread(target=journal.close, daemon=True)
            closing.start()
            await asyncio.to_thread(closing.join, 20)
            assert not closing.is_alive()


# A process that stops while it makes the tables must not keep others from opening the journal.

JOURNAL_LOCK, ENGINE_LOCK = postgres_migration.LOCK, postgres_engine.SCHEMA_LOCK


@pytest.fixture
def short_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_migration, "LONGEST_SILENCE", 0.8)


async def open_journal(url: str) -> None:
    with PostgresJournal(url) as journal:
        assert await journal.read("nothing") == []


async def open_engine(url: str) -> None:
    engine = PostgresEngine(PostgresAddress(url))
    try:
        await engine.open()
    finally:
        await engine.close()


@pytest.mark.slow  # takes half a second or more
@pytest.mark.usefixtures("short_silence")
@pytest.mark.parametrize("lock", [JOURNAL_LOCK, ENGINE_LOCK])
async def test_a_process_that_holds_the_lock_and_is_silent_loses_it(lock: int, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as stopped:
        stopped.execute("SELECT pg_advisory_lock(%s)", (lock,))
        async with asyncio.timeout(60):
            await (open_journal(url) if lock == JOURNAL_LOCK else open_engine(url))
        with pytest.raises(psycopg.OperationalError, match="terminating connection"):
            stopped.execute("SELECT 1")


@pytest.mark.slow  # starts a program or a server
@pytest.mark.usefixtures("short_silence")
async def test_a_process_that_works_keeps_the_lock_however_long_it_takes(
    url: str, postgres: PostgresServer
) -> None:
    with psycopg.connect(url, autocommit=True) as working:
        statement = "SELECT pg_advisory_lock(%s), pg_sleep(1.2)"
        work = asyncio.create_task(asyncio.to_thread(working.execute, statement, (JOURNAL_LOCK,)))
        held = f"SELECT 1 FROM pg_locks WHERE granted AND objid = {JOURNAL_LOCK}"
        while not postgres.rows(url, held):
            await asyncio.sleep(0.01)
        opened = asyncio.create_task(open_journal(url))
        await work
        assert not opened.done()
        working.execute("SELECT pg_advisory_unlock(%s)", (JOURNAL_LOCK,))  # nobody has ended it
        async with asyncio.timeout(60):
            await opened
