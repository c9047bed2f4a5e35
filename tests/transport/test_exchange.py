"""Edge cases of one exchange: TLS, unread uploads, responses before the request is complete."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable

import pytest
from tests.transport.raw import Client, RawServer, Serve, fails, fetch, read_all

from holdfast.core.errors import Landed, TransportError
from holdfast.testing.emulator import Emulator, Listen, ResetAfterHeaders, Stall
from holdfast.transport.http import HttpTransport
from holdfast.transport.port import HttpRequest, Timeouts

Start = Callable[[Serve], Awaitable[RawServer]]
ASK = b'{"model": "m", "stream": true, "messages": [{"role": "user", "content": "Hi"}]}'


async def secure(server_tls: ssl.SSLContext, **settings: object) -> Emulator:
    emulator = Emulator(listen=Listen(tls=server_tls), **settings)  # type: ignore[arg-type]
    await emulator.start()
    return emulator


@pytest.fixture
async def trusting(client_tls: ssl.SSLContext) -> HttpTransport:
    return HttpTransport(tls=client_tls)


async def test_over_tls_connections_are_used_again(
    trusting: HttpTransport, server_tls: ssl.SSLContext
) -> None:
    emulator = await secure(server_tls)
    url = emulator.base_url + "/chat/completions"
    for _ in range(3):
        assert b"[DONE]" in await fetch(trusting, url, body=ASK)
    assert emulator.connections == 1
    await trusting.aclose()
    await emulator.stop()


@pytest.mark.parametrize("how", ["cancelled", "timeout", "left"])
async def test_over_tls_a_cancelled_request_closes_the_connection(
    trusting: HttpTransport, server_tls: ssl.SSLContext, how: str
) -> None:
    emulator = await secure(server_tls, faults=[Stall(1, 3600)])
    request = HttpRequest("POST", emulator.base_url + "/chat/completions", (), ASK)
    limits = Timeouts(between_chunks=0.2 if how == "timeout" else 60)
    first = asyncio.Event()

    async def talk() -> None:
        async with trusting.send(request, limits) as response:
            assert await response.read()
            first.set()
            if how != "left":
                await read_all(response)

    task = asyncio.create_task(talk())
    await first.wait()
    if how == "cancelled":
        task.cancel()
    await asyncio.wait({task})
    if how == "timeout":
        assert isinstance(error := task.exception(), TransportError)
        assert error.info.code == "stalled"
    await asyncio.wait_for(emulator.wait_idle(), 60)
    assert emulator.requests[0].client_gone
    await trusting.aclose()
    await emulator.stop()


async def test_over_tls_a_reset_is_an_error(
    trusting: HttpTransport, server_tls: ssl.SSLContext
) -> None:
    emulator = await secure(server_tls, faults=[ResetAfterHeaders()])
    with pytest.raises(TransportError) as caught:
        await fetch(trusting, emulator.base_url + "/chat/completions", body=ASK)
    assert caught.value.info.landed is Landed.UNKNOWN
    await trusting.aclose()
    await emulator.stop()


async def test_an_unread_upload_times_out(transport: HttpTransport, raw: Start) -> None:
    over = asyncio.Event()

    async def serve(client: Client) -> None:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await over.wait()

    server = await raw(serve)
    request = HttpRequest("POST", server.url, (), b"x" * 30_000_000)
    with pytest.raises(TransportError) as caught:
        async with transport.send(request, Timeouts(first_byte=0.3)):
            pass
    over.set()
    assert caught.value.info.code == "first_byte_timeout"
    assert caught.value.info.landed is Landed.UNKNOWN


async def test_an_answer_before_the_end_of_the_question_is_read(
    transport: HttpTransport, raw: Start
) -> None:
    async def serve(client: Client) -> None:
        await client.reader.readuntil(b"\r\n\r\n")
        await client.send(b"HTTP/1.1 413 Too Large\r\ncontent-length: 5\r\n\r\nlarge")
        while await client.reader.read(1 << 20):
            pass

    server = await raw(serve)
    request = HttpRequest("POST", server.url, (), b"x" * 20_000_000)
    async with transport.send(request, Timeouts()) as response:
        assert response.status == 413
        assert await read_all(response) == b"large"


async def test_an_empty_body_and_a_head_without_body(transport: HttpTransport, raw: Start) -> None:
    async def serve(client: Client) -> None:
        while await client.request():
            await client.send(b"HTTP/1.1 204 No Content\r\n\r\n")

    server = await raw(serve)
    for _ in range(2):
        assert await fetch(transport, server.url) == b""
    assert server.connections == 1


async def test_interim_answers_are_passed_over(transport: HttpTransport, raw: Start) -> None:
    async def serve(client: Client) -> None:
        await client.request()
        await client.send(b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n")
        await client.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    assert await fetch(transport, (await raw(serve)).url) == b"ok"


async def test_a_body_that_ends_with_the_connection_is_whole(
    transport: HttpTransport, raw: Start
) -> None:
    async def serve(client: Client) -> None:
        await client.request()
        await client.send(b"HTTP/1.0 200 OK\r\n\r\nall of it")
        client.writer.close()
        await client.writer.wait_closed()

    assert await fetch(transport, (await raw(serve)).url) == b"all of it"


async def test_headers_without_end_are_refused(transport: HttpTransport, raw: Start) -> None:
    async def serve(client: Client) -> None:
        await client.request()
        await client.send(b"HTTP/1.1 200 OK\r\n")
        for number in range(100_000):
            await client.send(b"x-%d: %b\r\n" % (number, b"y" * 1000))

    error = await fails(transport, (await raw(serve)).url, Timeouts(first_byte=5))
    assert error.info.code in ("not_http", "reset", "disconnected")


async def test_a_closed_transport_says_so_to_the_request_that_runs(
    transport: HttpTransport,
) -> None:
    async with Emulator(faults=[Stall(1, 3600)]) as emulator:
        request = HttpRequest("POST", emulator.base_url + "/chat/completions", (), ASK)
        async with transport.send(request, Timeouts()) as response:
            assert await response.read()
            await transport.aclose()
            with pytest.raises(TransportError):
                await response.read()


@pytest.mark.slow  # takes half a second or more
async def test_a_thousand_requests_that_are_cancelled_leave_nothing_behind(
    transport: HttpTransport,
) -> None:
    async with Emulator(faults=lambda request: Stall(1, 3600)) as emulator:
        url = emulator.base_url + "/chat/completions"
        tasks = [asyncio.create_task(fetch(transport, url, body=ASK)) for _ in range(1000)]
        while sum(entry.chunks for entry in emulator.requests) < 500:
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results)
        await asyncio.wait_for(emulator.wait_idle(), 60)
        assert all(entry.client_gone for entry in emulator.requests)
