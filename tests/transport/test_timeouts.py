"""The four timeouts, over real connections; and that the watchdog needs one timer for a request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest
from tests.transport.raw import Client, RawServer, Serve, fails, fetch

from holdfast.core.errors import ErrorCategory, Landed, TransportError
from holdfast.testing.emulator import Emulator, Pace
from holdfast.transport.http import HttpTransport
from holdfast.transport.port import HttpRequest, Timeouts
from holdfast.transport.timers import TimerWheel, Watchdog

Start = Callable[[Serve], Awaitable[RawServer]]
SHORT = Timeouts(connect=20, first_byte=0.3, between_chunks=0.3, total=60)
IMPATIENT = Timeouts(connect=20, first_byte=20, between_chunks=0.3, total=60)
"""Once the first byte is there."""
PATIENT = Timeouts(connect=20, first_byte=20, between_chunks=0.8, total=60)
"""Longer than anything takes beside a server of the same loop, and shorter than a drip."""


async def silent(client: Client) -> None:
    await client.request()
    await client.reader.read()


async def test_no_headers(transport: HttpTransport, raw: Start) -> None:
    error = await fails(transport, (await raw(silent)).url, SHORT)
    assert error.info.code == "first_byte_timeout"
    assert error.info.category is ErrorCategory.TIMEOUT
    assert error.info.landed is Landed.UNKNOWN
    assert "0.3 s" in error.info.safe
    assert "timeouts.first_byte" in error.info.safe


async def test_headers_and_no_body(transport: HttpTransport, raw: Start) -> None:
    async def serve(client: Client) -> None:
        await client.request()
        await client.chunked()
        await client.reader.read()

    assert (await fails(transport, (await raw(serve)).url, SHORT)).info.code == "first_byte_timeout"


async def test_silence_between_chunks(transport: HttpTransport, raw: Start) -> None:
    async def serve(client: Client) -> None:
        await client.request()
        await client.chunked()
        await client.chunk(b"data: 1\n\n")
        await client.reader.read()

    error = await fails(transport, (await raw(serve)).url, IMPATIENT)
    assert error.info.code == "stalled"
    assert error.info.category is ErrorCategory.TIMEOUT


async def drip(
    client: Client, piece: bytes, kind: bytes = b"text/event-stream", times: int = 20
) -> None:
    await client.request()
    await client.chunked(kind)
    for _ in range(times):
        await client.chunk(piece)
        await asyncio.sleep(0.05)
    await client.send(b"0\r\n\r\n")


async def test_comments_alone_do_not_keep_a_stream_alive(
    transport: HttpTransport, raw: Start
) -> None:
    server = await raw(lambda client: drip(client, b": keep-alive\n\n", times=1000))
    assert (await fails(transport, server.url, IMPATIENT)).info.code == "stalled"


async def test_white_space_alone_does_not_keep_a_body_alive(
    transport: HttpTransport, raw: Start
) -> None:
    server = await raw(lambda client: drip(client, b"\n", b"application/json", 1000))
    assert (await fails(transport, server.url, IMPATIENT)).info.code == "stalled"


@pytest.mark.slow  # takes half a second or more
async def test_a_slow_drip_of_content_is_fine(transport: HttpTransport, raw: Start) -> None:
    server = await raw(lambda client: drip(client, b"data: 1\n\n"))
    pieces = []
    async with transport.send(HttpRequest("POST", server.url), PATIENT) as response:
        while piece := await response.read():
            response.note_content()
            pieces.append(piece)
    assert b"".join(pieces) == b"data: 1\n\n" * 20


@pytest.mark.slow  # takes half a second or more
async def test_a_slow_body_that_is_not_a_stream_needs_no_help(
    transport: HttpTransport, raw: Start
) -> None:
    server = await raw(lambda client: drip(client, b"x", b"application/json"))
    assert await fetch(transport, server.url, timeouts=PATIENT) == b"x" * 20


async def test_the_total_ends_even_a_stream_that_is_alive(
    transport: HttpTransport, raw: Start
) -> None:
    server = await raw(lambda client: drip(client, b"x", b"application/json", 1000))
    limits = Timeouts(first_byte=20, between_chunks=20, total=0.3)
    error = await fails(transport, server.url, limits)
    assert error.info.code == "total_timeout"
    assert error.info.category is ErrorCategory.TIMEOUT


@pytest.mark.slow  # takes half a second or more
async def test_a_slow_reader_is_not_a_slow_server(transport: HttpTransport, raw: Start) -> None:
    go_on = asyncio.Event()

    async def serve(client: Client) -> None:
        await client.request()
        await client.chunked()
        await client.chunk(b"data: 1\n\n")
        await go_on.wait()
        await client.chunk(b"data: 2\n\n")
        await client.send(b"0\r\n\r\n")

    server = await raw(serve)
    async with transport.send(HttpRequest("POST", server.url), PATIENT) as response:
        assert await response.read() == b"data: 1\n\n"
        response.note_content()
        await asyncio.sleep(1)
        asyncio.get_running_loop().call_later(0.1, go_on.set)
        assert await response.read() == b"data: 2\n\n"
        assert await response.read() == b""


@pytest.mark.slow  # takes half a second or more
async def test_a_loop_that_was_blocked_is_not_a_slow_server(transport: HttpTransport) -> None:
    body = b'{"model": "m", "stream": true, "messages": [{"role": "user", "content": "Hi"}]}'
    limits = Timeouts(first_byte=20, between_chunks=2)
    with Emulator(["x " * 30], faults=[Pace(0.05)]) as emulator:
        url = emulator.base_url + "/chat/completions"
        async with transport.send(HttpRequest("POST", url, (), body), limits) as response:
            asyncio.get_running_loop().call_later(0.2, time.sleep, 2.5)
            pieces = []
            while piece := await response.read():
                response.note_content()
                pieces.append(piece)
    assert pieces[-1].endswith(b"[DONE]\n\n")


async def test_a_body_without_length_that_the_watchdog_cut_does_not_look_whole(
    transport: HttpTransport, raw: Start
) -> None:
    async def serve(client: Client) -> None:
        await client.request()
        await client.send(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhalf")
        await client.reader.read()

    server = await raw(serve)
    async with transport.send(HttpRequest("POST", server.url), IMPATIENT) as response:
        assert await response.read() == b"half"
        with pytest.raises(TransportError) as caught:
            await response.read()
    assert caught.value.info.code == "stalled"


async def test_a_timeout_closes_the_connection(transport: HttpTransport, raw: Start) -> None:
    gone = asyncio.Event()

    async def serve(client: Client) -> None:
        await silent(client)
        gone.set()

    await fails(transport, (await raw(serve)).url, SHORT)
    await asyncio.wait_for(gone.wait(), 60)


async def test_no_connection_in_time_did_not_land() -> None:
    # Two connections are let in by the backlog of one, and the third gets no answer.
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        crowd = [socket.socket() for _ in range(4)]
        for one in crowd:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        transport = HttpTransport()
        error = await fails(transport, f"http://127.0.0.1:{port}/", Timeouts(connect=0.2))
        await transport.aclose()
        for one in crowd:
            one.close()
    assert error.info.code == "connect_timeout"
    assert error.info.category is ErrorCategory.TIMEOUT
    assert error.info.landed is Landed.NO
    assert "timeouts.connect" in error.info.safe


async def test_waiting_for_a_free_connection_is_connecting(raw: Start) -> None:
    transport = HttpTransport(connections=1)
    server = await raw(silent)
    first = asyncio.create_task(fetch(transport, server.url))
    while not server.connections:
        await asyncio.sleep(0.01)
    error = await fails(transport, server.url, Timeouts(connect=0.2))
    assert error.info.code == "connect_timeout"
    assert error.info.landed is Landed.NO
    first.cancel()
    await asyncio.wait([first])
    assert first.cancelled()
    await transport.aclose()


@pytest.mark.slow  # takes half a second or more
async def test_no_limits_at_all(transport: HttpTransport, raw: Start) -> None:
    server = await raw(lambda client: drip(client, b"x"))
    limits = Timeouts(connect=None, first_byte=None, between_chunks=None, total=None)
    assert await fetch(transport, server.url, timeouts=limits) == b"x" * 20


class CountingLoop:
    """Counts timers, and lets the test say what time it is."""

    def __init__(self) -> None:
        self.timers: list[asyncio.TimerHandle] = []
        self.made = 0
        self.now = 100.0

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, (), asyncio.get_running_loop())
        self.timers.append(handle)
        self.made += 1
        return handle

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        due = [timer for timer in self.timers if timer.when() <= self.now]
        self.timers = [timer for timer in self.timers if timer.when() > self.now]
        for timer in due:
            if not timer.cancelled():
                timer._callback()  # type: ignore[attr-defined]  # as the loop does


async def test_a_thousand_pieces_need_one_timer() -> None:
    loop = CountingLoop()
    watch = Watchdog(TimerWheel(loop), Timeouts())  # type: ignore[arg-type]
    watch.start(lambda: True)
    watch.note_body_start()
    for _ in range(1000):
        watch.begin_wait()
        loop.now += 0.01
        watch.end_wait()
        watch.note_content()
    assert len(loop.timers) == 1
    loop.pass_time(59)
    assert len(loop.timers) == 1
    assert not watch.expired_limit


async def test_a_response_that_is_whole_cannot_expire() -> None:
    loop = CountingLoop()
    watch = Watchdog(TimerWheel(loop), Timeouts())  # type: ignore[arg-type]
    watch.start(lambda: False)  # The connection went back to the pool.
    loop.pass_time(1000)
    assert not watch.expired_limit


async def test_after_a_blocked_loop_real_silence_still_expires() -> None:
    loop = CountingLoop()
    watch = Watchdog(TimerWheel(loop), Timeouts())  # type: ignore[arg-type]
    watch.start(lambda: True)
    loop.pass_time(200)
    assert not watch.expired_limit
    loop.pass_time(0.2)
    assert watch.expired_limit == "first_byte_timeout"


async def test_requests_one_after_another_need_one_timer() -> None:
    loop = CountingLoop()
    patrol = TimerWheel(loop)  # type: ignore[arg-type]
    for _ in range(100):
        watch = Watchdog(patrol, Timeouts())
        watch.start(lambda: True)
        loop.now += 0.1
        watch.note_body_start()
        watch.stop()
    assert loop.made == 1
    loop.pass_time(1000)  # No request is watched, so the timer is not set.
    assert loop.made == 1
    assert not loop.timers


async def test_each_of_many_requests_has_its_own_limit() -> None:
    loop = CountingLoop()
    patrol = TimerWheel(loop)  # type: ignore[arg-type]
    limits = (50.0, 5.0, 500.0)
    watches = [Watchdog(patrol, Timeouts(first_byte=limit, total=None)) for limit in limits]
    for watch in watches:
        watch.start(lambda: True)
    expired = []
    for seconds in (4.99, 0.02, 44.98, 0.02, 449.98, 0.02):
        loop.pass_time(seconds)
        expired.append([bool(watch.expired_limit) for watch in watches])
    assert expired == [
        [False, False, False],
        [False, True, False],
        [False, True, False],
        [True, True, False],
        [True, True, False],
        [True, True, True],
    ]


async def test_a_connection_that_cannot_be_cut_leaves_the_others_watched() -> None:
    def broken() -> bool:
        raise OSError("made up")

    loop = CountingLoop()
    patrol = TimerWheel(loop)  # type: ignore[arg-type]
    bad, good = Watchdog(patrol, Timeouts()), Watchdog(patrol, Timeouts())
    bad.start(broken)
    good.start(lambda: True)
    with pytest.raises(OSError, match="made up"):
        loop.pass_time(60.01)
    loop.pass_time(0.01)
    assert good.expired_limit == "first_byte_timeout"


async def test_a_stream_of_white_space_on_a_busy_loop_is_cut_after_one_more_read() -> None:
    # A limit that passes while the loop is held up lets the response be read once more before it is cut.
    loop = CountingLoop()
    watch = Watchdog(TimerWheel(loop), Timeouts(between_chunks=10))  # type: ignore[arg-type]
    watch.start(lambda: True)
    watch.note_body_start()
    for _ in range(18):
        loop.pass_time(0.5)
        watch.end_wait()
        loop.now += 0.001  # white space is looked at, and is no content
        watch.begin_wait()
    loop.pass_time(2)  # held up, beyond the limit
    assert not watch.expired_limit
    watch.end_wait()
    loop.now += 0.001
    watch.begin_wait()
    loop.pass_time(1)  # and again
    assert watch.expired_limit == "stalled"
