"""Serves an application with uvicorn on loopback, in the event loop of the test."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self
from urllib.parse import quote

import aiohttp
import msgspec
import uvicorn
from yarl import URL


class _ShortPauses:
    """The module `asyncio` with short pauses, for the loop in which uvicorn looks whether it shall end.

    It looks ten times a second, and pauses once more: a quarter of a second for each test.
    """

    def __getattr__(self, name: str) -> object:
        return getattr(asyncio, name)

    @staticmethod
    async def sleep(seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.005))


vars(uvicorn.server)["asyncio"] = _ShortPauses()


@asynccontextmanager
async def serve(app: Any, *, to_port: int = 0, **options: Any) -> AsyncIterator[str]:
    """Serve an application; yield its address."""
    # Its own configuration of logs would close the handlers of the whole process.
    quiet = {"log_level": "critical", "log_config": None, "timeout_graceful_shutdown": 1}
    options = {**quiet, **options}
    config = uvicorn.Config(app, lifespan="on", ws="none", **options)
    server = uvicorn.Server(config)
    # With the protocol named, asyncio sends small pieces at once: otherwise each answer may take 40 ms.
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", to_port))
    task = asyncio.create_task(server.serve([listener]))
    try:
        while not server.started:
            if task.done():
                await task
            await asyncio.sleep(0.005)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listener.close()


class Answer(msgspec.Struct):
    """An answer: its status, its headers, its body, and the body as JSON."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Api:
    """A plain HTTP client of the native API."""

    def __init__(self, base: str, headers: dict[str, str] | None = None) -> None:
        self.base = f"{base}/api/v1"
        self._http = aiohttp.ClientSession(headers=headers)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._http.close()

    async def call(self, method: str, path: str, body: object = None, **options: Any) -> Answer:
        if body is not None:
            options["data"] = msgspec.json.encode(body)
            options.setdefault("headers", {}).setdefault("Content-Type", "application/json")
        url = URL(self.base + path, encoded=True)
        async with self._http.request(method, url, **options) as response:
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status, headers, await response.read())

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.call("GET", path, **options)

    async def post(self, path: str, body: object = None, **options: Any) -> Answer:
        return await self.call("POST", path, {} if body is None else body, **options)

    async def items(self, path: str, body: object = None, **headers: str) -> list[Any]:
        """Return the items of a stream, to its end."""
        headers["Accept"] = "text/event-stream"
        answer = await self.call("GET" if body is None else "POST", path, body, headers=headers)
        assert answer.status == 200, answer.body
        return [
            msgspec.json.decode(line.removeprefix("data: "))
            for line in answer.body.decode().split("\n")
            if line.startswith("data: ")
        ]


async def read_problems(http: aiohttp.ClientSession, base: str) -> dict[str, str]:
    """Wait until the service says that it is not ready, which it finds out once a second; say why."""
    async with asyncio.timeout(60):
        while True:
            async with http.get(f"{base}/ready") as ready:
                if ready.status == 503:
                    problems: dict[str, str] = (await ready.json())["problems"]
                    return problems
            await asyncio.sleep(0.05)


def in_path(session: str) -> str:
    """Return the path of a session."""
    return f"/sessions/{quote(session, safe='')}"
