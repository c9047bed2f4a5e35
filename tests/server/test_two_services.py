"""Two services share a PostgreSQL journal: readers and acts reach a turn in whichever process it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TypeAlias

import aiohttp
import pytest
from tests.server.note_agent import answer, final_text
from tests.server.processes import Client, ServedProcess, read_events

from holdfast.testing.emulator import Emulator, Pace

pytestmark = [pytest.mark.anyio, pytest.mark.slow]  # starts services as processes

Two: TypeAlias = tuple[ServedProcess, ServedProcess]
Item: TypeAlias = dict[str, object]
KINDS = ("model_replied", "turn_closed")


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    """A model that writes slowly."""
    with Emulator(answer, faults=lambda _: Pace(0.05)) as running:
        yield running


@pytest.fixture
def two(emulator: Emulator, tmp_path: Path, url: str) -> Iterator[Two]:
    """Two processes; the writing tool takes a second."""
    with (
        ServedProcess(url, emulator.base_url, tmp_path, seconds=1) as first,
        ServedProcess(url, emulator.base_url, tmp_path, seconds=1) as second,
    ):
        yield first, second


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def start(http: aiohttp.ClientSession, process: ServedProcess, message: str) -> None:
    body = {"agent": "noter", "message": message, "session": "ada"}
    async with http.post(f"{process.api}/turns", json=body) as response:
        assert response.status == 202, await response.text()


async def follow(http: aiohttp.ClientSession, process: ServedProcess) -> AsyncIterator[Item]:
    async with http.get(f"{process.api}/sessions/ada/events") as response:
        response.raise_for_status()
        async for _, item in read_events(response.content):
            yield item


def event_type(item: Item) -> str:
    event = item.get("event")
    return str(event["type"]) if isinstance(event, dict) else ""


async def test_live_text_reaches_the_readers_of_the_other_process(
    http: aiohttp.ClientSession, two: Two
) -> None:
    driver, other = two
    await start(http, driver, "Note")
    texts, shown, replies = 0, "", list[str]()
    async for item in follow(http, other):
        if item["type"] == "text":
            texts += 1
            shown = shown[: int(str(item["offset"]))] + str(item["text"])
        elif event_type(item) == "model_replied":
            replies.append(shown)
            shown = ""
        elif event_type(item) == "turn_closed":
            break
    assert replies == ["I save Note.", final_text("Note")]
    assert texts > 10  # and not only one for each reply


async def test_a_reader_that_changes_the_process_at_each_connection_ends_exactly(two: Two) -> None:
    driver, other = two
    client = Client([driver.api, other.api], "ada", "Note")
    reading = asyncio.ensure_future(client.run())
    for _ in range(5):
        await client.has_text.wait()
        client.has_text.clear()
        client.drop()
    await asyncio.wait_for(reading, 60)
    client.check()
    assert client.connections > 5


async def test_a_turn_is_cancelled_through_the_other_process(
    http: aiohttp.ClientSession, two: Two
) -> None:
    driver, other = two
    await start(http, driver, "Note")
    items = follow(http, driver)
    async for item in items:
        if item["type"] == "text":
            break
    for process in (other, other, driver):  # a second and a third time, it has ended
        async with http.post(f"{process.api}/sessions/ada/cancel", json={}) as response:
            assert response.status == 202
            assert (await response.json())["status"] == "cancelled"
    events = [item["event"] async for item in until_closed(items) if item["type"] == "event"]
    *before, interrupted, closed = [event["type"] for event in events]
    assert [interrupted, closed] == ["turn_interrupted", "turn_closed"]
    # On a slow machine its first reply and its tools may have ended before; its answer takes seconds.
    assert before.count("model_replied") <= 1
    assert events[-2]["by"] == "local"  # who did it, and not the process that was asked to


async def until_closed(items: AsyncIterator[Item]) -> AsyncIterator[Item]:
    async for item in items:
        yield item
        if event_type(item) == "turn_closed":
            return


async def test_a_question_is_answered_through_the_other_process(
    http: aiohttp.ClientSession, two: Two, tmp_path: Path
) -> None:
    driver, other = two
    await start(http, driver, "Pay")
    items = follow(http, driver)
    async for item in items:
        if event_type(item) == "question_asked":
            break
    async with asyncio.timeout(60):
        while not (tmp_path / "notes").exists():
            await asyncio.sleep(0.01)  # the tool beside the question is under way
    async with http.get(f"{other.api}/sessions/ada/questions") as response:
        (question,) = await response.json()
    given = {"key": question["key"], "binding": question["binding"], "answer": "approve"}
    for process, accepted in ((other, True), (other, False), (driver, False)):
        async with http.post(f"{process.api}/sessions/ada/answers", json=given) as response:
            answered = await response.json()
            assert answered["accepted"] is accepted, answered
            assert accepted or answered["reason"] == "answered"
            assert answered["by_whom"] == ("" if accepted else "local")
    closed = [item async for item in until_closed(items)][-1]["event"]
    assert isinstance(closed, dict)
    assert closed["status"] == "completed"
    assert (tmp_path / "paid").read_text() == "paid\n"
