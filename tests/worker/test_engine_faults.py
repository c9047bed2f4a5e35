"""Engines whose server dies, whose worker is killed, and whose tables say what nobody remembers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, cast

import pytest
from procrastinate.sql import queries
from tests.nats_server import NatsServer
from tests.postgres_server import PostgresServer, Proxy

from holdfast import PostgresJournal
from holdfast.journal.inbox.dispatch_engine import DispatchEngine, Job
from holdfast.journal.inbox.inbox_errors import EngineError
from holdfast.journal.inbox.job_slots import JobSlots
from holdfast.journal.postgres.postgres_failures import PostgresAddress
from holdfast.worker.engines import nats_stream, postgres_connector
from holdfast.worker.engines.engine_opening import open_engine
from holdfast.worker.engines.postgres_connector import PatientConnector
from holdfast.worker.engines.postgres_engine import PostgresEngine

if TYPE_CHECKING:
    from nats.aio.client import Client

pytestmark = pytest.mark.anyio

STALL = 1.0


class Work:
    """Does jobs; entry 1 waits for `gate`."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.begun: list[int] = []
        self.ended: list[int] = []

    async def __call__(self, entry: int) -> None:
        self.begun.append(entry)
        if entry == 1:
            await self.gate.wait()
        self.ended.append(entry)

    async def has_begun(self, *entries: int) -> None:
        await until(lambda: set(entries) <= set(self.begun))

    async def has_ended(self, *entries: int) -> None:
        await until(lambda: set(entries) <= set(self.ended))


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.01)


async def until_put(engine: DispatchEngine, *entries: int) -> None:
    """Put until the engine takes it, as the inbox does."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await engine.put([Job(entry, "q") for entry in entries])
            except EngineError:
                await asyncio.sleep(0.05)


@asynccontextmanager
async def running(
    engine: DispatchEngine, work: Callable[[int], Awaitable[None]], queue: str = "q"
) -> AsyncIterator[None]:
    await engine.open()
    task = asyncio.create_task(engine.run(work, [queue], JobSlots(4)))
    try:
        yield
    finally:
        if isinstance(work, Work):
            work.gate.set()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await engine.close()


@pytest.mark.slow  # kills a server
async def test_a_killed_postgresql_server_is_waited_for(postgres: PostgresServer, url: str) -> None:
    work = Work()
    with PostgresJournal(url) as journal:
        engine = open_engine("postgres", journal, stall=STALL)
        async with running(engine, work):
            await engine.put([Job(1, "q"), Job(2, "q")])
            await work.has_ended(2)
            await work.has_begun(1)
            postgres.kill()
            try:
                with pytest.raises(EngineError):
                    await asyncio.wait_for(engine.find_lost([1]), 60)
                work.gate.set()  # its end has to wait
                await work.has_ended(1)
            finally:
                await asyncio.to_thread(postgres.start)
            await until_put(engine, 3)
            await work.has_ended(3)
            async with asyncio.timeout(60):
                while set(await engine.find_lost([1, 2, 3])) != {1, 2, 3}:
                    await asyncio.sleep(0.05)
    assert postgres.rows(url, "SELECT * FROM procrastinate_jobs") == []


@pytest.mark.slow  # kills a server
async def test_a_run_stops_while_postgresql_is_gone(
    postgres: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_connector, "SECONDS_TO_CONNECT", 0.3)
    monkeypatch.setattr(postgres_connector, "_SECONDS_TO_STOP", 0.3)
    work = Work()
    with PostgresJournal(url) as journal:
        engine = open_engine("postgres", journal, stall=STALL)
        try:
            async with running(engine, work):
                await engine.put([Job(1, "q")])
                await work.has_begun(1)
                postgres.kill()
                began = monotonic()
            assert monotonic() - began < 30
        finally:
            await asyncio.to_thread(postgres.start)
        again = Work()
        again.gate.set()
        # Its end was not saved, so the job comes again, once its worker counts as dead.
        async with running(open_engine("postgres", journal, stall=STALL), again):
            await again.has_ended(1)


@pytest.mark.slow  # kills a server
async def test_a_killed_nats_server_is_waited_for(nats_server: NatsServer, url: str) -> None:
    work = Work()
    with PostgresJournal(url) as journal:
        engine = open_engine(nats_server.url, journal, stall=3.0)
        async with running(engine, work):
            await engine.put([Job(1, "q"), Job(2, "q")])
            await work.has_ended(2)
            await work.has_begun(1)
            nats_server.kill()
            try:
                await until_refused(engine)
            finally:
                await asyncio.to_thread(nats_server.start)
            await until_put(engine, 3)
            await work.has_ended(3)
            assert await engine.find_lost([1]) == []
            work.gate.set()
            await work.has_ended(1)
        assert work.begun.count(1) == 1


async def until_refused(engine: DispatchEngine) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await engine.put([Job(9, "elsewhere")])
            except EngineError:
                return


@pytest.mark.slow  # kills a server
async def test_a_nats_server_that_lost_everything_is_filled_again(
    nats_server: NatsServer, url: str
) -> None:
    work = Work()
    with PostgresJournal(url) as journal:
        engine = open_engine(nats_server.url, journal, stall=STALL)
        async with running(engine, work):
            await engine.put([Job(1, "q"), Job(5, "other")])
            await work.has_begun(1)
            await asyncio.to_thread(nats_server.empty)
            await until_put(engine, 2)
            await work.has_ended(2)
            assert list(await engine.find_lost([5])) == [5]
            await until_put(engine, 5)
            assert list(await engine.find_lost([5])) == []


@pytest.mark.slow  # kills a process
@pytest.mark.parametrize("name", ["postgres", "nats"])
async def test_the_jobs_of_a_killed_process_are_delivered_to_another_one(
    name: str, nats_server: NatsServer, url: str
) -> None:
    address = nats_server.url if name == "nats" else name
    program = Path(__file__).with_name("engine_process.py")
    killed = await asyncio.create_subprocess_exec(
        sys.executable, str(program), url, address, stdout=asyncio.subprocess.PIPE
    )
    assert killed.stdout is not None
    assert await asyncio.wait_for(killed.stdout.readline(), 60) == b"open\n"
    work = Work()
    work.gate.set()
    with PostgresJournal(url) as journal:
        engine = open_engine(address, journal, stall=STALL)
        await engine.open()
        await engine.put([Job(1, "q"), Job(2, "q")])
        begun = {int(await asyncio.wait_for(killed.stdout.readline(), 60)) for _ in range(2)}
        assert begun == {1, 2}
        assert await engine.find_lost([1, 2]) == []
        killed.kill()
        await killed.wait()
        async with running(engine, work):
            began = monotonic()
            await work.has_ended(1, 2)
            assert monotonic() - began < STALL + 30
    assert sorted(work.ended) == [1, 2]


@pytest.mark.slow  # starts a program or a server
async def test_a_job_that_was_fetched_over_a_connection_that_broke_is_delivered(
    postgres: PostgresServer, url: str
) -> None:
    """The table says that a living worker has it, which never heard of it."""
    work = Work()
    with PostgresJournal(url) as journal:
        engine = open_engine("postgres", journal, stall=STALL)
        async with running(engine, work):
            await engine.put([Job(2, "elsewhere")])
            fetched = (
                "UPDATE procrastinate_jobs SET status = 'doing', queue_name = 'n-q',"
                " worker_id = (SELECT id FROM procrastinate_workers) RETURNING id"
            )
            async with asyncio.timeout(60):
                while not postgres.rows(url, "SELECT * FROM procrastinate_workers"):
                    await asyncio.sleep(0.05)
            assert len(postgres.rows(url, fetched)) == 1
            await work.has_ended(2)


async def test_a_worker_that_others_gave_up_works_again(postgres: PostgresServer, url: str) -> None:
    """It was paused, and its row is gone, to which its jobs refer."""
    work = Work()
    work.gate.set()
    with PostgresJournal(url) as journal:
        engine = open_engine("postgres", journal, stall=STALL)
        async with running(engine, work):
            await engine.put([Job(2, "q")])
            await work.has_ended(2)
            postgres.rows(url, "DELETE FROM procrastinate_workers")
            await engine.put([Job(3, "q")])
            await work.has_ended(3)


async def test_a_slow_worker_is_not_removed_by_another_one(
    postgres: PostgresServer, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its jobs go to others, but without its row each of its fetches would be an error."""
    slow, other = Work(), Work()
    slow.gate.set()
    late = "UPDATE procrastinate_workers SET last_heartbeat = now() - interval '10 minutes'"
    is_late = (
        "SELECT 1 FROM procrastinate_workers WHERE last_heartbeat < now() - interval '1 minute'"
    )
    with PostgresJournal(url) as journal:
        engine = open_engine("postgres", journal, stall=8.0)
        async with running(engine, slow):
            await engine.put([Job(2, "q")])
            await slow.has_ended(2)
            postgres.rows(url, late)
            await until(lambda: not postgres.rows(url, is_late))
            postgres.rows(url, late)  # its next heartbeat comes in two seconds
            async with running(open_engine("postgres", journal, stall=STALL), other, "z"):
                await engine.put([Job(3, "z")])
                await other.has_ended(3)
                await engine.put([Job(4, "q")])
                await slow.has_ended(4)
    assert "foreign key" not in caplog.text
    assert "its jobs wait" not in caplog.text


async def test_a_worker_beats_before_it_fetches_if_its_loop_was_too_busy(
    postgres: PostgresServer, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    fetch = queries["fetch_job"]
    with PostgresJournal(url) as journal:
        engine = open_engine("postgres", journal, stall=STALL)
        await engine.open()
        connector = PatientConnector(PostgresAddress(url), 1, JobSlots(9), STALL)
        await connector.open_async()
        try:
            for entry, worker in ((2, 77), (3, 77)):
                await engine.put([Job(entry, "q")])
                row = await connector.execute_query_one_async(
                    fetch, queues=["n-q"], worker_id=worker
                )
                assert row["args"] == {"id": entry}
                assert row["worker_id"] == worker
        finally:
            await connector.close_async()
            await engine.close()
    assert not caplog.records


async def test_tables_that_were_dropped_are_made_again_by_opening(
    postgres: PostgresServer, url: str
) -> None:
    """The tables of an engine hold nothing that is missed."""
    with PostgresJournal(url) as journal:
        engine = open_engine("postgres", journal, stall=STALL)
        await engine.open()
        schema = postgres.rows(url, "SELECT current_schema()")[0][0]
        postgres.rows(url, f"DROP SCHEMA {schema} CASCADE; CREATE SCHEMA {schema}")
        with pytest.raises(EngineError):
            await engine.put([Job(1, "q")])
        await engine.open()
        await engine.put([Job(1, "q")])
        assert list(await engine.find_lost([1, 2])) == [2]
        await engine.close()


async def test_a_stream_that_stores_nothing_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the stream are damaged: the server answers, and confirms no message."""
    calls: list[str] = []

    async def call_api(_client: object, name: str, _body: object) -> dict[str, object]:
        calls.append(name.split(".holdfast-", maxsplit=1)[0])
        return {}

    async def put_some(_stream: object, _client: object, jobs: Sequence[Job]) -> None:
        calls.append(f"put {[job.id for job in jobs]}")
        if "STREAM.DELETE" not in calls:
            raise TimeoutError

    class Server:
        async def publish(self, subject: str) -> None:
            calls.append(subject)

    monkeypatch.setattr(nats_stream, "call_api", call_api)
    monkeypatch.setattr(nats_stream.JobStream, "_put_some", put_some)
    await nats_stream.JobStream("s", STALL).put(cast("Client", Server()), [Job(5, "q")])
    anew = ["STREAM.INFO", "STREAM.DELETE", "STREAM.CREATE"]
    assert calls == ["put [5]", *anew, "put [5]", "holdfast.s.wakes.n-q"]


async def test_a_consumer_that_is_ahead_of_its_stream_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A consumer came back that had delivered 758 messages of a stream that has 25."""
    calls: list[str] = []

    async def call_api(_client: object, name: str, _body: object) -> dict[str, object]:
        calls.append(name.split(".holdfast-", maxsplit=1)[0])
        if name.startswith("STREAM"):
            return {"state": {"last_seq": 25}}
        is_new = "CONSUMER.DELETE" in calls
        return {"delivered": {"stream_seq": 0 if is_new else 758}}

    monkeypatch.setattr(nats_stream, "call_api", call_api)
    stream = nats_stream.JobStream("s", STALL)
    await stream.create_consumer(cast("Client", object()), "q")
    create = "CONSUMER.DURABLE.CREATE"
    assert calls == [create, "STREAM.INFO", "CONSUMER.DELETE", create]


# A stop of the PostgreSQL engine. The pool of the driver swallows a cancellation that comes when a
# connection has just been returned.


async def _pass_turns(turns: int) -> None:
    """Let the loop turn so many times: whatever is in between happens."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def test_a_statement_that_is_cancelled_as_it_gets_a_connection_is_cancelled(
    postgres: PostgresServer, url: str
) -> None:
    connector = PatientConnector(PostgresAddress(url), 1, JobSlots(1))
    await connector.open_async()
    cancelled = 0
    for turns in range(16):
        async with connector.pool.connection():
            waiting = asyncio.create_task(connector.execute_query_all_async("SELECT 1 AS one"))
            await _pass_turns(16)
        await _pass_turns(turns)
        if waiting.cancel():
            cancelled += 1
            await asyncio.wait([waiting], timeout=20)
            assert waiting.cancelled(), turns
    assert cancelled > 0
    await connector.close_async()


async def test_a_run_that_is_cancelled_as_it_begins_ends(
    postgres: PostgresServer, url: str
) -> None:
    engine = PostgresEngine(PostgresAddress(url), stall=1.0)
    await engine.open()

    async def handle(entry: int) -> None:
        raise AssertionError(entry)

    runs = []
    for turns in range(16):
        run = asyncio.create_task(engine.run(handle, ["q"], JobSlots(1)))
        await _pass_turns(turns)
        run.cancel()
        runs.append(run)
    _, going = await asyncio.wait(runs, timeout=20)
    assert [turns for turns, run in enumerate(runs) if run in going] == []
    await engine.close()


# A proxy keeps the open connections alive and passes nothing on.

MOST_SECONDS = 60.0
"""The driver asks the server for five seconds to cancel a statement; on a busy machine."""


async def do_nothing(_entry: int) -> None:
    """Do a job."""


@pytest.mark.slow  # starts a program or a server
async def test_a_worker_stops_while_its_database_is_silent(
    postgres: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_connector, "SECONDS_FOR_STATEMENT", 1.0)
    monkeypatch.setattr(postgres_connector, "_SECONDS_TO_STOP", 0.2)
    async with Proxy(postgres.port) as proxy, asyncio.timeout(MOST_SECONDS):
        engine = PostgresEngine(
            PostgresAddress(url.replace(f":{postgres.port}/", f":{proxy.port}/"))
        )
        await engine.open()
        delivering = asyncio.create_task(engine.run(do_nothing, ["q"], JobSlots(1)))
        while not postgres.rows(url, "SELECT 1 FROM procrastinate_workers"):
            await asyncio.sleep(0.01)
        known = proxy.connections
        beginning = asyncio.create_task(engine.run(do_nothing, ["q"], JobSlots(1)))
        while proxy.connections == known:
            await asyncio.sleep(0.001)
        proxy.silence()
        finding = asyncio.create_task(engine.find_lost([1]))
        await asyncio.sleep(0)
        for run in (delivering, beginning):
            run.cancel()
        await asyncio.wait([finding, delivering, beginning])
        assert delivering.cancelled()
        assert beginning.cancelled()
        with pytest.raises(EngineError, match="did not respond in time"):
            await finding
        await engine.close()
