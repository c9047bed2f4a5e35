"""Every failure of a request, and its error."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable

import pytest
from tests.transport.raw import Client, RawServer, Serve, fails, fetch

from holdfast.core.errors import ErrorCategory, Landed, TransportError
from holdfast.transport.http import HttpTransport
from holdfast.transport.port import HttpRequest, Timeouts

Start = Callable[[Serve], Awaitable[RawServer]]


def reset(client: Client) -> None:
    sock = client.writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.writer.transport.abort()


async def test_refused(transport: HttpTransport) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        error = await fails(transport, f"http://127.0.0.1:{port}/v1")
    assert error.info.code == "connection_refused"
    assert error.info.landed is Landed.NO
    assert error.info.category is ErrorCategory.TRANSIENT
    assert f"127.0.0.1:{port}" in error.info.safe


async def test_a_name_that_does_not_exist(transport: HttpTransport) -> None:
    error = await fails(transport, "http://provider.invalid/v1")
    assert error.info.code == "dns"
    assert error.info.landed is Landed.NO
    assert "provider.invalid" in error.info.safe


async def test_reset_before_the_headers_may_have_landed(
    transport: HttpTransport, raw: Start
) -> None:
    async def serve(client: Client) -> None:
        await client.request()
        reset(client)

    error = await fails(transport, (await raw(serve)).url)
    assert error.info.code == "reset"
    assert error.info.landed is Landed.UNKNOWN


async def test_closed_before_the_headers_may_have_landed(
    transport: HttpTransport, raw: Start
) -> None:
    async def serve(client: Client) -> None:
        await client.request()

    error = await fails(transport, (await raw(serve)).url)
    assert error.info.code == "disconnected"
    assert error.info.landed is Landed.UNKNOWN


async def test_an_idle_connection_that_the_server_closed_is_not_used_again(
    transport: HttpTransport, raw: Start
) -> None:
    closed = asyncio.Event()

    async def serve(client: Client) -> None:
        await client.request()
        await client.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        client.writer.close()
        await client.writer.wait_closed()
        closed.set()

    server = await raw(serve)
    assert await fetch(transport, server.url) == b"ok"
    await closed.wait()
    for _ in range(3):
        await asyncio.sleep(0)
    assert await fetch(transport, server.url) == b"ok"
    assert server.connections == 2


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("ending", ["closed", "reset"])
async def test_a_body_that_ends_early_is_an_error_and_not_an_end(
    transport: HttpTransport, raw: Start, framing: str, ending: str
) -> None:
    async def serve(client: Client) -> None:
        await client.request()
        if framing == "length":
            await client.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
        else:
            await client.chunked()
            await client.chunk(b"half")
        if ending == "reset":
            reset(client)

    request = HttpRequest("POST", (await raw(serve)).url)
    async with transport.send(request, Timeouts()) as response:
        assert await response.read() == b"half", "what arrived is delivered before the error"
        for _ in range(2):
            with pytest.raises(TransportError) as caught:
                await response.read()
            assert caught.value.info.code == "payload"
            assert caught.value.info.landed is Landed.UNKNOWN
            assert caught.value.info.category is ErrorCategory.TRANSIENT


async def test_what_arrived_while_the_reader_was_busy_is_delivered_before_the_error(
    transport: HttpTransport, raw: Start
) -> None:
    over = asyncio.Event()

    async def serve(client: Client) -> None:
        await client.request()
        await client.chunked()
        await client.chunk(b"one ")
        await client.chunk(b"two")
        client.writer.close()
        await client.writer.wait_closed()
        over.set()

    request = HttpRequest("POST", (await raw(serve)).url)
    async with transport.send(request, Timeouts()) as response:
        await over.wait()
        await asyncio.sleep(0.05)
        assert await response.read() == b"one two"
        with pytest.raises(TransportError):
            await response.read()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"zz\r\nxx\r\n", id="no chunk size"),
        pytest.param(b"2\r\nokXX3\r\n", id="no line end after a chunk"),
    ],
)
async def test_damaged_chunks_are_an_error(
    transport: HttpTransport, raw: Start, body: bytes
) -> None:
    async def serve(client: Client) -> None:
        await client.request()
        await client.chunked()
        await client.send(body)
        await client.reader.read()

    error = await fails(transport, (await raw(serve)).url, Timeouts(total=5))
    assert error.info.code in ("payload", "not_http")


async def test_a_damaged_compressed_body_is_an_error(transport: HttpTransport, raw: Start) -> None:
    async def serve(client: Client) -> None:
        await client.request()
        await client.send(
            b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 8\r\n\r\nnot gzip"
        )

    error = await fails(transport, (await raw(serve)).url)
    assert error.info.code == "payload"


@pytest.mark.parametrize("encoding", ["br", "zstd"])
async def test_a_compression_that_nobody_asked_for_is_named(
    transport: HttpTransport, raw: Start, encoding: str
) -> None:
    async def serve(client: Client) -> None:
        request = await client.request()
        assert (
            encoding.encode()
            not in request.lower().partition(b"accept-encoding:")[2].split(b"\r\n")[0]
        )
        head = f"HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: 4\r\n\r\n"
        await client.send(head.encode() + b"\x28\xb5\x2f\xfd")

    error = await fails(transport, (await raw(serve)).url)
    assert (error.info.code, error.info.category) == ("encoding", ErrorCategory.CLIENT_ERROR)
    assert error.info.landed is Landed.UNKNOWN
    assert f"not asked for: {encoding}" in str(error)


@pytest.mark.parametrize(
    "answer", [b"SSH-2.0-OpenSSH_9.2\r\n", b"\x15\x03\x01\x00\x02\x02\x50\r\n\r\n"]
)
async def test_a_server_that_does_not_speak_http(
    transport: HttpTransport, raw: Start, answer: bytes
) -> None:
    async def serve(client: Client) -> None:
        await client.request()
        await client.send(answer)

    error = await fails(transport, (await raw(serve)).url)
    assert error.info.code in ("not_http", "disconnected")
    assert error.info.landed is Landed.UNKNOWN


async def test_https_to_a_server_without_tls(transport: HttpTransport, raw: Start) -> None:
    async def serve(client: Client) -> None:
        await client.reader.read(10)
        await client.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    error = await fails(transport, (await raw(serve)).url.replace("http:", "https:"))
    assert error.info.code == "tls"
    assert error.info.landed is Landed.NO


async def test_an_untrusted_certificate(
    transport: HttpTransport, server_tls: ssl.SSLContext
) -> None:
    from holdfast.testing.emulator import Emulator, Listen

    async with Emulator(listen=Listen(tls=server_tls)) as emulator:
        error = await fails(transport, emulator.base_url)
        assert emulator.requests == []
    assert error.info.code == "tls"
    assert error.info.landed is Landed.NO
    assert error.info.category is ErrorCategory.CLIENT_ERROR, "trying again does not help"
    assert "SSL_CERT_FILE" in error.info.safe


async def test_a_certificate_for_another_name(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    from holdfast.testing.emulator import Emulator, Listen

    transport = HttpTransport(tls=client_tls)
    async with Emulator(listen=Listen(tls=server_tls)) as emulator:
        right = emulator.base_url
        assert await fetch(transport, right + "/models", method="GET", body=b"")
        error = await fails(transport, right.replace("127.0.0.1", "127.0.0.2"))
        assert error.info.code in ("tls", "connection_refused")
        await transport.aclose()


@pytest.mark.parametrize(
    "url", ["", "api.example.org/v1", "ftp://host/x", "http://", "http:///v1", "http://[::1", "::"]
)
async def test_an_address_that_is_none(transport: HttpTransport, url: str) -> None:
    error = await fails(transport, url)
    assert error.info.code == "bad_url"
    assert error.info.landed is Landed.NO
    assert error.info.category is ErrorCategory.CLIENT_ERROR


async def test_a_key_with_a_line_break_is_named_and_not_shown(
    transport: HttpTransport, raw: Start
) -> None:
    async def serve(client: Client) -> None:
        assert await client.request() == b""

    url = (await raw(serve)).url
    request = HttpRequest("POST", url, (("authorization", "Bearer sk-secret\n"),), b"")
    with pytest.raises(TransportError) as caught:
        async with transport.send(request, Timeouts()):
            pass
    assert caught.value.info.code == "bad_header"
    assert caught.value.info.landed is Landed.NO
    assert "'authorization'" in caught.value.info.safe
    assert "sk-secret" not in f"{caught.value!r} {caught.value.info!r}"


async def test_no_error_shows_a_key_a_query_or_a_password(transport: HttpTransport) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        url = f"http://bob:hunter2@127.0.0.1:{port}/v1?key=sk-abc12345678"
        error = await fails(transport, url)
    shown = f"{error} {error.info.safe} {error.info.private} {error.info!r}"
    assert "hunter2" not in shown
    assert "sk-abc" not in shown
    assert "bob" not in error.info.safe
