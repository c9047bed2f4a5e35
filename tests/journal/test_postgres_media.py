"""A picture is kept once in a PostgreSQL database, however many records, snapshots and sessions contain it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest
from tests.postgres_server import PostgresServer, Proxy

pytest.importorskip("psycopg")

from holdfast import Agent, Media, PostgresJournal, Text, user
from holdfast.errors import JournalCorruptError
from holdfast.events import Status, TurnClosed, TurnOpened
from holdfast.testing import ScriptedModel


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.new_url()


@pytest.fixture
def journal(url: str) -> Iterator[PostgresJournal]:
    with PostgresJournal(url) as journal:
        yield journal


def opened(data: bytes, number: int = 1) -> TurnOpened:
    parts = (Text("Look."), Media("image/png", data=data, name="a.png"))
    return TurnOpened(f"t{number}", 1.0, user(*parts), agent="agent")


def count_media(postgres: PostgresServer, url: str) -> tuple[object, ...]:
    counts = "(SELECT count(*) FROM holdfast_media), (SELECT count(*) FROM holdfast_media_uses)"
    return postgres.rows(url, f"SELECT {counts}")[0]  # REASON: a test


@pytest.mark.slow  # starts a program or a server
async def test_a_large_picture_is_kept_once(
    journal: PostgresJournal, postgres: PostgresServer, url: str
) -> None:
    picture = os.urandom(2_000_000)
    parts = (Text("What is it?"), Media("image/png", data=picture))
    agent = Agent(ScriptedModel(*["A cat."] * 30), journal=journal)
    for _ in range(3):
        await agent.run(parts, session="ada")
    await journal.save_snapshot("ada", 9, b"\xff" + opened_json(picture))
    assert await journal.load_snapshot("ada") == b"\xff" + opened_json(picture)
    await agent.sessions.fork("ada", to="eve")
    lines = [line async for line in agent.sessions.export("ada")]
    await agent.sessions.import_(lines, session="ivy")
    result = await agent.run("Again?", session="eve")
    assert result.messages[0].parts[1] == Media("image/png", data=picture)
    assert (await agent.run(parts)).text == "A cat."  # without a session
    assert count_media(postgres, url) == (1, 4)
    sizes = "SELECT max(octet_length(event)) FROM holdfast_records"
    assert postgres.rows(url, sizes) < [(2_000,)]
    with PostgresJournal(url) as elsewhere:
        agent = Agent(ScriptedModel("Yes."), journal=elsewhere)
        result = await agent.run("A cat?", session="ada")
        assert [message.parts[1] for message in result.messages[0:6:2]] == [parts[1]] * 3
        (found,) = await elsewhere.read_by_keys("ada", ["t1"])
        assert isinstance(found.event, TurnOpened)
        assert found.event.message == user(*parts)
    assert 2_000_000 < (await journal.sizes())["ada"] < 2_100_000


def opened_json(data: bytes) -> bytes:
    from holdfast.journal.encoding import to_json

    return to_json(opened(data))


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("size", [0, 1, 2, 3071, 3072, 3073, 100_001])
async def test_bytes_of_every_size_are_read_back(journal: PostgresJournal, size: int) -> None:
    event = opened(b"\xff" * size)
    await journal.append("ada", event)
    assert [one.event for one in await journal.read("ada")] == [event]


async def test_the_last_deletion_deletes_the_bytes(
    journal: PostgresJournal, postgres: PostgresServer, url: str
) -> None:
    picture = b"SECRET-BYTES" * 1000
    await journal.append("ada", opened(picture))
    await journal.append("bob", opened(picture))
    await journal.for_tenant("other").append("ada", opened(picture))
    assert await journal.delete("ada") == 1
    assert (await journal.read("bob"))[0].event == opened(picture)
    await journal.delete("bob")
    assert (await journal.for_tenant("other").read("ada"))[0].event == opened(picture)
    await journal.for_tenant("other").delete("ada")
    assert count_media(postgres, url) == (0, 0)


@pytest.mark.slow  # starts a program or a server
async def test_a_deletion_beside_appends_of_the_same_picture_leaves_each_record_whole(
    journal: PostgresJournal, postgres: PostgresServer, url: str
) -> None:
    pictures = [bytes([number]) * 50_000 for number in range(3)]
    with PostgresJournal(url) as other:
        for number in range(25):
            runs = [f"r{number}-{n}" for n in range(3)]
            kept = [f"k{number}-{n}" for n in range(3)]
            for run, picture in zip(runs, pictures, strict=True):
                await journal.append(run, opened(picture))
            new = [other.append(run, opened(one)) for run, one in zip(kept, pictures, strict=True)]
            await asyncio.gather(journal.delete(*runs), *new)
            for run, picture in zip(kept, pictures, strict=True):
                assert (await journal.read(run))[0].event == opened(picture)
            await other.delete(*kept)
    assert count_media(postgres, url) == (0, 0)


@pytest.mark.parametrize(
    "statement", ["DELETE FROM holdfast_media", "UPDATE holdfast_media SET data = ''"]
)
async def test_changed_bytes_are_found(
    journal: PostgresJournal, postgres: PostgresServer, url: str, statement: str
) -> None:
    await journal.append("ada", opened(b"x" * 9000))
    await journal.append("bob", opened(b"small"))
    postgres.rows(url, statement)
    with pytest.raises(JournalCorruptError, match="run 'ada', record 1"):
        await journal.read("ada")
    assert (await journal.read("bob"))[0].event == opened(b"small")


@pytest.mark.slow  # starts a program or a server
async def test_an_append_with_a_picture_whose_response_was_lost_is_saved_once(
    postgres: PostgresServer, url: str
) -> None:
    async with Proxy(postgres.port) as proxy:
        through = url.replace(f":{postgres.port}/", f":{proxy.port}/")
        with PostgresJournal(through) as journal:
            await journal.append("other", opened(b"small"))
            lease = journal.prepare_lease("r", (0, 0))
            for number in range(1, 8):
                proxy.cut_after(number * 40)
                await lease.append("r", opened(bytes([number]) * 9000, number))
            await lease.append("r", TurnClosed("t1.closed", 1.0, Status.COMPLETED))
            assert len(await journal.read("r")) == 8
            assert proxy.cuts > 3
            await (await journal.claim("r")).release()
    assert count_media(postgres, url) == (7, 7)


async def test_a_prepared_lease_with_a_picture_begins_only_for_its_version(
    journal: PostgresJournal, url: str
) -> None:
    with PostgresJournal(url) as other:
        await other.append("r", opened(b"small"))
        agent = Agent(ScriptedModel("Two."), name="agent", journal=journal)
        picture = Media("image/png", data=b"x" * 9000)
        result = await agent.run((Text("Look."), picture), session="s")
        assert result.text == "Two."
        lease = journal.prepare_lease("r", (0, 0))
        from holdfast.journal.journal_errors import RunChangedError

        with pytest.raises(RunChangedError):
            await lease.append("r", opened(b"x" * 9000, 2))
        await (await other.claim("r")).release()
