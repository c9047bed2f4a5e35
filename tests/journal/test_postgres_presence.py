"""The end of a process is seen within seconds, and nobody who is alive loses a lease."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import aiohttp
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.postgres_server import PostgresServer, Proxy
from tests.server.note_agent import final_text
from tests.server.processes import ServedProcess

from holdfast.core.errors import SessionBusyError
from holdfast.journal.inbox.opening_inbox import open_inbox
from holdfast.journal.inbox.worker_entries import WorkerInfo
from holdfast.journal.port import Lease
from holdfast.journal.postgres.postgres_journal import PostgresJournal
from holdfast.journal.postgres.postgres_presence import MARK, Departures, Presence
from holdfast.testing import Emulator
from holdfast.testing.emulator import EmulatedRequest, Pace
from holdfast.testing.journal_conformance import make_turn_opened

pytestmark = pytest.mark.anyio


@given(
    st.lists(
        st.tuples(st.floats(0.1, 4.0), st.dictionaries(st.sampled_from("abc"), st.integers(0, 2)))
    )
)
def test_only_who_was_missing_in_every_look_without_a_sign_of_life_has_ended(
    looks: list[tuple[float, dict[str, int]]],
) -> None:
    departures, now = Departures[str](5.0), 0.0
    history: list[tuple[float, dict[str, int]]] = []
    for pause, missing in looks:
        now += pause
        history.append((now, missing))
        for name in departures.note(now, missing):
            last = history[-1][1][name]
            since = now
            for at, seen in reversed(history):
                if since - at > 3.0 or seen.get(name) != last:
                    break
                since = at
            assert now - since >= 5.0


def test_an_owner_has_the_number_of_a_session_that_is_seen() -> None:
    async def connect() -> psycopg.AsyncConnection[object]:
        raise OSError

    async def renew() -> None:
        return None

    presence = Presence(connect, renew)
    assert not presence.make_owner().startswith(MARK)
    presence.is_seen = True
    owners = {presence.make_owner() for _ in range(3)}
    assert len(owners) == 3
    assert {one[:12] for one in owners} == {MARK + bytes.fromhex(presence.process[:16])}
    assert {len(one) for one in owners} == {16}


def through(proxy: Proxy, postgres: PostgresServer, url: str) -> str:
    return url.replace(f":{postgres.port}/", f":{proxy.port}/")


async def show(journal: PostgresJournal) -> None:
    """Let a journal be seen, and wait until it is."""
    journal.show_process()
    async with asyncio.timeout(30):
        while not journal._server.presence.is_seen:
            await asyncio.sleep(0.01)


async def begin_turn(journal: PostgresJournal, run: str = "r") -> Lease:
    lease = await journal.claim(run)
    await lease.append(run, make_turn_opened(1))
    return lease


def be_quick(journal: PostgresJournal, seconds: float) -> PostgresJournal:
    """Let a journal see after so many seconds that a process has ended."""
    journal._server._departures = Departures(seconds)
    return journal


async def end_departed(journal: PostgresJournal, looks: int, pause: float = 0.05) -> bool:
    for _ in range(looks):
        if await journal.end_departed():
            return True
        await asyncio.sleep(pause)
    return False


@pytest.mark.slow  # waits for connections that are cut
async def test_the_lease_of_a_process_that_is_gone_ends(postgres: PostgresServer, url: str) -> None:
    async with Proxy(postgres.port) as proxy:
        with (
            PostgresJournal(through(proxy, postgres, url), wait=0.1, timeout=2.0) as holder,
            be_quick(PostgresJournal(url), 0.3) as other,
        ):
            await show(holder)
            lease = await begin_turn(holder)
            assert not await end_departed(other, 10)
            with pytest.raises(SessionBusyError):
                await other.claim("r")
            proxy.down()
            assert await end_departed(other, 600)
            await (await other.claim("r")).release()
            del lease


@pytest.mark.slow  # waits for connections that are cut
async def test_a_lost_session_is_made_again_and_costs_nothing(
    postgres: PostgresServer, url: str
) -> None:
    async with Proxy(postgres.port) as proxy:
        with (
            PostgresJournal(through(proxy, postgres, url)) as holder,
            PostgresJournal(url) as other,
        ):
            await show(holder)
            lease = await begin_turn(holder)
            await other.end_departed()
            proxy.cut()
            async with asyncio.timeout(30):
                while holder._server.presence.is_seen:
                    assert not await other.end_departed()
                    await asyncio.sleep(0.01)
                while not holder._server.presence.is_seen:
                    assert not await other.end_departed()
                    await asyncio.sleep(0.01)
            assert not await end_departed(other, 5)
            await lease.release()


@pytest.mark.slow  # waits for seconds, in which leases are renewed
async def test_a_process_without_a_session_gives_signs_of_life(
    postgres: PostgresServer, url: str
) -> None:
    with PostgresJournal(url) as holder, be_quick(PostgresJournal(url), 3.0) as other:
        await show(holder)
        lease = await begin_turn(holder)
        presence = holder._server.presence

        async def refuse() -> psycopg.AsyncConnection[object]:
            raise OSError

        presence._connect = refuse
        postgres.rows(
            url,
            "SELECT pg_terminate_backend(pid) FROM pg_locks"
            " WHERE locktype = 'advisory' AND objsubid = 1",
        )
        assert not await end_departed(other, 120)
        assert not presence.is_seen
        await lease.release()


@pytest.mark.slow  # waits for connections that are cut
async def test_a_process_without_a_session_is_judged_by_its_lease(
    postgres: PostgresServer, url: str
) -> None:
    async with Proxy(postgres.port) as proxy:
        with (
            PostgresJournal(through(proxy, postgres, url), wait=0.1, timeout=2.0) as holder,
            be_quick(PostgresJournal(url), 0.0) as other,
        ):
            lease = await begin_turn(holder)
            proxy.down()
            assert not await end_departed(other, 5)
            with pytest.raises(SessionBusyError):
                await other.claim("r")
            del lease


async def test_a_worker_whose_process_is_gone_counts_as_gone(
    postgres: PostgresServer, url: str
) -> None:
    with PostgresJournal(url) as alive, be_quick(PostgresJournal(url), 0.0) as other:
        await show(alive)
        inbox = open_inbox(other)
        for name, presence in (("gone", "ab" * 16), ("there", alive.process), ("old", "")):
            worker = WorkerInfo(
                id=name,
                host="h",
                process=1,
                agents=("a",),
                slots=1,
                engine="asyncio",
                started_at=time.time(),
                presence=presence,
            )
            await inbox.note_worker(worker)
        assert await end_departed(other, 2)
        found = {one.info.id: one.is_alive for one in await inbox.list_workers()}
        assert found == {"gone": False, "there": True, "old": True}


def write_slowly(request: EmulatedRequest) -> str:
    return final_text(request.text)


@pytest.mark.slow  # starts and kills processes
async def test_a_killed_process_is_replaced_long_before_its_lease_ends(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_LEASE", "30")
    calls = 0

    def stall_first(_request: EmulatedRequest) -> Pace:
        nonlocal calls
        calls += 1
        return Pace(30.0 if calls == 1 else 0.0)

    with (
        Emulator(write_slowly, faults=stall_first) as model,
        ServedProcess(url, model.base_url, tmp_path) as process,
    ):
        body = {"agent": "noter", "message": "Note", "session": "s"}
        async with (
            aiohttp.ClientSession() as http,
            http.post(f"{process.api}/turns", json=body) as begun,
        ):
            assert begun.status == 202
        with ServedProcess(url, model.base_url, tmp_path) as other:
            assert calls == 1
            killed = time.monotonic()
            await process.kill()
            async with aiohttp.ClientSession() as http, asyncio.timeout(60):
                while True:
                    async with http.get(f"{other.api}/sessions/s/turns/1") as answer:
                        if (await answer.json())["status"] == "completed":
                            break
                    await asyncio.sleep(0.05)
            seconds = time.monotonic() - killed
            print(f"completed after {seconds:.1f} s")
            assert seconds < 25  # and the lease alone takes 30


@pytest.mark.slow  # blocks an event loop for seconds
async def test_a_loop_that_is_blocked_keeps_its_lease(url: str) -> None:
    with PostgresJournal(url) as holder, be_quick(PostgresJournal(url), 2.0) as other:
        await show(holder)
        lease = await begin_turn(holder)
        with ThreadPoolExecutor(1) as threads:
            looking = threads.submit(lambda: asyncio.run(end_departed(other, 80)))
            time.sleep(4.0)  # noqa: ASYNC251  # REASON: it blocks the loop of the holder
            assert not looking.result()
        await lease.release()


@pytest.mark.slow  # restarts a server
async def test_the_restart_of_the_server_costs_nobody_a_lease(
    postgres: PostgresServer, url: str
) -> None:
    with PostgresJournal(url) as holder, PostgresJournal(url) as other:
        await show(holder)
        lease = await begin_turn(holder)
        presence = holder._server.presence
        assert not await other.end_departed()
        postgres.kill()
        postgres.start()
        async with asyncio.timeout(60):
            while presence.is_seen:
                await asyncio.sleep(0.01)
            while not presence.is_seen:
                assert not await other.end_departed()
                await asyncio.sleep(0.01)
        assert not await end_departed(other, 10)
        await lease.release()
