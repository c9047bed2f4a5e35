"""A database that is busy, full, away or killed: told as unavailable, and nothing is half done."""

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.postgres_server import Proxy

from registration.store import (
    Database,
    DatabaseUnavailable,
    StatementFailed,
    Transaction,
    open_database,
)
from registration.store.errors import ConnectionLost, TransactionConflict

if TYPE_CHECKING:
    from tests.postgres_server import PostgresServer

PUT = "INSERT INTO effects (key, kind, outcome_json, created_at) VALUES (?, 'test', '{}', 0)"


def put(*keys: str) -> Any:
    def work(tx: Transaction) -> None:
        for key in keys:
            tx.execute(PUT, key)

    return work


def read_keys(tx: Transaction) -> list[str]:
    return [row["key"] for row in tx.execute("SELECT key FROM effects ORDER BY key")]


def lock_with(path: Path) -> sqlite3.Connection:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return other


# SQLite


async def test_another_writer_makes_it_busy_and_delays_no_reader(tmp_path: Path) -> None:
    path = tmp_path / "busy.db"
    database = await open_database(f"sqlite:///{path}", patience=0.05)
    await database.transact(put("before"))
    other = lock_with(path)
    with pytest.raises(DatabaseUnavailable, match="another program is writing") as busy:
        await database.transact(put("lost"))
    assert (busy.value.landed, busy.value.retryable) == ("no", True)
    assert await database.read(read_keys) == ["before"]
    other.execute("ROLLBACK")
    other.close()
    await database.transact(put("after"))
    assert await database.read(read_keys) == ["after", "before"]
    await database.close()


async def test_a_full_disk_undoes_the_transaction(tmp_path: Path) -> None:
    database = await open_database(f"sqlite:///{tmp_path}/full.db")
    await database.transact(put("before"))
    await database.transact(lambda tx: tx.execute("PRAGMA max_page_count = 1"))  # no page more
    with pytest.raises(DatabaseUnavailable, match="disk is full"):
        await database.transact(put(*(f"{n:0500}" for n in range(2000))))
    assert await database.transact(read_keys) == ["before"]
    await database.transact(lambda tx: tx.execute("PRAGMA max_page_count = 100000"))
    await database.transact(put("after"))
    assert await database.read(read_keys) == ["after", "before"]
    await database.close()


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("This is a text and no database." * 100)
    with pytest.raises(DatabaseUnavailable, match="no SQLite database"):
        await open_database(f"sqlite:///{tmp_path}/text.db")
    with pytest.raises(DatabaseUnavailable, match="cannot be opened"):
        await open_database(f"sqlite:///{tmp_path}/missing/folder.db")


@pytest.mark.slow  # takes half a second or more
async def test_who_waits_too_long_for_a_turn_has_done_nothing(tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    database = await open_database(f"sqlite:///{path}", patience=0.1)
    held, may_end = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def hold(tx: Transaction) -> None:
        loop.call_soon_threadsafe(held.set)
        assert may_end.wait(60)  # longer than the limit, so that the next one never begins

    slow = asyncio.ensure_future(database.transact(hold))
    await held.wait()
    with pytest.raises(DatabaseUnavailable, match="too many transactions") as waited:
        await database.transact(put("lost"))
    assert waited.value.landed == "no"
    with pytest.raises(DatabaseUnavailable, match="does not answer"):
        await slow
    may_end.set()
    keys: list[str] | None = None
    while keys is None:  # the one before ends a moment later
        with suppress(DatabaseUnavailable):
            keys = await database.transact(read_keys)
    assert keys == []
    await database.close()


async def test_a_closed_database_says_so(database: Database) -> None:
    await database.close()
    with pytest.raises(DatabaseUnavailable, match="closed"):
        await database.transact(read_keys)


# Repetition


@pytest.mark.parametrize("error", [TransactionConflict, ConnectionLost])
async def test_a_transaction_is_repeated_when_the_database_asks(
    database: Database, error: type[Exception]
) -> None:
    calls = []

    def work(tx: Transaction) -> str:
        calls.append(1)
        tx.execute(PUT, f"attempt-{len(calls)}")
        if len(calls) < 3:
            raise error
        return "done"

    assert await database.transact(work) == "done"
    assert await database.read(read_keys) == ["attempt-3"]


@pytest.mark.slow  # takes half a second or more
async def test_the_repetition_ends(database: Database) -> None:
    def work(tx: Transaction) -> None:
        raise TransactionConflict

    with pytest.raises(DatabaseUnavailable, match="too many write"):
        await database.transact(work)


@pytest.mark.slow  # takes half a second or more
async def test_two_that_block_each_other_are_both_done(database: Database) -> None:
    await database.transact(put("a", "b"))

    def change(first: str, second: str) -> Any:
        def work(tx: Transaction) -> None:
            for key in (first, second):
                tx.execute("UPDATE effects SET created_at = created_at + 1 WHERE key = ?", key)
                time.sleep(0.02)

        return work

    both = [database.transact(change(*order)) for order in (("a", "b"), ("b", "a"))]
    await asyncio.gather(*both)
    rows = await database.read(lambda tx: tx.execute("SELECT created_at FROM effects"))
    assert [row["created_at"] for row in rows] == [2, 2]


async def test_an_error_that_was_swallowed_is_no_success(database: Database) -> None:
    def work(tx: Transaction) -> None:
        tx.execute(PUT, "a")
        with suppress(StatementFailed):
            tx.execute("SELECT nothing FROM nowhere")
        if "sqlite" in type(tx._connection).__module__:
            raise StatementFailed("as PostgreSQL says at the commit")

    with pytest.raises(StatementFailed):
        await database.transact(work)
    assert await database.read(read_keys) == []


# PostgreSQL


@pytest.mark.slow  # starts a program or a server
async def test_a_wire_that_is_cut_anywhere_leaves_no_half(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    plain = await open_database(url)
    async with Proxy(postgres.port) as proxy:
        database = await open_database(
            url.replace(f":{postgres.port}/", f":{proxy.port}/"), connections=1
        )
        unknown = 0
        for size in range(1, 160, 3):
            first, second = f"{size:03}-a", f"{size:03}-b"
            proxy.cut_after(size)
            try:
                await database.transact(put(first, second))
                expected: tuple[int, ...] = (2,)
            except DatabaseUnavailable as error:
                unknown += error.landed == "unknown"
                expected = (0, 2) if error.landed == "unknown" else (0,)
            found = {first, second} & set(await plain.read(read_keys))
            assert len(found) in expected
        assert proxy.cuts > 10
        assert unknown
        await database.close()
    await plain.close()


@pytest.mark.slow  # kills the server
async def test_a_restarted_server_is_used_again(postgres: PostgresServer) -> None:
    database = await open_database(postgres.new_url(), patience=1)
    await asyncio.gather(*(database.transact(put(f"a{n}")) for n in range(8)))
    postgres.kill()
    with pytest.raises(DatabaseUnavailable) as away:
        await database.transact(put("lost"))
    assert away.value.landed == "no"
    postgres.start()
    await asyncio.gather(*(database.transact(put(f"b{n}")) for n in range(8)))
    assert len(await database.read(read_keys)) == 16
    postgres.kill()
    postgres.start()
    await database.transact(put("c"))
    await database.close()


@pytest.mark.slow  # starts a program or a server
async def test_a_silent_server_is_given_up(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    async with Proxy(postgres.port) as proxy:
        through = url.replace(f":{postgres.port}/", f":{proxy.port}/")
        database = await open_database(through, patience=0.2, connections=1)
        await database.transact(put("before"))
        proxy.silence()
        with pytest.raises(DatabaseUnavailable, match="does not answer") as silent:
            await database.transact(put("doubtful"))
        assert silent.value.landed == "unknown"
        await database.transact(put("after"))
        assert set(await database.read(read_keys)) >= {"before", "after"}
        await database.close()


async def test_a_wrong_password_is_not_shown(postgres: PostgresServer) -> None:
    url = f"postgresql://somebody:hunter2@127.0.0.1:{postgres.port}/nowhere"
    with pytest.raises(DatabaseUnavailable) as refused:
        await open_database(url)
    assert "hunter2" not in f"{refused.value!r} {refused.value.__context__!r}"


# kill -9

WRITER = """
import asyncio, sys
from registration.store import open_database
PUT = "INSERT INTO effects (key, kind, outcome_json, created_at) VALUES (?, 'test', '{}', 0)"

async def main(url, run):
    database = await open_database(url)
    for n in range(100_000):
        def work(tx):
            tx.execute(PUT, f"{run}-{n:06}-a")
            tx.execute(PUT, f"{run}-{n:06}-b")
        await database.transact(work)
        print(f"{run}-{n:06}", flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


def write_until_killed(url: str, run: int) -> list[str]:
    """Run a process that writes, kill it after some transactions, return what it acknowledged."""
    command = [sys.executable, "-c", WRITER, url, str(run)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        enough = random.Random(run).randint(1, 40)
        lines = [writer.stdout.readline().strip() for _ in range(enough)]
        writer.send_signal(signal.SIGKILL)
        return [*lines, *writer.stdout.read().split()]


@pytest.mark.slow  # kills processes
async def test_kill_9_loses_nothing_that_was_acknowledged(url: str) -> None:
    acknowledged: list[str] = []
    for run in range(3):
        acknowledged += await asyncio.to_thread(write_until_killed, url, run)
    database = await open_database(url)
    stored = set(await database.read(read_keys))
    assert {f"{one}-{part}" for one in acknowledged for part in "ab"} <= stored
    halves = [key for key in stored if (key[:-1] + ("b" if key[-1] == "a" else "a")) not in stored]
    assert halves == []
    await database.close()


async def test_a_command_beside_the_service_leaves_its_log_alone(tmp_path: Path) -> None:
    """POSIX drops all locks of a process on a file when it closes any descriptor of it.

    SQLite in the other process then took itself for the last one and deleted the log in use.
    """
    path = tmp_path / "club.db"
    database = await open_database(f"sqlite:///{path}")
    together = threading.Barrier(2)  # so that both readers open the file

    def read(_: Transaction) -> None:
        together.wait(10)

    await database.transact(put("before"))
    await asyncio.gather(database.read(read), database.read(read))
    look = f"import sqlite3; c = sqlite3.connect({str(path)!r}); c.execute('SELECT 1 FROM effects'); c.close()"
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", look], check=True)
    await database.transact(put("after"))
    with sqlite3.connect(path) as other:
        keys = {row[0] for row in other.execute("SELECT key FROM effects")}
    other.close()
    await database.close()
    assert keys == {"before", "after"}
