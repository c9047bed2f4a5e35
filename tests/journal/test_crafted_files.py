"""Files and exports that were crafted with fitting checksums are refused, and harm no other session."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from tests.journal_rows import compute_checksums_again
from tests.postgres_server import PostgresServer

from holdfast import Agent, MemoryJournal, SqliteJournal
from holdfast.cli.main import main
from holdfast.errors import ConfigurationError, JournalCorruptError, JournalVersionError
from holdfast.journal.port import Record
from holdfast.journal.sqlite.writer import WriterJob
from holdfast.journal.url import open_journal
from holdfast.sessions.session_export import _add_checksum, _ChecksumChain
from holdfast.testing import ScriptedModel
from holdfast.testing.journal_conformance import make_turn_opened, read_keys

# Views, triggers, odd times and empty keys in a file.

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"
TRIGGER = "CREATE TRIGGER {} AFTER INSERT ON records BEGIN DELETE FROM records; END"


async def make(path: Path) -> list[str]:
    with SqliteJournal(path) as journal:
        agent = Agent(ScriptedModel("hi", "ho"), journal=journal)
        await agent.run("hello", session="ada")
        await agent.sessions.rename("ada", "Ada")
        return [line async for line in agent.sessions.export("ada")]


def write(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def replace_table(path: Path, name: str) -> None:
    write(path, f"ALTER TABLE {name} RENAME TO old", f"CREATE VIEW {name} AS {ENDLESS}")


def add_hidden_table(path: Path) -> None:
    """Behind a name that looks like one of SQLite's own tables."""
    write(
        path,
        "CREATE TABLE hidden_table (x)",
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET name = 'sqlite_stat9', tbl_name = 'sqlite_stat9',"
        " sql = 'CREATE TABLE sqlite_stat9 (x)' WHERE name = 'hidden_table'",
    )


CRAFTED: list[Callable[[Path], None]] = [
    lambda path: write(path, f"CREATE VIEW v AS {ENDLESS}"),
    lambda path: replace_table(path, "snapshots"),
    lambda path: replace_table(path, "identity"),
    lambda path: write(path, TRIGGER.format("t")),
    add_hidden_table,
    lambda path: write(path, "DROP INDEX records_by_key"),
    lambda path: write(path, "DROP INDEX runs_open"),
    lambda path: write(path, "ALTER TABLE records ADD COLUMN more TEXT"),
    lambda path: write(path, "CREATE TABLE more (x)"),
    lambda path: write(path, "CREATE UNIQUE INDEX more ON records (at)"),
]


@pytest.mark.parametrize("craft", CRAFTED)
async def test_another_schema_is_refused_and_not_used(
    tmp_path: Path, craft: Callable[[Path], None]
) -> None:
    path = tmp_path / "talk.db"
    await make(path)
    craft(path)
    before = path.read_bytes()
    async with asyncio.timeout(60):
        with pytest.raises(JournalVersionError, match="does not have the schema of a journal"):
            await asyncio.to_thread(SqliteJournal, path)
    assert path.read_bytes() == before


async def test_the_tables_of_analyze_are_no_other_schema(tmp_path: Path) -> None:
    path = tmp_path / "talk.db"
    await make(path)
    write(path, "ANALYZE")
    with SqliteJournal(path) as journal:
        assert len(await journal.read("ada")) == 3


ODD_TIMES = ["9e999", "-9e999", "1e300", "9e15", "-9e15"]


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("time", ODD_TIMES)
async def test_an_odd_time_in_a_file_is_refused(tmp_path: Path, time: str) -> None:
    """Also with a checksum that fits."""
    path = tmp_path / "talk.db"
    await make(path)
    write(path, f"UPDATE records SET at = {time} WHERE seq = 2")
    write(path, f"UPDATE runs SET changed_at = {time}")
    compute_checksums_again(path)
    with SqliteJournal(path) as journal:
        for reading in (journal.read("ada"), journal.read_lines("ada"), journal.runs()):
            with pytest.raises(JournalCorruptError, match=r"run 'ada.*its time is"):
                await reading
        assert len(await journal.read("ada/:title")) == 1
    for words in (["journal", "verify"], ["journal", "export"], ["sessions", "list"]):
        assert await asyncio.to_thread(main, [*words, str(path)]) == 1


@pytest.mark.parametrize("time", [float("inf"), float("nan"), 1e300, -9e15])
async def test_an_odd_time_is_not_saved(tmp_path: Path, time: float) -> None:
    with SqliteJournal(tmp_path / "talk.db") as journal:
        with pytest.raises(ConfigurationError, match=r"event\.at"):
            await journal.append("ada", make_turn_opened(1, at=time))
        await journal.append("ada", make_turn_opened(1))


def rewrite(lines: list[str], number: int, field: str, value: object) -> list[str]:
    """Change one field of one line of an export, with checksums that fit."""
    chain, changed = _ChecksumChain(), []
    for place, line in enumerate(lines):
        fields: dict[str, Any] = json.loads(line)
        del fields["sum"]
        if place == number:
            fields[field] = value
        changed.append(_add_checksum(chain, json.dumps(fields, separators=(",", ":"))))
    return changed


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("key", ""),
        ("key", "t0"),
        ("key", " t1"),
        ("at", 1e300),
        ("at", 9e15),
        ("seq", 0),
        ("seq", 2**80),
        ("run", ""),
        ("run", "bob"),
        ("digest", "zz"),
        ("type", "turn_resumed"),
        ("schema", True),
    ],
)
async def test_a_crafted_line_is_refused(tmp_path: Path, field: str, value: object) -> None:
    exported = await make(tmp_path / "talk.db")
    for line in range(4):
        lines = rewrite(exported, line, field, value)
        journal = MemoryJournal()
        with pytest.raises((JournalCorruptError, ConfigurationError)):
            await Agent(ScriptedModel(), journal=journal).sessions.import_(lines)
        assert list(await journal.runs()) == [], f"line {line}"


@pytest.mark.slow  # takes half a second or more
async def test_a_changed_snapshot_is_not_used(tmp_path: Path) -> None:
    """A long session is opened from a snapshot of its history, which no record can correct."""
    path = tmp_path / "talk.db"
    with SqliteJournal(path) as journal:
        agent = Agent(ScriptedModel(*["the truth"] * 220), journal=journal)
        for _ in range(210):
            await agent.run("hello", session="ada")
        assert await journal.load_snapshot("ada") is not None
    write(path, "UPDATE snapshots SET state = CAST(replace(state, 'truth', 'lying') AS BLOB)")
    with SqliteJournal(path) as journal:
        assert b"lying" in (await journal.load_snapshot("ada") or b"")
        result = await Agent(ScriptedModel("end"), journal=journal).run("hello", session="ada")
        assert not any("lying" in message.text for message in result.messages)


# An import with values that no journal stores.


def add_checksums(lines: list[dict[str, object]]) -> list[str]:
    """Lines as an export has them, whatever they say."""
    last, found = "", []
    for line in lines:
        text = json.dumps(line, separators=(",", ":"))
        last = blake2b((last + text).encode(), digest_size=8).hexdigest()
        found.append(f'{text[:-1]},"sum":"{last}"}}')
    return found


@pytest.mark.parametrize(
    "made_up",
    [
        {"digest": "\ud800"},
        {"at": float("nan")},
        {"at": float("inf")},
        {"run": "\ud800"},
        {"key": "t1\ud800"},
        {"at": "\ud800"},
        {"seq": "\ud800"},
    ],
)
async def test_a_forged_import_is_refused_and_saves_nothing(
    tmp_path: Path, made_up: dict[str, object]
) -> None:
    with SqliteJournal(tmp_path / "talk.db") as journal:
        agent = Agent(ScriptedModel("Hi"), journal=journal)
        await agent.run("Hi", session="ada")
        lines = [json.loads(line) async for line in agent.sessions.export("ada")]
        for line in lines:
            del line["sum"]
        lines[0].update(made_up)
        with pytest.raises((ConfigurationError, JournalCorruptError)):
            await agent.sessions.import_(add_checksums(lines), session="evil")
        assert [entry.run for entry in await journal.runs()] == ["ada"]


async def test_appends_beside_a_forged_import_are_saved(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "talk.db") as journal:
        begun, blocker = threading.Event(), threading.Event()

        def hold(_: object) -> None:
            begun.set()
            blocker.wait()

        journal._writer.submit(WriterJob(hold, writes=False))
        begun.wait()  # what is queued from now on becomes one group
        acts = [
            asyncio.ensure_future(journal.append("ada", make_turn_opened(1))),
            asyncio.ensure_future(
                journal.restore({"evil": [Record(make_turn_opened(1), "\ud800")]})
            ),
            asyncio.ensure_future(journal.append("ada", make_turn_opened(2))),
        ]
        await asyncio.sleep(0)
        blocker.set()
        outcomes = await asyncio.gather(*acts, return_exceptions=True)
        assert [type(one) for one in outcomes] == [type(None), ConfigurationError, type(None)]
        assert await read_keys(journal, "ada") == ["t1", "t2"]


async def test_an_agent_takes_no_session_that_stands_beside_another(tmp_path: Path) -> None:
    """It was taken, and then never listed, and forgotten with the other one."""
    with SqliteJournal(tmp_path / "talk.db") as journal:
        agent = Agent(ScriptedModel("Hi", "Hi"), journal=journal)
        for name in ("ada/t1.i0.tool.0", "ada/:title"):
            with pytest.raises(ConfigurationError, match="is reserved for the titles"):
                await agent.run("Hi", session=name)
        await agent.run("Hi", session="ada/tea")
        assert [info.session for info in await agent.sessions.list()] == ["ada/tea"]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_name_that_is_no_text_does_not_spoil_the_list_of_all(
    tmp_path: Path, postgres: PostgresServer, kind: str
) -> None:
    """The list of all sessions shows who was asked last, and could not be read any more."""
    url = f"sqlite:///{tmp_path}/talk.db" if kind == "sqlite" else postgres.new_url()
    with open_journal(url) as journal:  # type: ignore[union-attr]  # no memory
        with pytest.raises(ConfigurationError, match="name"):
            await Agent(ScriptedModel("Hi"), name="\ud800", journal=journal).run("Hi")
        agent = Agent(ScriptedModel("Hi"), journal=journal)
        await agent.run("Hi", session="ada")
        lines = [json.loads(line) async for line in agent.sessions.export("ada")]
        for line in lines:
            del line["sum"]
        lines[0]["event"]["agent"] = "\ud800"
        with pytest.raises(ConfigurationError, match="name"):
            await agent.sessions.import_(add_checksums(lines), session="evil")
        assert [info.session for info in await agent.sessions.list()] == ["ada"]


async def test_an_import_with_empty_keys_is_refused() -> None:
    agent = Agent(ScriptedModel("hi"), journal=MemoryJournal())
    await agent.run("go", session="ada")
    records = [json.loads(line) async for line in agent.sessions.export("ada")]
    chain = _ChecksumChain()
    for record in records:
        del record["sum"]
        if "key" in record:
            record["key"] = ""
    signed = [_add_checksum(chain, json.dumps(record)) for record in records]
    with pytest.raises(JournalCorruptError, match="line 1"):
        await agent.sessions.import_(signed, session="eve")


async def test_an_import_with_one_empty_key_names_its_line() -> None:
    agent = Agent(ScriptedModel("hi"), journal=MemoryJournal())
    await agent.run("go", session="ada")
    records = [json.loads(line) async for line in agent.sessions.export("ada")]
    for at in range(len(records) - 1):
        chain = _ChecksumChain()
        changed = [
            {**record, "key": ""} if number == at else record
            for number, record in enumerate(records)
        ]
        plain = [{key: value for key, value in one.items() if key != "sum"} for one in changed]
        signed = [_add_checksum(chain, json.dumps(one)) for one in plain]
        with pytest.raises(JournalCorruptError, match=f"line {at + 1}"):
            await agent.sessions.import_(signed, session="eve")
