"""Bytes that wait on a kept connection before a request is sent are never taken for its response."""

import asyncio

import pytest
from tests.transport.raw import Client, RawServer, Serve, fails, fetch

from holdfast.transport.http import HttpTransport


async def make_pair(serve: Serve) -> tuple[RawServer, HttpTransport]:
    server = RawServer(serve)
    await server.start()
    return server, HttpTransport()


def response(text: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(text), text)


@pytest.mark.parametrize("read_before", [True, False])
async def test_a_second_response_is_not_the_reply_to_the_next_request(read_before: bool) -> None:
    first_is_read, stray_is_sent = asyncio.Event(), asyncio.Event()

    async def serve(client: Client) -> None:
        while await client.request():
            await client.send(response(b"asked %d" % server.connections))
            if server.connections == 1:
                await first_is_read.wait()
                await client.send(response(b"stray"))
                stray_is_sent.set()

    server, transport = await make_pair(serve)
    assert await fetch(transport, server.url) == b"asked 1"
    first_is_read.set()
    await stray_is_sent.wait()
    for _ in range(10 if read_before else 0):
        await asyncio.sleep(0)
    assert await fetch(transport, server.url) == b"asked 2"
    assert await fetch(transport, server.url) == b"asked 2"
    assert server.connections == 2
    await transport.aclose()
    await server.stop()


async def test_a_connection_that_the_server_closed_is_not_used() -> None:
    closed = asyncio.Event()

    async def serve(client: Client) -> None:
        if await client.request():
            await client.send(response(b"fine"))
            client.writer.close()
            await client.writer.wait_closed()
            closed.set()

    server, transport = await make_pair(serve)
    for _ in range(3):
        assert await fetch(transport, server.url) == b"fine"
        await closed.wait()
        closed.clear()
    await transport.aclose()
    await server.stop()


async def test_a_server_that_speaks_first_is_told_from_a_kept_connection() -> None:
    async def serve(client: Client) -> None:
        await client.send(b"220 mail.example ESMTP\r\n")
        await client.request()

    server, transport = await make_pair(serve)
    error = await fails(transport, server.url)
    assert error.info.code == "not_http"
    assert server.connections == 1
    await transport.aclose()
    await server.stop()
