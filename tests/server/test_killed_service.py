"""A service is killed or told to stop under live turns: nothing is lost, doubled or done twice."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.note_agent import LEASE, answer
from tests.server.processes import Client, ServedProcess

from holdfast import SqliteJournal
from holdfast.core.events import ToolFinished, TurnClosed, TurnOpened
from holdfast.testing.emulator import Emulator, Pace, chaos

pytestmark = [pytest.mark.anyio, pytest.mark.slow]  # kills services

TURNS = int(os.environ.get("HOLDFAST_LIVE_TURNS", "20"))
_CHAOS = chaos(seed=7, share=0.2)


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    """A model that is slow enough to be cut, and fails at every fifth call."""
    with Emulator(answer, faults=lambda request: _CHAOS(request) or Pace(0.01)) as running:
        yield running


def make_clients(*processes: ServedProcess) -> list[Client]:
    apis = [process.api for process in processes]
    return [Client(apis, f"s{number}", f"Note {number}") for number in range(TURNS)]


async def wait_for_text(clients: list[Client], share: float) -> None:
    """Wait until this share of the clients has seen live text."""
    waiting = {asyncio.ensure_future(client.has_text.wait()) for client in clients}
    while len(waiting) > len(clients) * (1 - share):
        _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for waiter in waiting:
        waiter.cancel()


def notes(folder: Path, name: str) -> Counter[str]:
    """How often the writing tool began or ended, by idempotency key."""
    path = folder / name
    return Counter(path.read_text().split() if path.exists() else ())


async def check_journal(path: Path, clients: list[Client]) -> None:
    """Check that each session has one turn, which ended."""
    with SqliteJournal(path) as journal:
        for client in clients:
            events = [record.event for record in await journal.read(client.session)]
            assert sum(isinstance(event, TurnOpened) for event in events) == 1
            assert sum(isinstance(event, TurnClosed) for event in events) == 1
            assert len(events) == len(client.sequences)
        assert len(await journal.runs()) == len(clients)


async def test_kill_9_under_live_turns(emulator: Emulator, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with ServedProcess(f"sqlite:///{path}", emulator.base_url, tmp_path) as process:
        clients = make_clients(process)
        reading = asyncio.gather(*[client.run() for client in clients])
        for share in (0.2, 0.6):
            await wait_for_text(clients, share)
            await process.kill()
            process.start()
        await asyncio.wait_for(reading, 120)
    for client in clients:
        client.check()
    assert max(notes(tmp_path, "notes").values()) == 1
    assert set(notes(tmp_path, "saved")) <= set(notes(tmp_path, "notes"))
    await check_journal(path, clients)


async def test_sigterm_under_live_turns(emulator: Emulator, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with ServedProcess(f"sqlite:///{path}", emulator.base_url, tmp_path, seconds=0.3) as process:
        clients = make_clients(process)
        reading = asyncio.gather(*[client.run() for client in clients])
        for share in (0.2, 0.6):
            await wait_for_text(clients, share)
            process.send(signal.SIGTERM)
            assert await process.wait() in (0, -signal.SIGTERM)
            process.start()
        await asyncio.wait_for(reading, 120)
    for client in clients:
        client.check()
    begun = notes(tmp_path, "notes")
    assert max(begun.values()) == 1
    assert begun == notes(tmp_path, "saved")  # each writing tool was waited for
    assert len(begun) == len(clients)
    assert any("shutting_down" in client.ends for client in clients)
    await check_journal(path, clients)


@pytest.mark.parametrize(
    ("seconds", "grace", "codes"), [(1.0, 30.0, []), (600.0, 0.2, ["in_doubt"])]
)
async def test_a_writing_tool_that_outlasts_the_grace_is_in_doubt(
    tmp_path: Path, seconds: float, grace: float, codes: list[str]
) -> None:
    path = tmp_path / "journal.db"
    with (
        Emulator(answer) as emulator,
        ServedProcess(
            f"sqlite:///{path}", emulator.base_url, tmp_path, seconds=seconds, grace=grace
        ) as process,
    ):
        client = Client([process.api], "ada", "Note")
        reading = asyncio.ensure_future(client.run())
        while not notes(tmp_path, "notes"):
            await asyncio.sleep(0.02)
        process.send(signal.SIGTERM)
        assert await process.wait() in (0, -signal.SIGTERM)
        process.start()
        await asyncio.wait_for(reading, 60)
    client.check()
    assert sum(notes(tmp_path, "notes").values()) == 1
    with SqliteJournal(path) as journal:
        events = [record.event for record in await journal.read("ada")]
    doubts = [event.error for event in events if isinstance(event, ToolFinished) and event.error]
    assert [error.code for error in doubts] == codes
    assert sum(notes(tmp_path, "saved").values()) == 1 - len(codes)


async def test_another_process_takes_over(emulator: Emulator, tmp_path: Path, url: str) -> None:
    with (
        ServedProcess(url, emulator.base_url, tmp_path) as first,
        ServedProcess(url, emulator.base_url, tmp_path) as second,
    ):
        clients = make_clients(first, second)
        reading = asyncio.gather(*[client.run() for client in clients])
        await wait_for_text(clients, 0.2)
        await first.kill()
        await asyncio.wait_for(reading, 60 + LEASE)
    for client in clients:
        client.check()
    assert max(notes(tmp_path, "notes").values()) == 1
