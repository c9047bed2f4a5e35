"""Two services at one database: a conversation goes on at either, and a message to both is answered once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
from apps.registration.tests.flow.test_registration_by_chat import TO_PHOTO
from tests.free_ports import free_port

from registration.fixtures import list_codes
from registration.parties import Parties, ServiceProcess, emulate_parties
from registration.store import open_database

if TYPE_CHECKING:
    from tests.postgres_server import PostgresServer


class _Parent:
    """A parent who writes to one service or the other."""

    def __init__(self, http: aiohttp.ClientSession, addresses: list[str]) -> None:
        self.http = http
        self.addresses = addresses
        self.session: dict[str, str] = {}

    async def post(self, at: int, path: str, body: dict[str, object]) -> tuple[int, Any]:
        token = self.session.get("token")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        address = self.addresses[at % len(self.addresses)] + path
        async with self.http.post(address, json=body, headers=headers) as response:
            return response.status, await response.json()

    async def say(self, at: int, text: str, message: str) -> tuple[int, Any]:
        body: dict[str, object] = {
            "user_message": text,
            "session_id": self.session["session_id"],
            "message_id": message,
        }
        return await self.post(at, "/chat", body)


@asynccontextmanager
async def _serve_twice(folder: Path, url: str) -> AsyncIterator[tuple[Parties, _Parent]]:
    ports = [free_port(), free_port()]
    async with emulate_parties(folder, ports[0], url) as parties:
        environment = {**parties.environment, "REGISTRATION_REQUESTS_PER_WINDOW": "1000"}
        services = [ServiceProcess(environment, port, log=folder / f"{port}.log") for port in ports]
        try:
            for service in services:
                await service.start()
            async with aiohttp.ClientSession() as http:
                yield parties, _Parent(http, [f"http://127.0.0.1:{port}" for port in ports])
        finally:
            for service in services:
                await service.stop()


async def test_a_conversation_goes_on_at_either_service(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    url = postgres.new_url()
    async with _serve_twice(tmp_path, url) as (parties, parent):
        status, parent.session = await parent.post(0, "/sessions", {})
        assert status == 201
        steps = []
        for number, text in enumerate((list_codes(parties.season)[0], *TO_PHOTO[1:])):
            if number % 6 == 5:  # to both at once
                replies = await asyncio.gather(
                    *(parent.say(one, text, f"m{number}") for one in (0, 1))
                )
                assert replies[0] == replies[1]
                reply = replies[0]
            else:
                reply = await parent.say(number, text, f"m{number}")
            assert reply[0] == 200, reply
            steps.append(reply[1]["routine_number"])
        assert steps == sorted(set(steps)), steps
        assert steps[-1] == 34
        assert len(parties.providers.sms.inbox) == 1
        assert len(parties.providers.payments.requests) == 1
        database = await open_database(url)
        try:
            (row,) = await database.read(
                lambda tx: tx.execute("SELECT COUNT(*) AS n FROM messages")
            )
        finally:
            await database.close()
        assert row["n"] == len(TO_PHOTO)
