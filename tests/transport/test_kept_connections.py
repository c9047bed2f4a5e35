"""A kept connection that its server closes while the next request is sent on it."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable

import pytest
from tests.transport.raw import Client, RawServer, Serve, fails, fetch, read_all

from holdfast import Agent
from holdfast.core.errors import Landed
from holdfast.core.notices import BreakerChanged, RetryScheduled
from holdfast.transport.http import HttpTransport
from holdfast.transport.port import HttpRequest, Timeouts

Start = Callable[[Serve], Awaitable[RawServer]]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def reset(client: Client) -> None:
    sock = client.writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.writer.transport.abort()


class Closing:
    """Answers one request of each connection, and calls `second` with the next one on it.

    Args:
        second: what happens to the second request of a connection, after it was read.
        later: what happens to each connection after the first; by default as with the first.
    """

    def __init__(self, second: Serve | None = None, later: Serve | None = None) -> None:
        self._second = second
        self._later = later
        self.connections = 0
        self.requests: list[bytes] = []

    async def __call__(self, client: Client) -> None:
        self.connections += 1
        if self.connections > 1 and self._later is not None:
            self.requests.append(await client.request())
            await self._later(client)
            return
        self.requests.append(await client.request())
        await client.send(OK)
        if request := await client.request():
            self.requests.append(request)
            if self._second is not None:
                await self._second(client)


async def _reset(client: Client) -> None:
    reset(client)


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("second", [None, _reset], ids=["closed", "reset"])
async def test_a_request_is_sent_again_if_its_kept_connection_ends_without_a_byte(
    transport: HttpTransport, raw: Start, method: str, second: Serve | None
) -> None:
    serve = Closing(second)
    server = await raw(serve)
    assert await fetch(transport, server.url) == b"ok"
    assert await fetch(transport, server.url, method=method, body=b"") == b"ok"
    assert serve.connections == 2
    assert serve.requests[1] == serve.requests[2], "the same bytes"


async def test_a_request_that_must_be_sent_once_takes_no_kept_connection(
    transport: HttpTransport, raw: Start
) -> None:
    serve = Closing(None)
    server = await raw(serve)
    assert await fetch(transport, server.url) == b"ok"
    request = HttpRequest("POST", server.url, (), b"{}", is_once=True)
    async with transport.send(request, Timeouts()) as response:
        assert await read_all(response) == b"ok"
    assert (serve.connections, len(serve.requests)) == (2, 2)


@pytest.mark.parametrize(
    "path",
    ["/a%2Cb%3Bc%26d", "/%7Ea?q=%2C%3B%2F%26", "/?a=%41", "/a b%2C", "/é%2C?é%2C", "/%2C%zz"],
)
async def test_escapes_of_an_address_are_sent_as_they_are(
    transport: HttpTransport, raw: Start, path: str
) -> None:
    serve = Closing(None)
    server = await raw(serve)
    assert await fetch(transport, server.url.rstrip("/") + path) == b"ok"
    sent = {"/a b%2C": "/a%20b%2C", "/é%2C?é%2C": "/%C3%A9%2C?%C3%A9%2C", "/%2C%zz": "/%2C%25zz"}
    assert serve.requests[0].split()[1].decode().endswith(sent.get(path, path))


async def test_a_server_that_had_time_to_begin_gets_no_second_request(
    transport: HttpTransport, raw: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.transport.exchange._LONGEST_RACE", 0.0)
    serve = Closing(None)
    server = await raw(serve)
    assert await fetch(transport, server.url) == b"ok"
    error = await fails(transport, server.url)
    assert error.info.landed is Landed.UNKNOWN
    assert serve.connections == 1


async def test_a_new_connection_that_ends_without_a_byte_is_not_tried_again(
    transport: HttpTransport, raw: Start
) -> None:
    async def serve(client: Client) -> None:
        await client.request()

    server = await raw(serve)
    error = await fails(transport, server.url)
    assert (error.info.code, error.info.landed) == ("disconnected", Landed.UNKNOWN)
    assert server.connections == 1


@pytest.mark.parametrize(
    "answer", [b"H", b"\r", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 103 Early Hints\r\n\r\n"]
)
@pytest.mark.parametrize("ending", ["closed", "reset"])
async def test_after_one_byte_of_an_answer_nothing_is_sent_again(
    transport: HttpTransport, raw: Start, answer: bytes, ending: str
) -> None:
    arrived = asyncio.Event()

    async def second(client: Client) -> None:
        await client.send(answer)
        if ending == "reset":
            await arrived.wait()  # a reset discards what the other side has not read
            reset(client)

    server = await raw(Closing(second))
    assert await fetch(transport, server.url) == b"ok"
    task = asyncio.create_task(fails(transport, server.url))
    await _wait_for_bytes(transport)
    arrived.set()
    error = await task
    assert error.info.code in ("disconnected", "reset", "not_http")
    assert error.info.landed is Landed.UNKNOWN
    assert server.connections == 1


async def _wait_for_bytes(transport: HttpTransport) -> None:
    """Wait until the connection that carries a request has received a byte of its answer, or is gone."""
    assert transport._client is not None
    opened = transport._client.pool.find_open()
    assert opened is not None
    connector = opened.session.connector
    assert connector is not None
    while not connector._acquired:
        await asyncio.sleep(0)
    (protocol,) = connector._acquired
    while protocol.has_received and protocol.transport is not None:  # still of the answer before
        await asyncio.sleep(0)
    while not protocol.has_received and protocol.transport is not None:
        await asyncio.sleep(0)


async def test_the_second_request_fails_as_any_other(transport: HttpTransport, raw: Start) -> None:
    async def close(_: Client) -> None:
        return

    serve = Closing(later=close)
    server = await raw(serve)
    assert await fetch(transport, server.url) == b"ok"
    error = await fails(transport, server.url)
    assert (error.info.code, error.info.landed) == ("disconnected", Landed.UNKNOWN)
    assert (serve.connections, len(serve.requests)) == (2, 3), "sent twice and no more"


async def test_a_server_that_is_gone_may_still_have_the_first_request(
    transport: HttpTransport, raw: Start
) -> None:
    async def leave(_: Client) -> None:
        await server.stop()

    server = await raw(Closing(leave))
    assert await fetch(transport, server.url) == b"ok"
    error = await fails(transport, server.url)
    assert (error.info.code, error.info.landed) == ("connection_refused", Landed.UNKNOWN)


async def test_the_second_connection_is_a_new_one_though_others_are_kept(
    transport: HttpTransport, raw: Start
) -> None:
    asked = asyncio.Semaphore(0)
    over = asyncio.Event()
    ends: list[int] = []

    async def serve(client: Client) -> None:
        number = server.connections
        await client.request()
        asked.release()
        await over.wait()
        await client.send(OK)
        if await client.request():
            ends.append(number)

    server = await raw(serve)
    tasks = [asyncio.create_task(fetch(transport, server.url)) for _ in range(3)]
    for _ in tasks:
        await asked.acquire()
    over.set()
    await asyncio.gather(*tasks)
    assert await fetch(transport, server.url) == b"ok"
    assert (server.connections, len(ends)) == (4, 1), "one kept connection was tried, and a new one"


async def test_a_large_body_that_was_sent_in_part_is_sent_again_from_its_beginning(
    transport: HttpTransport, raw: Start
) -> None:
    body = bytes(range(256)) * 20_000
    bodies: list[bytes] = []

    async def serve(client: Client) -> None:
        if server.connections > 1:
            bodies.append((await client.request()).partition(b"\r\n\r\n")[2])
            await client.send(OK)
            return
        await client.request()
        await client.send(OK)
        await client.reader.readuntil(b"\r\n\r\n")
        await client.reader.readexactly(100_000)

    server = await raw(serve)
    assert await fetch(transport, server.url) == b"ok"
    assert await fetch(transport, server.url, body=body) == b"ok"
    assert bodies == [body]


@pytest.mark.parametrize("limit", ["first_byte", "total"])
async def test_a_limit_that_expires_on_a_kept_connection_is_not_a_reason_to_send_again(
    transport: HttpTransport, raw: Start, limit: str
) -> None:
    async def stay_silent(client: Client) -> None:
        await client.reader.read()

    server = await raw(Closing(stay_silent))
    assert await fetch(transport, server.url) == b"ok"
    error = await fails(transport, server.url, Timeouts(**{limit: 0.1}))
    assert error.info.code == f"{limit}_timeout"
    assert server.connections == 1


async def test_the_limits_hold_on_the_second_connection(
    transport: HttpTransport, raw: Start
) -> None:
    async def stay_silent(client: Client) -> None:
        await client.reader.read()

    server = await raw(Closing(later=stay_silent))
    assert await fetch(transport, server.url) == b"ok"
    error = await fails(transport, server.url, Timeouts(total=0.2))
    assert (error.info.code, error.info.landed) == ("total_timeout", Landed.UNKNOWN)
    assert server.connections == 2


async def test_the_limit_of_the_whole_request_holds_while_the_second_connection_is_made(
    client_tls: ssl.SSLContext, server_tls: ssl.SSLContext
) -> None:
    silent: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Client(reader, writer)
        await client.request()
        await client.send(OK)
        await client.request()
        server.close()
        replacement.append(
            await asyncio.start_server(lambda _, late: silent.append(late), "127.0.0.1", port)
        )
        writer.transport.abort()

    replacement: list[asyncio.Server] = []
    transport = HttpTransport(tls=client_tls)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_tls)
    port = server.sockets[0].getsockname()[1]
    url = f"https://127.0.0.1:{port}/v1"
    assert await fetch(transport, url) == b"ok"
    error = await fails(transport, url, Timeouts(total=0.3, connect=30))
    assert (error.info.code, error.info.landed) == ("total_timeout", Landed.UNKNOWN)
    await transport.aclose()
    for writer in silent:
        writer.transport.abort()
    replacement[0].close()


async def test_a_cancellation_between_the_two_ends_the_request(
    transport: HttpTransport, raw: Start
) -> None:
    taken, gone = asyncio.Event(), asyncio.Event()

    async def stay_silent(client: Client) -> None:
        taken.set()
        await client.reader.read()
        gone.set()

    server = await raw(Closing(later=stay_silent))
    assert await fetch(transport, server.url) == b"ok"
    task = asyncio.create_task(fetch(transport, server.url))
    await taken.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await gone.wait()
    assert server.connections == 2


async def test_a_cancellation_as_the_kept_connection_ends_sends_nothing_again(
    transport: HttpTransport, raw: Start
) -> None:
    async def cancel(_: Client) -> None:
        task.cancel()

    serve = Closing(cancel)
    server = await raw(serve)
    assert await fetch(transport, server.url) == b"ok"
    task = asyncio.create_task(fetch(transport, server.url))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (serve.connections, len(serve.requests)) == (1, 2)


async def test_closing_the_transport_sends_nothing_again(
    transport: HttpTransport, raw: Start
) -> None:
    async def close(client: Client) -> None:
        await transport.aclose()
        await client.reader.read()

    serve = Closing(close)
    server = await raw(serve)
    assert await fetch(transport, server.url) == b"ok"
    error = await fails(transport, server.url)
    assert (error.info.code, error.info.landed) == ("closed", Landed.UNKNOWN)
    assert (serve.connections, len(serve.requests)) == (1, 2)


async def test_over_tls_a_request_is_sent_again_too(
    client_tls: ssl.SSLContext, server_tls: ssl.SSLContext
) -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        client = Client(reader, writer)
        await client.request()
        await client.send(OK)
        await client.request()
        writer.transport.abort()

    transport = HttpTransport(tls=client_tls)
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_tls) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        for _ in range(2):
            assert await fetch(transport, url) == b"ok"
        await transport.aclose()
    assert connections == 2


async def test_nobody_is_told_and_no_turn_waits(raw: Start) -> None:
    events = (
        b'data: {"choices":[{"index":0,"delta":{"content":"Fine."},"finish_reason":"stop"}]}\n\n'
        b"data: [DONE]\n\n"
    )

    async def serve(client: Client) -> None:
        await client.request()
        await client.chunked()
        await client.chunk(events)
        await client.send(b"0\r\n\r\n")
        await client.request()  # the next one, which gets no answer

    server = await raw(serve)
    agent: Agent[str] = Agent("openai:m", base_url=server.url, api_key="k")
    notices: list[object] = []
    for _ in range(20):
        async with agent.stream("How are you?") as run:
            notices += [
                item async for item in run if isinstance(item, RetryScheduled | BreakerChanged)
            ]
        assert run.result.text == "Fine."
    assert notices == []
    assert server.connections == 20


# Bytes that wait on a kept connection before a request is sent are never read as its response.


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
