"""Engines by address: which fits which journal, and that no message shows a password."""

from __future__ import annotations

import asyncio
import sys
import traceback
from contextlib import suppress
from typing import Any

import pytest
from nats.aio.client import Client
from tests.postgres_server import PostgresServer

from holdfast import PostgresJournal
from holdfast.core.errors import ConfigurationError
from holdfast.journal.inbox.dispatch_engine import DispatchEngine, Job, TransactionalEngine
from holdfast.journal.inbox.inbox_errors import EngineError
from holdfast.journal.memory import MemoryJournal
from holdfast.worker.engines import nats_connection, postgres_connector
from holdfast.worker.engines.engine_opening import open_engine
from holdfast.worker.engines.nats_connection import NatsAddress, NatsConnection

pytestmark = pytest.mark.anyio

SECRET = "hush-4711"


def test_the_address_and_the_journal_choose_the_engine(url: str) -> None:
    with PostgresJournal(url) as shared:
        assert open_engine(None, shared).name == "postgres"
        assert isinstance(open_engine("postgres", shared), TransactionalEngine)
        nats = open_engine("nats://broker", shared)
        assert nats.name == "nats"
        assert not isinstance(nats, TransactionalEngine)
        with pytest.raises(ConfigurationError, match="within one process"):
            open_engine("asyncio", shared)
    alone = MemoryJournal()
    assert open_engine(None, alone).name == open_engine("asyncio", alone).name == "asyncio"
    for address in ("postgres", "nats://broker"):
        with pytest.raises(ConfigurationError, match="belongs to one"):
            open_engine(address, alone)


@pytest.mark.parametrize(
    "address",
    [
        f"kafka://ada:{SECRET}@broker",
        f"nats://ada:{SECRET}@broker/a/b",
        f"nats://ada:{SECRET}@broker/sp@ce",
        f"nats://ada:{SECRET}@broker/x,nats://two",
        f"nats://ada:{SECRET}@broker:port",
        f"nats://ada:{SECRET}@broker?tls={SECRET}",
        "nats://",
        "",
        SECRET,
    ],
)
def test_a_wrong_address_is_refused_without_being_shown(address: str, url: str) -> None:
    with PostgresJournal(url) as shared, pytest.raises(ConfigurationError) as caught:
        open_engine(address, shared)
    shown = "".join(traceback.format_exception(caught.value))
    assert caught.value.argument == "engine"
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value)
    assert "broker" not in shown.split("ConfigurationError")[-1]


@pytest.mark.parametrize(
    ("package", "address", "extra"),
    [("procrastinate", "postgres", "worker"), ("nats", "nats://broker", "nats")],
)
def test_a_missing_package_is_named_with_its_extra(
    package: str, address: str, extra: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [m for m in sys.modules if f"{m}.".startswith(("holdfast.worker.", package))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with PostgresJournal(url) as shared, pytest.raises(ConfigurationError) as caught:
        open_engine(address, shared)
    assert f"[{extra}]" in str(caught.value)


async def read_failure(engine: DispatchEngine) -> str:
    with pytest.raises(EngineError) as caught:
        await engine.open()
    await engine.close()
    return "".join(traceback.format_exception(caught.value)) + repr(vars(caught.value))


@pytest.mark.slow  # starts a program or a server
async def test_a_server_that_is_gone_is_an_error_without_a_password(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_connection, "SECONDS_TO_CONNECT", 0.3)
    monkeypatch.setattr(postgres_connector, "SECONDS_TO_CONNECT", 0.3)
    with PostgresJournal(url) as shared:
        failure = await read_failure(open_engine(f"nats://ada:{SECRET}@127.0.0.1:9/x", shared))
    assert "nats://127.0.0.1:9/x cannot be reached" in failure
    assert SECRET not in failure
    with PostgresJournal(f"postgresql://ada:{SECRET}@127.0.0.1:9/x") as gone:
        failure = await read_failure(open_engine("postgres", gone))
    assert "postgresql://ada@127.0.0.1:9/x" in failure
    assert SECRET not in failure


async def test_an_engine_that_is_not_open_says_so(url: str) -> None:
    with PostgresJournal(url) as shared:
        for address in ("postgres", "nats://127.0.0.1:9"):
            engine = open_engine(address, shared)
            with pytest.raises(EngineError, match=r"not open. Await open\(\) first"):
                await engine.put([Job(1, "q")])
            with pytest.raises(EngineError, match="not open"):
                await engine.find_lost([1])


async def test_two_journals_have_identities_of_their_own(
    postgres: PostgresServer, url: str
) -> None:
    with PostgresJournal(url) as one, PostgresJournal(postgres.new_url()) as other:
        with PostgresJournal(url) as same:
            assert await one.identify() == await same.identify() != await other.identify()
        assert await one.for_tenant("acme").identify() == await one.identify()


async def test_tables_of_another_procrastinate_are_refused(
    postgres: PostgresServer, url: str
) -> None:
    with PostgresJournal(url) as shared:
        engine = open_engine("postgres", shared)
        await engine.open()
        postgres.rows(url, "DROP FUNCTION procrastinate_fetch_job_v2")
        with pytest.raises(EngineError, match="procrastinate_fetch_job_v2 is missing"):
            await engine.open()
        await engine.close()


# A server that is gone.


class DeafClient(Client):
    """A client in whose first try a cancellation is lost, as in `asyncio.wait_for` of Python 3.11."""

    async def connect(self, *_: Any, **__: Any) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await asyncio.sleep(60)

    async def close(self) -> None:
        """It has nothing to close."""


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> NatsConnection:
    monkeypatch.setattr(nats_connection, "Client", DeafClient)
    monkeypatch.setattr(nats_connection, "SECONDS_TO_CONNECT", 0.05)
    return NatsConnection(NatsAddress("nats://127.0.0.1:9"))


async def test_a_server_that_is_gone_is_reported(connection: NatsConnection) -> None:
    with pytest.raises(EngineError, match="cannot be reached: TimeoutError"):
        async with asyncio.timeout(60):
            await connection.open()


async def test_an_opening_that_is_cancelled_ends(
    connection: NatsConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_connection, "SECONDS_TO_CONNECT", 60.0)
    opening = asyncio.create_task(connection.open())
    await asyncio.sleep(0)
    opening.cancel()
    done, _ = await asyncio.wait([opening], timeout=10)
    assert done
    assert opening.cancelled()
    assert [one for one in asyncio.all_tasks() if one.get_name() == "holdfast-nats-connect"] == []
