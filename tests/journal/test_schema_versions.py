"""A newer process migrates a journal, and an older one refuses it, whichever of them started first."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest
from tests.postgres_server import PostgresServer

from holdfast import Agent, PostgresJournal, Reply, SqliteJournal, ToolCall, tool
from holdfast.errors import JournalError, JournalVersionError
from holdfast.journal.port import Journal
from holdfast.journal.service_store.service_store_sqlite import SqliteServiceStore
from holdfast.journal.sqlite.read_only import ReadOnlySqliteJournal
from holdfast.testing import ScriptedModel
from holdfast.testing.journal_conformance import make_turn_opened, read_keys

pytestmark = pytest.mark.anyio

REFUSED = r"has version 2, and this Holdfast (reads|knows) up to 1.*Update Holdfast"


@contextmanager
def newer(act: str, address: str) -> Iterator[subprocess.Popen[str]]:
    """Run a Holdfast that knows one version more."""
    command = [sys.executable, "-m", "tests.journal.newer_holdfast", act, address]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


async def ask_newer(act: str, address: str) -> str:
    """Run a newer Holdfast to its end; return what it says."""
    with newer(act, address) as process:
        said, _ = await asyncio.to_thread(process.communicate, timeout=60)
        return said.strip()


def digest_files(folder: Path) -> dict[str, bytes]:
    """Return a digest of each file, without the lock file, which names a process."""
    return {
        one.name: sha256(one.read_bytes()).digest()
        for one in folder.glob("talk.db*")
        if one.suffix != ".lock"
    }


class Working:
    """An agent of this Holdfast, in the middle of a turn: its tool ends when the test says so."""

    def __init__(self, journal: Journal) -> None:
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()

        @tool(effect="read")
        async def look() -> str:
            """Look."""
            self.begun.set()
            await self.may_end.wait()
            return "seen by the older one"

        model = ScriptedModel(Reply((ToolCall("c", "look", "{}"),)), "All done.")
        self.agent = Agent(model, name="worker", tools=[look], journal=journal)

    async def begin(self) -> asyncio.Task[str]:
        """Begin the turn; return once the tool runs."""
        turn = asyncio.create_task(self._run())
        await self.begun.wait()
        return turn

    async def _run(self) -> str:
        return (await self.agent.run("Look.", session="ada")).text


@pytest.mark.slow  # starts processes
async def test_an_older_process_on_postgresql_ends_its_turn_when_a_newer_one_migrates(
    postgres: PostgresServer, url: str
) -> None:
    with PostgresJournal(url, lease=1) as journal:
        working = Working(journal)
        turn = await working.begin()
        before = await read_keys(journal, "ada")
        assert await ask_newer("open", url) == "ready"
        working.may_end.set()
        with pytest.raises(JournalVersionError, match=REFUSED):
            await turn
        with pytest.raises(JournalVersionError, match=REFUSED):
            await journal.append("eve", make_turn_opened(1))
        with pytest.raises(JournalVersionError, match=REFUSED):
            await journal.read("ada")
    # It has written nothing, and a newer process continues its turn.
    saved = "SELECT key FROM holdfast_records ORDER BY run_id, seq"
    assert [key for (key,) in postgres.rows(url, saved)] == before
    assert await ask_newer("finish", url) == "Finished."
    closed = f"SELECT count(*) FROM ({saved}) AS s WHERE key = 't1.closed'"
    assert postgres.rows(url, closed) == [(1,)]
    assert postgres.rows(url, "SELECT DISTINCT worth FROM holdfast_runs") == [(7,)]


@pytest.mark.slow  # starts a program or a server
async def test_an_older_process_on_postgresql_that_starts_later_changes_nothing(
    postgres: PostgresServer, url: str
) -> None:
    with PostgresJournal(url) as journal:
        await journal.append("ada", make_turn_opened(1))
    assert await ask_newer("open", url) == "ready"
    state = "SELECT r::text FROM holdfast_runs r UNION ALL SELECT r::text FROM holdfast_records r"
    before = postgres.rows(url, state)
    for create in (True, False):
        with PostgresJournal(url, create=create) as journal:
            with pytest.raises(JournalVersionError, match=REFUSED):
                await journal.append("ada", make_turn_opened(2))
            with pytest.raises(JournalVersionError, match=REFUSED):
                await journal.claim("ada")
    assert postgres.rows(url, state) == before


@pytest.mark.slow  # starts processes
async def test_appends_beside_a_migration_are_saved_before_it_or_refused(
    postgres: PostgresServer, url: str
) -> None:
    saved: list[str] = []

    async def write(journal: PostgresJournal, run: str) -> None:
        for number in range(1, 100_000):
            await journal.append(run, make_turn_opened(number))
            saved.append(f"{run}.{number}")

    with PostgresJournal(url) as first, PostgresJournal(url) as second:
        await first.append("begin", make_turn_opened(1))
        places = [
            (one, f"{name}{n}") for one, name in ((first, "a"), (second, "b")) for n in range(8)
        ]
        asked = [ask_newer("open", url) for _ in range(2)]
        ends = await asyncio.gather(
            *asked, *[write(*place) for place in places], return_exceptions=True
        )
    assert ends[:2] == ["ready", "ready"]
    for end in ends[2:]:
        assert isinstance(end, JournalVersionError), end
        assert re.search(REFUSED, str(end))
    rows = postgres.rows(url, "SELECT sum(records), count(*) FROM holdfast_runs")
    assert int(str(rows[0][0])) == len(saved) + 1  # what was acknowledged, and nothing more
    assert len(saved) > 16


@pytest.mark.slow  # starts a program or a server
async def test_a_migration_of_postgresql_that_fails_leaves_the_journal_to_the_older_process(
    postgres: PostgresServer, url: str
) -> None:
    with PostgresJournal(url) as journal:
        working = Working(journal)
        turn = await working.begin()
        assert "NONSENSE" in await ask_newer("broken", url)
        working.may_end.set()
        assert await turn == "All done."
    assert postgres.rows(url, "SELECT version FROM holdfast_journal") == [(1,)]


@pytest.mark.slow  # takes half a second or more
async def test_a_newer_process_waits_outside_while_an_older_one_has_a_file(tmp_path: Path) -> None:
    path = tmp_path / "talk.db"
    address = f"sqlite:///{path}"
    with SqliteJournal(path) as journal:
        working = Working(journal)
        turn = await working.begin()
        assert "JournalBusyError" in await ask_newer("open", address)
        working.may_end.set()
        assert await turn == "All done."
        keys = await read_keys(journal, "ada")
    reader = ReadOnlySqliteJournal(path)
    assert await read_keys(reader, "ada") == keys
    with newer("open", address) as process:  # it migrates the file, and has it open
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(JournalVersionError, match=REFUSED):
            await reader.read("ada")
    reader.close()
    before = digest_files(tmp_path)
    with pytest.raises(JournalVersionError, match=REFUSED):
        SqliteJournal(path)
    assert digest_files(tmp_path) == before
    assert await ask_newer("open", address) == "ready"
    assert keys[-1] == "t1.closed"
    with sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True) as connection:
        found = connection.execute(
            "SELECT key, worth FROM records JOIN runs ON runs.id = run ORDER BY seq"
        )
        assert found.fetchall() == [(key, 7) for key in keys]
    connection.close()


async def test_a_migration_of_a_file_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "talk.db"
    with SqliteJournal(path) as journal:
        await journal.append("ada", make_turn_opened(1))
    assert "NONSENSE" in await ask_newer("broken", f"sqlite:///{path}")
    with SqliteJournal(path) as journal:
        assert await read_keys(journal, "ada") == ["t1"]


async def test_a_file_of_an_older_version_is_not_read_beside_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "talk.db"
    with SqliteJournal(path) as journal:
        await journal.append("ada", make_turn_opened(1))
    said = await ask_newer("read", f"{path}")
    assert "has version 1, and this Holdfast reads version 2" in said


async def test_an_older_service_refuses_a_store_that_was_migrated_beside_it(tmp_path: Path) -> None:
    store = SqliteServiceStore(tmp_path / "talk.db")
    assert not await store.has_keys()
    assert await ask_newer("store", str(tmp_path / "talk.db")) == "ready"
    for act in (store.has_keys, lambda: store.probe(1.0)):
        with pytest.raises(JournalVersionError, match=REFUSED):
            await act()
    store.close()
    with pytest.raises(JournalError, match=REFUSED):
        SqliteServiceStore(tmp_path / "talk.db")
