"""What a request and its response are, over real connections."""

from __future__ import annotations

import asyncio
import gzip
import subprocess
import sys
import zlib
from collections.abc import Awaitable, Callable

import pytest
from tests.transport.raw import Client, RawServer, Serve, fetch, read_all

from holdfast.core.errors import ConfigurationError
from holdfast.testing.emulator import Emulator
from holdfast.transport.http import HttpTransport
from holdfast.transport.port import HttpRequest, Timeouts

Start = Callable[[Serve], Awaitable[RawServer]]

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def test_importing_the_transport_does_not_import_the_client_library() -> None:
    code = "import sys, holdfast.transport.http; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_headers_and_body_are_sent_unchanged(transport: HttpTransport, raw: Start) -> None:
    seen: list[bytes] = []

    async def serve(client: Client) -> None:
        seen.append(await client.request())
        await client.send(OK)

    server = await raw(serve)
    request = HttpRequest(
        "POST",
        server.url + "?alt=sse",
        (("X-Key", "a  b"), ("content-type", "application/json")),
        b"{}",
    )
    async with transport.send(request, Timeouts()) as response:
        assert response.status == 200
        assert await read_all(response) == b"ok"
        assert await response.read() == b""
    head, _, body = seen[0].partition(b"\r\n\r\n")
    assert body == b"{}"
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /v1/x?alt=sse HTTP/1.1"
    assert b"X-Key: a  b" in lines
    assert [line for line in lines if line.lower().startswith(b"content-type")] == [
        b"content-type: application/json"
    ]
    assert not any(line.lower().startswith((b"cookie", b"authorization")) for line in lines)


async def test_header_names_come_back_in_lower_case_and_repeated_ones_joined(
    transport: HttpTransport, raw: Start
) -> None:
    async def serve(client: Client) -> None:
        await client.request()
        await client.send(
            b"HTTP/1.1 429 Slow\r\nRetry-After: 1\r\nX-A: 1\r\nx-a: 2\r\ncontent-length: 0\r\n\r\n"
        )

    server = await raw(serve)
    async with transport.send(HttpRequest("POST", server.url), Timeouts()) as response:
        assert response.status == 429
        assert response.headers["retry-after"] == "1"
        assert dict(response.headers) == {"retry-after": "1", "x-a": "1, 2", "content-length": "0"}
        assert len(response.headers) == 3
        assert response.headers.get("x-b", "none") == "none"
        assert response.headers.get("x-b") is None
        assert response.headers.get("X-A") == "1, 2"
        assert await response.read() == b""


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_compressed_bodies_are_decompressed(
    transport: HttpTransport, raw: Start, encoding: str
) -> None:
    text = b'{"a": "' + b"x" * 5000 + b'"}'
    packed = gzip.compress(text) if encoding == "gzip" else zlib.compress(text)

    async def serve(client: Client) -> None:
        assert encoding.encode() in await client.request()
        await client.send(
            b"HTTP/1.1 200 OK\r\ncontent-encoding: %b\r\ncontent-length: %d\r\n\r\n%b"
            % (encoding.encode(), len(packed), packed)
        )

    server = await raw(serve)
    assert await fetch(transport, server.url) == text


async def test_a_large_body_is_sent_whole(transport: HttpTransport, raw: Start) -> None:
    lengths: list[int] = []

    async def serve(client: Client) -> None:
        lengths.append(len((await client.request()).partition(b"\r\n\r\n")[2]))
        await client.send(OK)

    server = await raw(serve)
    await fetch(transport, server.url, body=b"x" * 5_000_000)
    assert lengths == [5_000_000]


async def test_redirects_and_cookies_are_left_alone(transport: HttpTransport, raw: Start) -> None:
    heads: list[bytes] = []

    async def serve(client: Client) -> None:
        while head := await client.request():
            heads.append(head)
            await client.send(
                b"HTTP/1.1 307 Go\r\nlocation: /other\r\nset-cookie: a=b\r\ncontent-length: 0\r\n\r\n"
            )

    server = await raw(serve)
    for _ in range(2):
        async with transport.send(HttpRequest("POST", server.url), Timeouts()) as response:
            assert response.status == 307
            assert response.headers["location"] == "/other"
            assert await response.read() == b""
    assert len(heads) == 2
    assert b"ookie" not in heads[1]


async def test_connections_are_used_again(transport: HttpTransport) -> None:
    async with Emulator() as emulator:
        for _ in range(5):
            body = b'{"model": "m", "stream": true, "messages": [{"role": "user", "content": "x"}]}'
            assert await fetch(transport, emulator.base_url + "/chat/completions", body=body)
        assert len(emulator.requests) == 5
        assert emulator.connections == 1


async def test_leaving_early_closes_the_connection(transport: HttpTransport, raw: Start) -> None:
    gone = asyncio.Event()

    async def serve(client: Client) -> None:
        await client.request()
        await client.chunked()
        await client.chunk(b"data: 1\n\n")
        assert await client.reader.read() == b""
        gone.set()

    server = await raw(serve)
    async with transport.send(HttpRequest("POST", server.url), Timeouts()) as response:
        assert await response.read() == b"data: 1\n\n"
    await asyncio.wait_for(gone.wait(), 60)


@pytest.mark.parametrize("stage", ["headers", "body"])
async def test_cancelling_closes_the_connection_at_once(
    transport: HttpTransport, raw: Start, stage: str
) -> None:
    waiting, gone = asyncio.Event(), asyncio.Event()

    async def serve(client: Client) -> None:
        await client.request()
        if stage == "body":
            await client.chunked()
            await client.chunk(b"data: 1\n\n")
        waiting.set()
        assert await client.reader.read() == b""
        gone.set()

    server = await raw(serve)
    task = asyncio.create_task(fetch(transport, server.url))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(gone.wait(), 60)


async def test_cancelling_an_unread_upload_closes_the_connection(
    transport: HttpTransport, raw: Start
) -> None:
    begun, gone = asyncio.Event(), asyncio.Event()

    async def serve(client: Client) -> None:
        await client.reader.readuntil(b"\r\n\r\n")
        begun.set()
        while not client.reader.at_eof():
            try:
                await client.reader.read(20_000)
            except ConnectionError:
                break
            await asyncio.sleep(0.001)
        gone.set()

    server = await raw(serve)
    task = asyncio.create_task(fetch(transport, server.url, body=b"x" * 30_000_000))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(gone.wait(), 60)


@pytest.mark.slow  # takes half a second or more
async def test_a_thousand_requests_at_once() -> None:
    transport = HttpTransport()
    body = b'{"model": "m", "stream": true, "messages": [{"role": "user", "content": "Hi"}]}'
    with Emulator() as emulator:
        url = emulator.base_url + "/chat/completions"
        bodies = await asyncio.gather(*(fetch(transport, url, body=body) for _ in range(1000)))
        assert all(b"[DONE]" in body for body in bodies)
        assert len(emulator.requests) == 1000
        await transport.aclose()


async def test_the_number_of_connections_can_be_limited() -> None:
    transport = HttpTransport(connections=3)
    body = b'{"model": "m", "messages": [{"role": "user", "content": "Hi"}]}'
    async with Emulator() as emulator:
        url = emulator.base_url + "/chat/completions"
        await asyncio.gather(*(fetch(transport, url, body=body) for _ in range(30)))
        assert emulator.connections <= 3
        await transport.aclose()


@pytest.mark.slow  # takes half a second or more
async def test_backpressure_reaches_the_server(transport: HttpTransport, raw: Start) -> None:
    sent = 0
    full = asyncio.Event()

    async def serve(client: Client) -> None:
        nonlocal sent
        await client.request()
        await client.chunked()
        for _ in range(2000):
            writing = asyncio.create_task(client.chunk(b"x" * 50_000))
            done, _ = await asyncio.wait({writing}, timeout=0.5)
            if not done:
                full.set()
            await writing
            sent += 50_000

    server = await raw(serve)
    async with transport.send(HttpRequest("POST", server.url), Timeouts()) as response:
        await asyncio.wait_for(full.wait(), 60)
        assert sent < 50_000_000
        assert await response.read()


async def test_after_aclose_a_request_opens_a_new_connection(transport: HttpTransport) -> None:
    async with Emulator() as emulator:
        await fetch(transport, emulator.base_url + "/models", method="GET", body=b"")
        await transport.aclose()
        await fetch(transport, emulator.base_url + "/models", method="GET", body=b"")
        assert emulator.connections == 2


def test_a_wrong_setting_is_named() -> None:
    with pytest.raises(ConfigurationError, match="connections"):
        HttpTransport(connections=-1)
    with pytest.raises(ConfigurationError, match="idle"):
        HttpTransport(idle=0)


def test_a_request_shows_no_header_and_no_body() -> None:
    request = HttpRequest("POST", "https://u:p@h/x", (("authorization", "Bearer sk-1"),), b"secret")
    assert "sk-1" not in repr(request)
    assert "secret" not in repr(request)
    assert "u:p" not in repr(request)
