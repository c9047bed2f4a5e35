"""A cancellation that the client of NATS swallowed let the opening of an engine wait without end."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from nats.aio.client import Client

from holdfast.journal.inbox.inbox_errors import EngineError
from holdfast.worker.engines import nats_connection
from holdfast.worker.engines.nats_connection import NatsAddress, NatsConnection

pytestmark = pytest.mark.anyio


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


async def test_the_server_is_said_to_be_gone(connection: NatsConnection) -> None:
    with pytest.raises(EngineError, match="cannot be reached: TimeoutError"):
        async with asyncio.timeout(10):
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
