"""The address of a journal: the meaning of each form, and the errors for other texts."""

from __future__ import annotations

import asyncio
import gc
import os
import traceback
from pathlib import Path
from shutil import rmtree

import pytest
from tests.postgres_server import PostgresServer

from holdfast import Agent, ConfigurationError
from holdfast.errors import JournalError
from holdfast.journal.journal_errors import JournalBusyError, JournalStorageError
from holdfast.journal.memory import MemoryJournal
from holdfast.journal.sqlite.sqlite_journal import SqliteJournal
from holdfast.journal.url import open_journal
from holdfast.testing import ScriptedModel
from holdfast.testing.journal_conformance import make_turn_opened


def test_memory_is_an_address() -> None:
    one, two = open_journal("memory:"), open_journal("memory:")
    assert isinstance(one, MemoryJournal)
    assert one is not two


async def test_a_file_from_the_root_and_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for url, name in (
        (f"sqlite:///{tmp_path}/one.db", "one.db"),
        ("sqlite:///two.db", "two.db"),
        ("sqlite:///a%20b%25.db", "a b%.db"),
    ):
        journal = open_journal(url)
        assert isinstance(journal, SqliteJournal)
        assert journal.path == str(tmp_path / name)
        journal.close()


async def test_agents_that_name_the_same_file_share_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/talk.db"
    one = Agent(ScriptedModel("Hello, Ada!"), journal=url)
    two = Agent(ScriptedModel("You are Ada."), journal=url)
    await one.run("I am Ada.", session="ada")
    assert len((await two.run("Who am I?", session="ada")).messages) == 4
    del one, two
    await opened_again(tmp_path / "talk.db")  # nothing references it


async def opened_again(file: Path) -> None:
    """Wait until the file is free: the thread of the journal may use it for a moment longer."""
    async with asyncio.timeout(60):
        while True:
            gc.collect()
            try:
                return SqliteJournal(file).close()
            except JournalBusyError:
                await asyncio.sleep(0.01)


def test_a_journal_that_was_closed_is_opened_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/talk.db"
    first = open_journal(url)
    assert open_journal(url) is first
    first.close()
    second = open_journal(url)
    assert second is not first
    second.close()


@pytest.mark.parametrize("is_made_again", [True, False])
async def test_a_file_in_the_place_of_a_deleted_one_is_opened(
    tmp_path: Path, is_made_again: bool
) -> None:
    folder = tmp_path / "talks"
    url = f"sqlite:///{folder}/talk.db"
    folder.mkdir()
    first = open_journal(url)
    rmtree(folder)
    folder.mkdir()
    if is_made_again:
        SqliteJournal(folder / "talk.db").close()
    second = open_journal(url)
    assert second is not first
    assert open_journal(url) is second
    await second.append("ada", make_turn_opened(1))
    with pytest.raises(JournalStorageError, match=r"was (deleted|replaced) while it was open"):
        await first.append("ada", make_turn_opened(1))
    assert await second.read("ada")
    first.close()
    second.close()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("talk.db", "sqlite:///file.db"),
        ("", "sqlite:///file.db"),
        ("C:\\talk.db", "sqlite:///file.db"),
        ("mysql://ada:hush@db/talk", "mysql: is not a supported scheme"),
        ("sqlite://talk.db", "names no file"),
        ("sqlite:", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:///a%00.db", "names no file"),
        ("sqlite:///etc/talk.db", "four slashes: sqlite:////etc/talk.db"),
        ("postgresql://ada:hush@db:port/talk", "not an address of a PostgreSQL database"),
    ],
)
def test_an_invalid_address_is_reported_without_its_password(url: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Agent(ScriptedModel("x"), journal=url)
    assert said in str(caught.value)
    assert "hush" not in "".join(traceback.format_exception(caught.value))


def test_a_folder_that_is_missing_is_an_error_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="folder does not exist"):
        Agent(ScriptedModel("x"), journal=f"sqlite:///{tmp_path}/none/talk.db")


def test_a_value_that_is_neither_an_address_nor_a_journal_is_reported(tmp_path: Path) -> None:
    for given in (tmp_path, 5, object(), MemoryJournal):
        with pytest.raises(ConfigurationError, match="journal: must be a journal or its address"):
            Agent(ScriptedModel("x"), journal=given)  # type: ignore[arg-type]


def test_no_repr_holds_the_password(postgres: PostgresServer) -> None:
    url = f"postgresql://postgres:hush@127.0.0.1:{postgres.port}/postgres"
    agent = Agent(ScriptedModel("x"), journal=url)
    shown = repr((agent, agent._engine.session_pool.journal, agent.describe()))
    assert "hush" not in shown


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_opens_a_journal_of_its_own(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    journal = open_journal(url)
    asyncio.run(journal.runs())
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = len(asyncio.run(open_journal(url).runs()))
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    asyncio.run(journal.runs())
    journal.close()
