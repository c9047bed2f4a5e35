"""Large bodies: whole, in order, and no faster than the server takes them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from tests.transport.raw import Client, RawServer, Serve, fetch

from holdfast.core.errors import TransportError
from holdfast.transport.exchange import LARGE, LargeBody
from holdfast.transport.http import HttpTransport
from holdfast.transport.port import Timeouts

Start = Callable[[Serve], Awaitable[RawServer]]

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@pytest.mark.parametrize(
    "size", [1, LARGE - 1, LARGE, LARGE + 1, 2**20 - 1, 2**20, 2**20 + 1, 5_000_000]
)
async def test_every_byte_arrives_once_and_in_order(
    transport: HttpTransport, raw: Start, size: int
) -> None:
    body = random.Random(size).randbytes(size)
    seen: list[bytes] = []

    async def serve(client: Client) -> None:
        head, _, rest = (await client.request()).partition(b"\r\n\r\n")
        assert head.lower().count(b"content-length: %d" % size) == 1
        seen.append(rest)
        await client.send(OK)

    server = await raw(serve)
    assert await fetch(transport, server.url, body=body) == b"ok"
    assert seen == [body]


async def test_a_server_that_does_not_read_holds_the_sender_back_until_a_limit(
    transport: HttpTransport, raw: Start
) -> None:
    async def serve(client: Client) -> None:
        await client.reader.readuntil(b"\r\n\r\n")
        await asyncio.Event().wait()

    server = await raw(serve)
    with pytest.raises(TransportError) as caught:
        await fetch(
            transport, server.url, body=bytes(50_000_000), timeouts=Timeouts(first_byte=0.3)
        )
    assert caught.value.info.code == "first_byte_timeout"


async def test_a_server_that_leaves_in_the_middle_is_a_typed_error(
    transport: HttpTransport, raw: Start
) -> None:
    async def serve(client: Client) -> None:
        await client.reader.readexactly(100_000)
        client.writer.transport.abort()

    server = await raw(serve)
    with pytest.raises(TransportError):
        await fetch(transport, server.url, body=bytes(50_000_000))


def test_the_body_can_be_read_as_text() -> None:
    body = LargeBody("grüß".encode())
    assert (body.size, body.decode()) == (6, "grüß")
