"""The least client: what both sides of a case read from a response, and no code beyond that.

Typed structs, so that skipping the other fields costs what msgspec makes it cost. A case's loop
stands in the case's own file. This module must never retry, validate, or hide a failure.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Self

import msgspec
from aiohttp import ClientSession, ClientTimeout, TCPConnector
from msgspec import Struct
from yarl import URL

KEY = "benchmark"


class Function(Struct):
    """Whole, or a fragment of `arguments`."""

    name: str = ""
    arguments: str = ""


class Call(Struct):
    """A tool call."""

    function: Function
    id: str = ""
    index: int = 0


class Said(Struct):
    """A message, or a delta of one."""

    content: str | None = None
    tool_calls: list[Call] | None = None


class Usage(Struct):
    """Tokens."""

    prompt_tokens: int
    completion_tokens: int


class Choice(Struct):
    """Of a whole reply."""

    message: Said
    finish_reason: str


class Completion(Struct):
    """A whole reply."""

    choices: list[Choice]
    usage: Usage


class ChunkChoice(Struct):
    """Of one event."""

    delta: Said
    finish_reason: str | None = None


class Chunk(Struct):
    """One event of a stream."""

    choices: list[ChunkChoice]
    usage: Usage | None = None


_completion = msgspec.json.Decoder(Completion).decode
_chunk = msgspec.json.Decoder(Chunk).decode
encode = msgspec.json.encode


class Client:
    """One connection pool and one address.

    Args:
        url: the address.
        keep: whether connections are used again.
    """

    def __init__(self, url: str, *, keep: bool = True) -> None:
        self._url = URL(url + "/chat/completions")
        self._headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        self._session = ClientSession(
            connector=TCPConnector(limit=0, force_close=not keep), timeout=ClientTimeout(total=None)
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def ask(self, body: bytes) -> Completion:
        """One request, one whole reply."""
        async with self._session.post(self._url, data=body, headers=self._headers) as response:
            return _completion(await response.read())

    async def chunks(self, body: bytes) -> AsyncIterator[Chunk]:
        """One request, its events as they come."""
        async with self._session.post(self._url, data=body, headers=self._headers) as response:
            rest = b""
            # To let aiohttp give single lines would cost twice as much.
            async for data in response.content.iter_any():
                read, start = rest + data, 0
                while (end := read.find(b"\n", start)) >= 0:
                    if read.startswith(b"data: {", start):
                        yield _chunk(read[start + 6 : end])
                    start = end + 1
                rest = read[start:]
