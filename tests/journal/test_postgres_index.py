"""The queries of sessions in a PostgreSQL journal: search, copies and snapshots."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest
from tests.postgres_server import PostgresServer, Proxy

from holdfast.core.errors import ConflictError
from holdfast.core.events import Status, ToolsBegun, TurnClosed, TurnOpened
from holdfast.core.messages import user
from holdfast.journal.memory import MemoryJournal
from holdfast.journal.postgres.postgres_journal import PostgresJournal
from holdfast.sessions.session_index import SessionIndex, to_index
from holdfast.testing.journal_conformance import make_turn_opened

TEXTS = ("Olá Porto", "100% sure_thing", "a\\b 'quoted' \"twice\"", "nul \x00 and half \ud800", "")


@pytest.fixture
def journal(url: str) -> Iterator[PostgresJournal]:
    with PostgresJournal(url) as journal:
        yield journal


async def fill(journal: object) -> None:
    for number, text in enumerate(TEXTS, 1):
        await journal.append("r", make_turn_opened(number, text, at=float(number)))
        await journal.append("s", ToolsBegun(f"t{number}.i0.begun", float(number)))


async def test_the_index_finds_what_reading_every_record_finds(
    journal: PostgresJournal,
) -> None:
    assert isinstance(journal, SessionIndex)
    plain = to_index(MemoryJournal())
    await fill(journal)
    await fill(plain)
    for run in ("r", "s", "nobody"):
        assert await journal.keys(run) == await plain.keys(run)
        for wanted in ([], ["t3", "t1"], ["t2.i0.begun", "nothing", "\x00"]):
            assert await journal.read_by_keys(run, wanted) == await plain.read_by_keys(run, wanted)


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (["porto"], ["t1"]),
        (["OLÁ", "porto"], ["t1"]),
        (
            ["OLÁ"],
            ["t5", "t4", "t3", "t2", "t1"],
        ),  # words with letters outside ASCII are ignored
        (["100%"], ["t2"]),
        (["100_"], []),
        (["sure_", "100"], ["t2"]),
        (["quoted"], ["t3"]),
        (["a\\"], ["t3"]),
        ([], ["t5", "t4", "t3", "t2", "t1"]),
        (["begun"], []),
    ],
)
async def test_records_with_words_are_found_newest_first(
    journal: PostgresJournal, words: list[str], keys: list[str]
) -> None:
    await fill(journal)
    found = await journal.find_words([word.replace("\\", "\\\\") for word in words])
    assert found == [("r", key) for key in keys]


async def test_runs_are_restored_whole_or_not_at_all(journal: PostgresJournal) -> None:
    await journal.append("a", TurnOpened("t1", 5.0, user("hi"), agent="ann"))
    await journal.append("a", TurnClosed("t1.closed", 9.0, Status.COMPLETED))
    await journal.append("a", TurnOpened("t2", 7.0, user("more"), agent="bob"))
    records = await journal.read("a")
    await journal.restore({"b": records, "c": records[:2], "d": []})
    assert await journal.read("b") == records
    listed = {entry.run: entry for entry in await journal.runs()}
    assert set(listed) == {"a", "b", "c"}
    assert (listed["b"].turn_open, listed["b"].agent) == (True, "bob")
    assert (listed["c"].turn_open, listed["c"].opened_at, listed["c"].changed_at) == (
        False,
        5.0,
        9.0,
    )
    await journal.append("b", TurnClosed("t2.closed", 9.0, Status.COMPLETED))
    with pytest.raises(ConflictError, match="'b'"):
        await journal.restore({"new": records, "b": records})
    assert list(await journal.read("new")) == []


async def test_a_copy_whose_response_was_lost_is_made_once(
    postgres: PostgresServer, url: str
) -> None:
    async with Proxy(postgres.port) as proxy:
        with PostgresJournal(url.replace(f":{postgres.port}/", f":{proxy.port}/")) as journal:
            await fill(journal)
            records = await journal.read("r")
            for number, cut in enumerate((0, 1, 20, 100, 200, 300, 400)):
                proxy.cut_after(cut)
                await journal.restore({f"copy {number}": records, f"other {number}": records})
                assert await journal.read(f"copy {number}") == records
            assert proxy.cuts >= 6


async def test_a_snapshot_lives_as_long_as_its_run(
    journal: PostgresJournal, postgres: PostgresServer, url: str
) -> None:
    assert await journal.load_snapshot("r") is None
    await journal.save_snapshot("r", 1, b"of nothing")
    await fill(journal)
    await journal.save_snapshot("r", 9, b"of what is not there yet")
    assert await journal.load_snapshot("r") is None
    await journal.save_snapshot("r", 2, b"\x00first")
    await journal.save_snapshot("r", 5, b"\x00second")
    assert await journal.load_snapshot("r") == b"\x00second"
    await journal.delete("r")
    assert await journal.load_snapshot("r") is None
    with psycopg.connect(url) as rival:
        # The run is being deleted while the snapshot is saved.
        rival.execute("DELETE FROM holdfast_runs WHERE run = 's'")
        keep = asyncio.ensure_future(journal.save_snapshot("s", 1, b"late"))
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        async with asyncio.timeout(60):
            while rival.execute(waits).fetchone() != (1,):
                await asyncio.sleep(0.01)
    await keep
    assert postgres.rows(url, "SELECT count(*) FROM holdfast_snapshots") == [(0,)]
