"""Both parsers of HTTP keep the same bounds, whatever comes over a connection."""

from __future__ import annotations

import asyncio
import random

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.server.live_server import LiveServer, read_reply, serve

from holdfast.server.access import connections
from holdfast.server.access.connections import ConnectionBounds, find_protocol, make_server_config

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("parser", ["h11", "httptools"])]

POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def answer(request: Request) -> Response:
    body = await request.body()
    seen = {name: value for name, value in request.headers.items() if name.startswith("x-")}
    return JSONResponse({"bytes": len(body), "headers": seen})


def make_app() -> Starlette:
    return Starlette(routes=[Route("/", answer, methods=["GET", "POST"])])


async def send_without_end(server: LiveServer, first: bytes, piece: bytes) -> tuple[int, bytes]:
    """Send a piece again and again; return how many bytes the server took, and what it said."""
    reader, writer = await server.connect()
    writer.write(first)
    sent = 0
    async with asyncio.timeout(20):
        try:
            while sent < 8 << 20 and not reader.at_eof():
                writer.write(piece)
                sent += len(piece)
                await writer.drain()
                await asyncio.sleep(0)
            said = await reader.read()
        except OSError:
            said = b""
    writer.transport.abort()
    return sent, said


@pytest.mark.parametrize(
    ("first", "piece"),
    [
        (b"GET /", b"a" * 8192),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"X-A: " + b"a" * 8192 + b"\r\n"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: ", b"a" * 8192),
        (POST + b"1\r\na\r\n0\r\n", b"X-A: " + b"a" * 8192 + b"\r\n"),
        (POST + b"1\r\na\r\n0\r\nX-A: ", b"a" * 8192),
        (POST + b"1;", b"a" * 8192),
        (POST + b"1\r\na\r\n", b"0" * 8192),
    ],
    ids=[
        "path",
        "headers",
        "header",
        "trailers",
        "trailer",
        "name of a chunk",
        "length of a chunk",
    ],
)
async def test_what_has_no_end_is_not_kept(parser: str, first: bytes, piece: bytes) -> None:
    async with serve(make_app(), parser=parser) as server:
        sent, said = await send_without_end(server, first, piece)
        assert sent < 8 << 20
        assert not said or said.startswith(b"HTTP/1.1 400 ")
        assert (await server.request("GET", "/")).status == 200


async def test_a_header_after_the_body_is_none_of_the_request(parser: str) -> None:
    async with serve(make_app(), parser=parser) as server:
        reader, writer = await server.connect()
        writer.write(POST + b"2\r\nhi\r\n")
        await asyncio.sleep(0.01)
        writer.write(b"0\r\nX-Late: 1\r\n\r\n")
        reply = await read_reply(reader)
        assert reply.json() == {"bytes": 2, "headers": {}}
        writer.write(GET)  # the connection goes on
        assert (await read_reply(reader)).status == 200
        writer.close()


async def test_small_chunks_of_a_large_body_are_taken(parser: str) -> None:
    async with serve(make_app(), parser=parser) as server:
        reader, writer = await server.connect()
        writer.write(POST + b"1\r\na\r\n" * 60_000 + b"0\r\n\r\n")
        assert (await read_reply(reader)).json()["bytes"] == 60_000
        writer.close()


async def test_requests_that_are_sent_at_once_are_answered_in_order(parser: str) -> None:
    bounds = ConnectionBounds(most=2)
    async with serve(make_app(), bounds, parser) as server:
        reader, writer = await server.connect()
        writer.write(GET * 5)
        for _ in range(5):
            assert (await read_reply(reader)).json()["bytes"] == 0
        assert len(bounds.idle) == 1
        writer.close()
    assert not bounds.idle


@pytest.mark.parametrize(
    "head",
    [
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello of TLS\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: a\x00b\r\n\r\n",
    ],
)
async def test_a_request_that_is_none_is_refused(parser: str, head: bytes) -> None:
    async with serve(make_app(), parser=parser) as server:
        reader, writer = await server.connect()
        writer.write(head)
        writer.write_eof()
        async with asyncio.timeout(20):
            said = await reader.read()
        assert said.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 500 ")) or not said
        assert (await server.request("GET", "/")).status == 200
        writer.close()


async def test_any_bytes_leave_nothing_behind(parser: str) -> None:
    dice = random.Random(parser)
    bounds = ConnectionBounds()
    parts = [
        GET,
        POST,
        b"5\r\nhello\r\n",
        b"0\r\n\r\n",
        b"\r\n",
        b"X-A: 1\r\n",
        b"\x00\xff",
        b"GET ",
    ]
    async with serve(make_app(), bounds, parser) as server:
        for _ in range(60):
            _, writer = await server.connect()
            for _ in range(dice.randrange(1, 8)):
                writer.write(dice.choice(parts)[: dice.randrange(1, 40)])
                await asyncio.sleep(0)
            writer.transport.abort()
        async with asyncio.timeout(20):
            while bounds.open or bounds.idle or len(bounds.unknown):
                await asyncio.sleep(0.01)
        assert (await server.request("GET", "/")).status == 200


async def test_the_parser_that_is_installed_is_taken(
    parser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_PROTOCOLS", {parser: find_protocol(parser)})
    http = make_server_config(make_app()).http
    assert getattr(http, "func", None) is find_protocol(parser)
