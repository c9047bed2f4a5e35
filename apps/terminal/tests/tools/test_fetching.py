import asyncio
import base64
import gzip
import shutil
import ssl
import subprocess
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from apps.terminal.tests.tools.workbench import Workbench
from hypothesis import given
from hypothesis import strategies as st

from adh.storage.call_context import ApprovedCall
from adh.tools import web_addresses
from adh.tools.fetch_tool import BoundedBody
from adh.tools.web_addresses import AddressError, check_url, is_public

PRIVATE = ApprovedCall(private_addresses=True)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serve(handler: Handler) -> AsyncIterator[str]:
    server = web.Server(handler)
    runner = web.ServerRunner(server)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def answer(**fields: Any) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(**fields)

    return handle


@asynccontextmanager
async def serve_bytes(*blocks: bytes, hang: bool = False) -> AsyncIterator[str]:
    """Serves the same bytes to everybody."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for block in blocks:
            writer.write(block)
        await writer.drain()
        if hang:
            await reader.read()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def test_a_page_is_fetched(bench: Workbench) -> None:
    async with serve(answer(text="grüße", status=404)) as url:
        page = await bench.call_json("fetch_url", PRIVATE, url=f"{url}/a?b#c")
    assert page["status"] == 404
    assert page["text"] == "grüße"
    assert page["content_type"] == "text/plain"
    assert page["truncated"] is False


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://10.1.2.3/",
        "http://192.168.0.1:8080/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fe80::1]/",
        "http://[fd00::1]/",
        "http://0.0.0.0/",
        "http://100.64.0.1/",
        "http://224.0.0.1/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://255.255.255.255/",
        "file:///etc/passwd",
        "gopher://example.org/",
        "ftp://example.org/",
        "https://",
        "http:///path",
        "//example.org",
        "http://user:pw@example.org/",
        "http://example.org@127.0.0.1/",
        "http://example.org:99999/",
        "http://exa mple.org/",
        "http://example.org/\r\nHost: x",
        "",
    ],
)
async def test_what_is_not_a_public_page_is_not_fetched(bench: Workbench, url: str) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        raise AssertionError("nothing must be resolved")

    bench.resolve = resolve
    text = await bench.call("fetch_url", url=url)
    assert text.startswith("AddressError: url ")
    assert len(url) < 9 or url not in text


@pytest.mark.parametrize("host", ["localhost", "0x7f.1", "inner.example", "mixed.example"])
async def test_a_name_that_leads_inside_is_not_fetched(bench: Workbench, host: str) -> None:
    async def resolve(name: str, port: int) -> Sequence[str]:
        known = {"inner.example": ["10.0.0.1"], "mixed.example": ["93.184.216.34", "127.0.0.1"]}
        return known.get(name) or await web_addresses.resolve_host(name, port)

    bench.resolve = resolve
    text = await bench.call("fetch_url", url=f"http://{host}:1/")
    assert text == "AddressError: url leads to a loopback, link-local or private address."


@pytest.mark.parametrize("host", ["2130706433", "127.1", "0177.0.0.1"])
async def test_an_address_in_an_old_notation_is_not_fetched(bench: Workbench, host: str) -> None:
    text = await bench.call("fetch_url", url=f"http://{host}:1/")
    assert text.endswith(
        ("url is not a URL.", "url leads to a loopback, link-local or private address.")
    )


async def test_a_host_that_is_not_found_is_told(bench: Workbench) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        raise OSError(-2, "Name or service not known")

    bench.resolve = resolve
    text = await bench.call("fetch_url", url="http://secret-name.example/")
    assert text == "ClientConnectorDNSError: url names a host that is not found."


async def test_what_was_checked_is_connected_to_and_nothing_is_resolved_again(
    bench: Workbench,
) -> None:
    asked: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    bench.resolve = resolve
    async with serve(answer(text="ok")) as url:
        name = url.replace("127.0.0.1", "rebind.example")
        assert (await bench.call_json("fetch_url", PRIVATE, url=name))["text"] == "ok"
    assert asked == ["rebind.example"]


@pytest.mark.parametrize(
    ("location", "problem"),
    [
        ("http://127.0.0.2:1/", "is a loopback, link-local or private address"),
        ("//inner.example:1/", "leads to a loopback, link-local or private address"),
        ("file:///etc/passwd", "does not begin with http:// or https://"),
        ("http://user:pw@127.0.0.1/", "holds credentials"),
        ("/again", "redirects more than 5 times"),
    ],
)
async def test_a_redirect_is_checked_as_the_first_address_was(
    bench: Workbench, location: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.2"]

    bench.resolve = resolve
    monkeypatch.setattr(web_addresses, "is_public", lambda address: str(address) == "127.0.0.1")
    async with serve(answer(status=302, headers={"Location": location})) as url:
        text = await bench.call("fetch_url", url=url)
    assert text.startswith("AddressError: url ")
    assert problem in text


async def test_headers_do_not_follow_to_another_host(bench: Workbench) -> None:
    seen: list[str | None] = []

    async def second(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        return web.Response(text="ok")

    async with serve(second) as other:

        async def first(request: web.Request) -> web.Response:
            seen.append(request.headers.get("Authorization"))
            location = "/same" if request.path == "/" else other
            return web.Response(status=307, headers={"Location": location})

        async with serve(first) as url:
            headers = {"Authorization": "Bearer x"}
            page = await bench.call_json("fetch_url", PRIVATE, url=url, headers=headers)
    assert seen == ["Bearer x", "Bearer x", None]
    assert page["url"] == other


@pytest.mark.parametrize(
    "headers",
    [{"Host": "inner"}, {"a b": "x"}, {"X": "a\r\nY: b"}, {"": "x"}, {"Content-Length": "1"}],
)
async def test_headers_that_change_the_request_are_refused(
    bench: Workbench, headers: dict[str, str]
) -> None:
    text = await bench.call("fetch_url", PRIVATE, url="http://127.0.0.1:1/", headers=headers)
    assert text.startswith("ValueError: headers ")


async def test_a_long_page_is_cut_and_the_rest_is_not_read(bench: Workbench) -> None:
    sent = 0

    async def handle(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            for _ in range(10_000):
                await response.write(b"x" * 100_000)
                sent += 100_000
        except ConnectionError:
            pass
        return response

    async with serve(handle) as url:
        page = await bench.call_json("fetch_url", PRIVATE, url=url, max_bytes=1_000)
    assert page["text"] == "x" * 1_000
    assert page["truncated"] is True
    assert sent < 100_000_000


async def test_a_page_of_the_default_length_is_shown_whole(bench: Workbench) -> None:
    async with serve(answer(text='"\n' * 250_000)) as url:
        page = await bench.call_json("fetch_url", PRIVATE, url=url)
    assert len(page["text"]) == 500_000
    assert page["truncated"] is False


@pytest.fixture
def self_signed(tmp_path: Path) -> ssl.SSLContext:
    """What a server needs whose certificate nobody signed."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl is not installed")
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    words = [
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=127.0.0.1",
    ]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([program, *words, *files], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return context


@pytest.mark.slow  # takes half a second or more
async def test_a_certificate_that_nobody_signed_is_refused(
    bench: Workbench, self_signed: ssl.SSLContext
) -> None:
    served = await asyncio.start_server(
        lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=self_signed
    )
    port = served.sockets[0].getsockname()[1]
    text = await bench.call("fetch_url", PRIVATE, url=f"https://127.0.0.1:{port}/")
    served.close()
    assert text.endswith("url has no certificate that can be trusted.")


async def test_a_page_that_unpacks_to_gigabytes_is_cut(bench: Workbench) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join(packer.compress(b"\x41" * 1_000_000) for _ in range(60)) + packer.flush()
    headers = {"Content-Encoding": "gzip", "Content-Type": "text/plain"}
    async with serve(answer(body=packed, headers=headers)) as url:
        page = await bench.call_json("fetch_url", PRIVATE, url=url, max_bytes=5_000)
    assert page["text"] == "A" * 5_000
    assert page["truncated"] is True


async def test_packed_pages_are_unpacked(bench: Workbench) -> None:
    for packing, body in (("gzip", gzip.compress(b"text")), ("deflate", zlib.compress(b"text"))):
        headers = {"Content-Encoding": packing}
        async with serve(answer(body=body, headers=headers)) as url:
            assert (await bench.call_json("fetch_url", PRIVATE, url=url))["text"] == "text"
    for packing in ("br", "gzip"):
        async with serve(answer(body=b"no", headers={"Content-Encoding": packing})) as url:
            text = await bench.call("fetch_url", PRIVATE, url=url)
        assert text.startswith("UnpackError: url ")


async def test_the_encoding_of_a_page_is_found(bench: Workbench) -> None:
    latin = "grüße".encode("latin-1")
    cases = [
        ({"body": latin, "content_type": "text/plain", "charset": "latin-1"}, {}),
        ({"body": b'<meta charset="latin-1">' + latin, "content_type": "text/html"}, {}),
        ({"body": "grüße".encode("utf-16"), "content_type": "text/plain"}, {}),
        ({"body": latin, "content_type": "text/plain"}, {"encoding": "latin-1"}),
        ({"body": "grüße".encode(), "headers": {"Content-Type": "text/plain; charset=no"}}, {}),
    ]
    for fields, arguments in cases:
        async with serve(answer(**fields)) as url:
            page = await bench.call_json("fetch_url", PRIVATE, url=url, **arguments)
        assert page["text"].endswith("grüße")
    async with serve(answer(body=latin)) as url:
        for encoding in ("no-such", "zip", "rot13"):
            text = await bench.call("fetch_url", PRIVATE, url=url, encoding=encoding)
            assert text == "LookupError: encoding is not an encoding of text."


async def test_bytes_are_returned_as_base64(bench: Workbench) -> None:
    image = b"\x89PNG\r\n\x1a\n\0"
    async with serve(answer(body=image)) as url:
        text = await bench.call("fetch_url", PRIVATE, url=url)
        page = await bench.call_json("fetch_url", PRIVATE, url=url, as_text=False)
    assert "url is not text but a PNG image" in text
    assert base64.b64decode(page["base64"]) == image


@pytest.mark.slow  # takes half a second or more
async def test_a_server_that_hangs_is_left_after_the_timeout(bench: Workbench) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart"
    for blocks in ((), (b"HTTP/1.1 200"), (head,)):
        async with serve_bytes(
            *([blocks] if isinstance(blocks, bytes) else blocks), hang=True
        ) as url:
            text = await bench.call("fetch_url", PRIVATE, url=url, timeout=0.2)
        assert text == "TimeoutError: url did not answer within 0.2 seconds."


@pytest.mark.parametrize(
    "answered",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    ],
)
async def test_a_server_that_breaks_the_rules_is_told(bench: Workbench, answered: bytes) -> None:
    async with serve_bytes(answered) as url:
        text = await bench.call("fetch_url", PRIVATE, url=url)
    assert ": url " in text
    assert "127.0.0.1" not in text


async def test_a_refused_connection_is_told(bench: Workbench) -> None:
    async with serve_bytes(b"") as url:
        pass
    text = await bench.call("fetch_url", PRIVATE, url=url)
    assert text == "ClientConnectorError: url cannot be connected to."


@given(st.text())
def test_any_url_is_judged_without_a_crash(text: str) -> None:
    for url in (text, f"http://{text}/", f"https://example.org/{text}"):
        try:
            parts = check_url(url)
        except AddressError:
            continue
        assert parts.scheme in ("http", "https")
        assert parts.hostname


@given(st.ip_addresses(network="10.0.0.0/8") | st.ip_addresses(network="fc00::/7"))
def test_private_addresses_are_not_public(address: Any) -> None:
    assert not is_public(address)
    if address.version == 4:
        assert not is_public(ip_address(f"::ffff:{address}"))
        assert not is_public(ip_address(int(ip_address("64:ff9b::")) + int(address)))


def test_public_addresses_are_public() -> None:
    for address in ("93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "64:ff9b::8.8.8.8"):
        assert is_public(ip_address(address))


@given(st.binary(max_size=200), st.integers(1, 50), st.integers(1, 300))
def test_a_body_is_cut_alike_in_whatever_blocks_it_comes(
    content: bytes, size: int, most: int
) -> None:
    packed = gzip.compress(content)
    body = BoundedBody(most, "gzip")
    for at in range(0, len(packed), size):
        if not body.add(packed[at : at + size]):
            break
    assert body.content == content[:most]
    assert body.is_cut == (len(content) > most)
