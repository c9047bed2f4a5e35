"""Responses of a process that is killed: each client comes back with its number and ends with the exact text."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.server.note_agent import answer, final_text
from tests.server.processes import GONE, ServedProcess

from holdfast.testing import Emulator
from holdfast.testing.emulator import Pace, chaos

pytestmark = [pytest.mark.anyio, pytest.mark.slow]  # kills services

CLIENTS = 6
_CHAOS = chaos(seed=11, share=0.2)


class ResponseClient:
    """One client of one response, which comes back with its sequence number until it has ended.

    Args:
        base: the address of the server.
        message: the message.
    """

    def __init__(self, base: str, message: str) -> None:
        self.base = base
        self.message = message
        self.name = ""
        self.number = -1
        self.texts: dict[int, str] = {}
        self.withdrawals = 0
        self.status = ""
        self.has_text = asyncio.Event()

    async def follow(self) -> None:
        """Read until the response has ended."""
        async with aiohttp.ClientSession() as http:
            while not self.status:
                try:
                    await self._connect(http)
                except GONE:
                    await asyncio.sleep(0.02)

    async def _connect(self, http: aiohttp.ClientSession) -> None:
        if self.name:
            query = (
                f"?stream=true&starting_after={self.number}" if self.number >= 0 else "?stream=true"
            )
            sent = http.get(f"{self.base}/responses/{self.name}{query}")
        else:
            body = {"model": "noter", "input": self.message, "stream": True, "background": True}
            key = {"Idempotency-Key": self.message}
            sent = http.post(f"{self.base}/responses", json=body, headers=key)
        async with sent as response:
            if response.status == 503:
                return
            assert response.status == 200, await response.read()
            async for line in response.content:
                if line.startswith(b"data: "):
                    self._take(msgspec.json.decode(line[6:]))

    def _take(self, event: Any) -> None:
        assert event["sequence_number"] > self.number
        self.number = event["sequence_number"]
        kind = event["type"].removeprefix("response.")
        if kind == "created":
            self.name = event["response"]["id"]
        elif kind == "output_text.delta":
            at = event["output_index"]
            self.texts[at] = self.texts.get(at, "") + event["delta"]
            self.has_text.set()
        elif kind == "output_text.done":
            assert self.texts[event["output_index"]] == event["text"]
        elif kind == "failed" and event["response"]["error"]["code"] == "text_withdrawn":
            self.number, self.texts = -1, {}
            self.withdrawals += 1
        elif kind in ("completed", "failed", "incomplete"):
            self.status = event["response"]["status"]


async def test_each_client_ends_with_the_exact_text(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'talk.db'}"
    faults = lambda request: _CHAOS(request) or Pace(0.01)  # noqa: E731  # REASON: one line
    with (
        Emulator(answer, faults=faults) as emulator,
        ServedProcess(url, emulator.base_url, tmp_path) as process,
    ):
        base = process.api.removesuffix("/api/v1") + "/v1"
        clients = [ResponseClient(base, f"Note {number}") for number in range(CLIENTS)]
        following = [asyncio.create_task(client.follow()) for client in clients]
        for _ in range(2):
            await asyncio.wait_for(clients[0].has_text.wait(), 60)
            await process.kill()
            process.start()
        async with asyncio.timeout(60):
            await asyncio.gather(*following)
    for client in clients:
        assert client.status == "completed"
        assert client.texts[max(client.texts)] == final_text(client.message)
    begun = Counter((tmp_path / "notes").read_text().split())
    assert len(begun) == CLIENTS
    assert set(begun.values()) == {1}
