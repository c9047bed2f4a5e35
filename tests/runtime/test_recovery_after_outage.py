"""A recovery leaves turns open while the provider is down, the key is wrong, or the process ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.postgres_server import PostgresServer

from holdfast import Agent, RetryOptions, tool
from holdfast.core.error_info import ErrorCategory
from holdfast.core.events import ToolFinished, TurnClosed, TurnInterrupted
from holdfast.journal.port import Journal
from holdfast.journal.url import open_journal
from holdfast.testing import Emulator
from holdfast.testing.emulator import call
from holdfast.testing.emulator.emulated_request import EmulatedRequest
from holdfast.testing.emulator.faults import ErrorResponse

pytestmark = pytest.mark.slow  # kills processes

SESSIONS = [f"user {number}" for number in range(7)]
PATIENCE = 60.0
NO_WAITS = RetryOptions(max_retries=1, retry_delay=0.01, max_breaker_wait=0)
BEGINS = """
import asyncio, sys
from holdfast import Agent, PostgresJournal, tool

@tool(effect="write")
async def book(room: int) -> str:
    '''Book a room.'''
    return f"booked {room}"

async def main(url, address):
    shared = address.startswith("postgresql")
    journal = PostgresJournal(address, lease=1) if shared else address
    agent = Agent("openai:emulated-model", base_url=url, api_key="k", tools=[book], journal=journal)
    await asyncio.gather(*(agent.run("Book 1.", session=f"user {n}") for n in range(7)))

asyncio.run(main(*sys.argv[1:]))
"""
RECOVERS = """
import asyncio, signal, sys
from holdfast import Agent, tool

@tool(effect="write")
async def book(room: int) -> str:
    '''Book a room.'''
    raise AssertionError("it was booked already")

async def main(url, journal):
    agent = Agent("openai:emulated-model", base_url=url, api_key="k", tools=[book], journal=journal)
    recovery = asyncio.create_task(agent.recover())
    if "task" in sys.argv:
        stop = recovery.cancel
    else:
        stop = lambda: [task.cancel() for task in asyncio.all_tasks()]
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    await recovery

try:
    asyncio.run(main(*sys.argv[1:3]))
except asyncio.CancelledError:
    sys.exit(143)
except KeyboardInterrupt:
    sys.exit(130)
"""
booked: list[int] = []


@tool(effect="write")
async def book(room: int) -> str:
    """Book a room."""
    booked.append(room)
    return f"booked {room}"


class Provider:
    """Asks for the tool, and does not answer afterwards until it is told to."""

    def __init__(self, emulator: Callable[..., Emulator]) -> None:
        self.answers = False
        self.asked = threading.Semaphore(0)
        self.url = emulator(self.reply).base_url

    async def reply(self, request: EmulatedRequest) -> object:
        if request.messages[-1].role == "user":
            return call("book", {"room": 1}, id="1")
        self.asked.release()
        while not self.answers:
            await asyncio.sleep(0.02)
        return "Booked."

    def wait_for_calls(self) -> None:
        for _ in SESSIONS:
            assert self.asked.acquire(timeout=PATIENCE)


@pytest.fixture
def provider(emulator: Callable[..., Emulator]) -> Iterator[Provider]:
    booked.clear()
    made = Provider(emulator)
    yield made
    made.answers = True


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'talk.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_url()


@contextmanager
def process(script: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen([sys.executable, "-c", script, *arguments], env=environment())
    try:
        yield started
    finally:
        started.kill()
        started.wait(PATIENCE)


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}


def agent(url: str, journal: Journal, **keywords: object) -> Agent[str]:
    keywords = {"api_key": "k", "retry": NO_WAITS, **keywords}
    return Agent("openai:emulated-model", base_url=url, tools=[book], journal=journal, **keywords)  # type: ignore[arg-type]


async def kill_with_open_turns(provider: Provider, address: str) -> None:
    """A process is killed while the model is asked about the result of the tool, in seven turns."""
    with process(BEGINS, provider.url, address):
        await asyncio.to_thread(provider.wait_for_calls)


async def open_runs(journal: Journal) -> list[str]:
    """The runs whose turn is open, when no process has a lease of them any more."""
    while any(entry.leased for entry in await journal.runs()):
        await asyncio.sleep(0.05)
    return [entry.run for entry in await journal.runs(turn_open=True)]


async def check_left_open(journal: Journal) -> None:
    assert await open_runs(journal) == SESSIONS
    for session in SESSIONS:
        kept = [record.event for record in await journal.read(session)]
        assert not any(isinstance(event, TurnClosed | TurnInterrupted) for event in kept)
        assert isinstance(kept[-1], ToolFinished)


async def check_recovers(provider: Provider, journal: Journal) -> None:
    provider.answers = True
    found = await agent(provider.url, journal).recover()
    assert {one.run_id: one.error or one.result.output for one in found} == dict.fromkeys(  # type: ignore[union-attr]
        SESSIONS, "Booked."
    )
    assert booked == []
    assert await open_runs(journal) == []


async def test_turns_stay_open_while_the_provider_is_down(provider: Provider, address: str) -> None:
    await kill_with_open_turns(provider, address)
    with Emulator() as gone:
        nobody = gone.base_url
    with open_journal(address) as journal:  # type: ignore[attr-defined]
        assert await open_runs(journal) == SESSIONS
        found = await agent(nobody, journal).recover()
        assert [one.run_id for one in found] == SESSIONS
        assert all(one.error is not None for one in found)
        await check_left_open(journal)
        await check_recovers(provider, journal)


async def test_turns_stay_open_with_a_wrong_key(
    provider: Provider, address: str, emulator: Callable[..., Emulator]
) -> None:
    await kill_with_open_turns(provider, address)
    refusing = emulator(faults=lambda _: ErrorResponse("bad_key")).base_url
    with open_journal(address) as journal:  # type: ignore[attr-defined]
        assert await open_runs(journal) == SESSIONS
        found = await agent(refusing, journal).recover()
        assert {one.error.info.category for one in found} == {ErrorCategory.AUTH_ERROR}  # type: ignore[union-attr]
        await check_left_open(journal)
        await check_recovers(provider, journal)


async def test_turns_stay_open_when_the_recovery_is_cancelled(
    provider: Provider, address: str
) -> None:
    await kill_with_open_turns(provider, address)
    with open_journal(address) as journal:  # type: ignore[attr-defined]
        assert await open_runs(journal) == SESSIONS
        recovery = asyncio.create_task(agent(provider.url, journal).recover())
        await asyncio.to_thread(provider.wait_for_calls)
        recovery.cancel()
        await asyncio.wait([recovery])
        assert recovery.cancelled()
        # At once: nobody waits until a lease runs out.
        assert not any(entry.leased for entry in await journal.runs())
        await check_left_open(journal)
        await check_recovers(provider, journal)


@pytest.mark.parametrize(
    ("sent", "how", "status"),
    [(signal.SIGTERM, "task", 143), (signal.SIGTERM, "all", 143), (signal.SIGINT, "task", 130)],
    ids=["SIGTERM", "SIGTERM for all tasks", "Ctrl-C"],
)
async def test_turns_stay_open_when_the_process_is_terminated(
    provider: Provider, tmp_path: Path, sent: signal.Signals, how: str, status: int
) -> None:
    address = f"sqlite:///{tmp_path / 'talk.db'}"
    await kill_with_open_turns(provider, address)
    with process(RECOVERS, provider.url, address, how) as stopped:
        await asyncio.to_thread(provider.wait_for_calls)
        stopped.send_signal(sent)
        assert await asyncio.to_thread(stopped.wait, PATIENCE) == status
    with open_journal(address) as journal:  # type: ignore[attr-defined]
        await check_left_open(journal)
        await check_recovers(provider, journal)
