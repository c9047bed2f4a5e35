"""Proxies of the environment, with a real proxy."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator

import pytest
from tests.transport.raw import fails, fetch

from holdfast import Agent
from holdfast.core.errors import ConfigurationError, Landed
from holdfast.errors import ErrorCategory, TransportError
from holdfast.testing import FakeClock
from holdfast.testing.emulator import Emulator, HttpStatus, Listen
from holdfast.transport.client_pool import find_proxy
from holdfast.transport.http import HttpTransport

BODY = b'{"model": "m", "messages": [{"role": "user", "content": "Hi"}]}'


class Proxy:
    """Leads every host to the emulator, by CONNECT or by a request with the whole address."""

    def __init__(self) -> None:
        self.target = 0
        self.answer = b""
        self.heads: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        if self.answer:
            writer.write(self.answer)
            await writer.drain()
            writer.close()
            return
        behind, to = await asyncio.open_connection("127.0.0.1", self.target)
        if head.startswith(b"CONNECT"):
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            method, url, rest = head.split(b" ", 2)
            path = b"/" + url.split(b"/", 3)[3]
            to.write(b" ".join((method, path, rest)))
        both = asyncio.gather(self._pipe(reader, to), self._pipe(behind, writer))
        await both

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
async def proxy(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Proxy]:
    made = Proxy()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    address = f"http://bob:hunter2@127.0.0.1:{server.sockets[0].getsockname()[1]}"
    monkeypatch.setenv("HTTP_PROXY", address)
    monkeypatch.setenv("http_proxy", address)
    monkeypatch.setenv("HTTPS_PROXY", address)
    yield made
    server.close()


async def test_a_plain_request_goes_through_the_proxy(
    transport: HttpTransport, proxy: Proxy
) -> None:
    async with Emulator() as emulator:
        proxy.target = int(emulator.origin.rpartition(":")[2])
        url = "http://provider.test/v1/chat/completions"
        assert b"You said: Hi" in await fetch(transport, url, body=BODY)
        await transport.aclose()
    assert proxy.heads[0].startswith(b"POST http://provider.test/v1/chat/completions HTTP/1.1")
    assert base64.b64encode(b"bob:hunter2") in proxy.heads[0]


async def test_a_request_over_tls_goes_through_a_tunnel(
    proxy: Proxy, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    transport = HttpTransport(tls=client_tls)
    async with Emulator(listen=Listen(tls=server_tls)) as emulator:
        proxy.target = int(emulator.origin.rpartition(":")[2])
        for _ in range(2):
            url = "https://provider.test/v1/chat/completions"
            assert b"You said: Hi" in await fetch(transport, url, body=BODY)
        assert emulator.connections == 1
        assert "proxy-authorization" not in emulator.requests[0].headers
        await transport.aclose()
    assert len(proxy.heads) == 1
    assert proxy.heads[0].startswith(b"CONNECT provider.test:443 HTTP/1.1")


async def test_a_proxy_that_refuses_is_named_and_nothing_landed(
    transport: HttpTransport, proxy: Proxy
) -> None:
    proxy.answer = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n"
    error = await fails(transport, "https://provider.test/v1")
    assert error.info.code == "proxy"
    assert error.info.landed is Landed.NO
    assert error.info.status == 407
    assert "user and a password" in error.info.safe
    assert "hunter2" not in f"{error} {error.info.private}"


async def test_a_proxy_that_hangs_up_is_named_and_nothing_landed(
    transport: HttpTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    monkeypatch.setenv("HTTPS_PROXY", f"127.0.0.1:{port}")
    error = await fails(transport, "https://provider.test/v1")
    assert error.info.code == "proxy"
    assert error.info.landed is Landed.NO
    assert f"127.0.0.1:{port}" in error.info.safe
    server.close()


async def test_a_proxy_that_is_not_there_is_named_and_nothing_landed(
    transport: HttpTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    error = await fails(transport, "https://provider.test/v1")
    assert error.info.code == "proxy"
    assert error.info.landed is Landed.NO
    assert "127.0.0.1:1" in error.info.safe
    assert "HTTPS_PROXY" in error.info.safe


def test_who_is_reached_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy:1")
    monkeypatch.setenv("http_proxy", "http://proxy:1")
    monkeypatch.setenv("NO_PROXY", "inside.test,.local")
    assert str(find_proxy("http", "provider.test")) == "http://proxy:1"
    assert find_proxy("https", "provider.test") is None
    for host in ("inside.test", "a.inside.test", "x.local", "localhost", "127.0.0.1", "::1"):
        assert find_proxy("http", host) is None, host
    monkeypatch.setenv("NO_PROXY", "*")
    assert find_proxy("http", "provider.test") is None


def test_a_proxy_for_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "proxy:3128")
    assert str(find_proxy("https", "provider.test")) == "http://proxy:3128"


@pytest.mark.parametrize("address", ["socks5://bob:hunter2@proxy:1", "http://", "http://[::1"])
def test_a_proxy_that_cannot_be_used_is_named_by_its_variable(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", address)
    with pytest.raises(ConfigurationError, match="ALL_PROXY") as caught:
        find_proxy("https", "provider.test")
    assert "hunter2" not in str(caught.value)


# Status 407 names the proxy and not the key of the provider.


@pytest.mark.parametrize("configured", [True, False])
async def test_a_plain_request_that_a_proxy_refuses_names_the_proxy(
    monkeypatch: pytest.MonkeyPatch, configured: bool
) -> None:
    page = HttpStatus(407, body="<html>Proxy Authentication Required</html>")
    async with Emulator(faults=lambda _: page) as proxy:
        if configured:
            monkeypatch.setenv("http_proxy", proxy.origin)
        base_url = "http://provider.test/v1" if configured else proxy.base_url
        agent = Agent("openai:m", base_url=base_url, api_key="k", clock=FakeClock())
        with pytest.raises(TransportError) as caught:
            await agent.run("go")
        assert len(proxy.requests) == 1
        named = f"the proxy {proxy.origin.removeprefix('http://')}"
    assert (named if configured else "a proxy on the way") in caught.value.info.safe
    assert "user and a password" in caught.value.info.safe
    assert caught.value.info.category is ErrorCategory.CLIENT_ERROR


@pytest.mark.parametrize("blank", ["", " ", "\t"])
def test_a_blank_proxy_variable_is_none(monkeypatch: pytest.MonkeyPatch, blank: str) -> None:
    monkeypatch.setenv("https_proxy", blank)
    assert find_proxy("https", "provider.test") is None
    monkeypatch.setenv("all_proxy", " http://proxy:1 ")
    assert str(find_proxy("https", "provider.test")) == "http://proxy:1"
