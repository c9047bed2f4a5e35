"""A reader that gathers is woken by the end of a body, a full buffer or a look, and not by each piece."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import pytest
from tests.transport.raw import Client, RawServer, Serve
from tests.transport.test_timeouts import CountingLoop

from holdfast.core.errors import TransportError
from holdfast.transport import timers
from holdfast.transport.http import HttpTransport
from holdfast.transport.port import HttpRequest, Response, Timeouts
from holdfast.transport.timers import TimerWheel, Watchdog

Start = Callable[[Serve], Awaitable[RawServer]]
PATIENT = Timeouts(connect=20, first_byte=20, between_chunks=20, total=60)
BRISK = Timeouts(connect=20, first_byte=20, between_chunks=0.3, total=60)
EVENT = b"data: 1\n\n"
MEBIBYTE = 2**20


@pytest.fixture
def no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks are so rare that only the end, a full buffer or a limit wakes a reader."""
    monkeypatch.setattr(timers, "_LOOK", 3600.0)
    monkeypatch.setattr(timers, "_FIRST_LOOK", 3600.0)


def send(
    transport: HttpTransport, server: RawServer, limits: Timeouts = PATIENT
) -> AbstractAsyncContextManager[Response]:
    return transport.send(HttpRequest("POST", server.url, (), b"{}"), limits)


async def gather(response: Response, *, content: bool = True) -> list[bytes]:
    """All pieces of a body; the first one comes as it arrives."""
    pieces = []
    while piece := await response.read(gather=True):
        pieces.append(piece)
        if content:
            response.note_content()
    return pieces


async def drip(client: Client, piece: bytes = EVENT, times: int = 40) -> None:
    await client.request()
    await client.chunked()
    for _ in range(times):
        await client.chunk(piece)
        await asyncio.sleep(0.02)
    await client.send(b"0\r\n\r\n")


@pytest.mark.slow  # takes half a second or more
@pytest.mark.usefixtures("no_looks")
async def test_forty_pieces_wake_the_reader_once(transport: HttpTransport, raw: Start) -> None:
    server = await raw(drip)
    async with send(transport, server) as response:
        pieces = await gather(response)
    assert b"".join(pieces) == EVENT * 40
    assert len(pieces) == 2  # the first one, and the rest at the end


@pytest.mark.slow  # takes half a second or more
@pytest.mark.usefixtures("no_looks")
@pytest.mark.parametrize("kind", ["length", "close", "gzip"])
async def test_every_way_to_end_a_body_ends_the_wait(
    transport: HttpTransport, raw: Start, kind: str
) -> None:
    plain = b"".join(b"%06d\n" % number for number in range(300_000))
    body = gzip.compress(plain) if kind == "gzip" else plain
    length = b"content-length: %d\r\n" % len(body) if kind != "close" else b""
    coding = b"content-encoding: gzip\r\n" if kind == "gzip" else b""

    async def serve(client: Client) -> None:
        await client.request()
        await client.send(b"HTTP/1.1 200 OK\r\n%b%b\r\n" % (length, coding))
        for at in range(0, len(body), 100_000):
            await client.send(body[at : at + 100_000])

    async with asyncio.timeout(60):
        async with send(transport, await raw(serve)) as response:
            assert b"".join(await gather(response)) == plain


@pytest.mark.usefixtures("no_looks")
async def test_a_full_buffer_is_emptied_at_once_and_stays_small(
    transport: HttpTransport, raw: Start
) -> None:
    async def serve(client: Client) -> None:
        await client.request()
        await client.chunked()
        for _ in range(320):
            await client.chunk(b"x" * 50_000)
        await client.reader.read()  # without an end

    async with asyncio.timeout(60):
        async with send(transport, await raw(serve)) as response:
            size = 0
            while size < 14 * MEBIBYTE:
                piece = await response.read(gather=True)
                assert len(piece) < 2 * MEBIBYTE
                size += len(piece)
                if size < 3 * MEBIBYTE:
                    await asyncio.sleep(0.05)  # the buffer is full before the next read


async def test_a_look_finds_what_has_come_behind_an_open_end(
    transport: HttpTransport, raw: Start
) -> None:
    async def serve(client: Client) -> None:
        await client.request()
        await client.chunked()
        await client.chunk(EVENT)
        await asyncio.sleep(0.05)
        await client.chunk(b"data: [DONE]\n\n")
        await client.reader.read()

    async with asyncio.timeout(60):
        async with send(transport, await raw(serve)) as response:
            read = b""
            while not read.endswith(b"[DONE]\n\n"):
                read += await response.read(gather=True)
    assert read == EVENT + b"data: [DONE]\n\n"


@pytest.mark.usefixtures("no_looks")
async def test_what_came_before_a_break_is_read_before_its_error(
    transport: HttpTransport, raw: Start
) -> None:
    may_break = asyncio.Event()

    async def serve(client: Client) -> None:
        await client.request()
        await client.chunked()
        await client.chunk(EVENT)
        await may_break.wait()
        await client.chunk(EVENT * 2)

    async with send(transport, await raw(serve)) as response:
        assert await response.read(gather=True) == EVENT
        may_break.set()
        assert await response.read(gather=True) == EVENT * 2
        with pytest.raises(TransportError):
            await response.read(gather=True)


@pytest.mark.usefixtures("no_looks")
async def test_what_came_before_a_cancellation_can_be_read(
    transport: HttpTransport, raw: Start
) -> None:
    more = asyncio.Event()

    async def serve(client: Client) -> None:
        await client.request()
        await client.chunked()
        await client.chunk(EVENT)
        await more.wait()
        await client.chunk(EVENT * 2)
        await client.reader.read()

    async with send(transport, await raw(serve)) as response:
        assert await response.read(gather=True) == EVENT
        assert response.read_arrived() == b""
        waiting = asyncio.create_task(response.read(gather=True))
        await asyncio.sleep(0)
        more.set()
        arrived = b""
        async with asyncio.timeout(60):
            while not arrived:  # the reader goes on waiting
                await asyncio.sleep(0.01)
                assert not waiting.done()
                arrived = response.read_arrived()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert arrived == EVENT * 2


@pytest.mark.slow  # takes half a second or more
@pytest.mark.usefixtures("no_looks")
async def test_content_that_waits_unread_keeps_a_stream_alive(
    transport: HttpTransport, raw: Start
) -> None:
    async with send(transport, await raw(drip), BRISK) as response:
        assert b"".join(await gather(response)) == EVENT * 40  # for 0.8 s


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("looks", [3600.0, 0.25])
async def test_comments_alone_do_not_keep_a_stream_alive(
    transport: HttpTransport, raw: Start, looks: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timers, "_LOOK", looks)
    server = await raw(lambda client: drip(client, b": keep-alive\n\n", times=1000))
    async with send(transport, server, BRISK) as response:
        with pytest.raises(TransportError) as caught:
            await gather(response, content=False)
    assert caught.value.info.code == "stalled"


@pytest.mark.usefixtures("no_looks")
@pytest.mark.parametrize("limit", ["between_chunks", "total"])
async def test_a_limit_ends_a_wait_without_bytes(
    transport: HttpTransport, raw: Start, limit: str
) -> None:
    async def serve(client: Client) -> None:
        await client.request()
        await client.chunked()
        await client.chunk(EVENT)
        await client.reader.read()

    limits = Timeouts(first_byte=20, **{"between_chunks": 20, "total": 20, limit: 0.2})
    async with send(transport, await raw(serve), limits) as response:
        with pytest.raises(TransportError) as caught:
            await gather(response)
    assert caught.value.info.code == ("stalled" if limit == "between_chunks" else "total_timeout")


async def test_a_look_before_a_limit_is_judged_happens_once() -> None:
    loop, looks = CountingLoop(), []
    watch = Watchdog(TimerWheel(loop), Timeouts(between_chunks=10))  # type: ignore[arg-type]

    def look() -> bool:
        looks.append(loop.now)
        return True  # bytes without content, each time

    watch.start(lambda: True)
    watch.note_body_start()
    watch.begin_looks(look)
    for _ in range(2000):
        loop.pass_time(0.01)
    assert watch.expired_limit == "stalled"
    assert 30 <= len(looks) <= 60  # four a second, and four sooner


async def test_the_first_looks_come_sooner() -> None:
    loop, looks = CountingLoop(), []
    watch = Watchdog(TimerWheel(loop), Timeouts())  # type: ignore[arg-type]
    watch.start(lambda: True)
    watch.note_body_start()
    began = loop.now

    def look() -> bool:
        looks.append(loop.now - began)
        return False

    watch.begin_looks(look)
    for _ in range(1000):
        loop.pass_time(0.001)
    assert looks[0] <= 0.02
    assert len([at for at in looks if at < 0.25]) == 4
    assert len(looks) <= 8


async def test_the_looks_of_a_thousand_requests_share_their_timers() -> None:
    loop = CountingLoop()
    wheel = TimerWheel(loop)  # type: ignore[arg-type]
    for _ in range(1000):
        watch = Watchdog(wheel, Timeouts())
        watch.start(lambda: True)
        watch.note_body_start()
        watch.begin_looks(lambda: False)
        loop.now += 0.001
    before = loop.made
    for _ in range(1000):
        loop.pass_time(0.001)
    assert loop.made - before <= 100
