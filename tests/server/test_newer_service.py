"""A service of a newer version starts beside an older one, and takes its turns over."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import aiohttp
import pytest
from tests.postgres_server import PostgresServer
from tests.server.note_agent import answer
from tests.server.processes import Client, ServedProcess
from tests.server.serving import read_problems

from holdfast.testing.emulator import Emulator, Pace

pytestmark = [pytest.mark.anyio, pytest.mark.slow]  # starts services as processes

NEWER = """
from tests.journal.newer_holdfast import add_steps
add_steps()
from tests.server.note_agent import main
main()
"""


async def test_a_newer_service_migrates_and_continues_the_turns_of_the_older_one(
    postgres: PostgresServer, url: str, tmp_path: Path
) -> None:
    with Emulator(answer, faults=lambda _: Pace(0.05)) as emulator:
        older = ServedProcess(url, emulator.base_url, tmp_path)
        newer = ServedProcess(url, emulator.base_url, tmp_path)
        newer.program = ["-c", NEWER]
        with older:
            clients = [Client([older.api, newer.api], f"s{n}", f"Note {n}") for n in range(5)]
            for client in clients:
                client.connections = 1  # the first one is to the older service
            reading = [asyncio.ensure_future(client.run()) for client in clients]
            for client in clients:
                await client.has_text.wait()
            with newer:
                async with asyncio.timeout(60):
                    await asyncio.gather(*reading)
                await check_refusing(older)
                older.send(signal.SIGTERM)
                await older.wait()
    for client in clients:
        client.check()
    for name in ("notes", "saved"):  # each note once
        lines = (tmp_path / name).read_text().splitlines()
        assert len(lines) == len(set(lines)) == 5
    assert postgres.rows(url, "SELECT DISTINCT worth FROM holdfast_runs") == [(7,)]


async def check_refusing(service: ServedProcess) -> None:
    """Check that a service of the older version is not ready, and accepts nothing."""
    async with aiohttp.ClientSession() as http:
        problems = await read_problems(http, service.api.removesuffix("/api/v1"))
        assert problems["journal"] == "does not work: JournalVersionError"
        body = {"agent": "noter", "message": "Note"}
        async with http.post(f"{service.api}/turns", json=body) as response:
            assert (response.status, (await response.json())["kind"]) == (503, "journal")
