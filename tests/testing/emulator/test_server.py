"""The emulator over real sockets: exact bytes of faults, the log, and closing."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from holdfast import Agent
from holdfast.core.errors import ConfigurationError
from holdfast.testing import FakeClock
from holdfast.testing.emulator import (
    CloseBeforeHeaders,
    CutToolArguments,
    Delay,
    DropAfter,
    EmulatedRequest,
    Emulator,
    ErrorResponse,
    Fault,
    Html200,
    HttpStatus,
    Listen,
    LoggedRequest,
    Pace,
    ResetAfterHeaders,
    ResetBeforeHeaders,
    SplitEveryByte,
    Stall,
    call,
    chaos,
)
from holdfast.testing.emulator.faults import FaultEntry, faults_for

PATH = "/v1/chat/completions"


def body(text: str = "Hi", *, stream: bool = False) -> bytes:
    messages = [{"role": "user", "content": text}]
    return msgspec.json.encode({"model": "m", "messages": messages, "stream": stream})


class Socket:
    """A client that sees every byte and every reset."""

    def __init__(self, emulator: Emulator) -> None:
        port = int(emulator.origin.rpartition(":")[2])
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=60)

    def post(self, content: bytes, *headers: bytes, path: str = PATH) -> None:
        lines = [b"POST %b HTTP/1.1" % path.encode(), b"host: x", *headers]
        lines.append(b"content-length: %d" % len(content))
        self.sock.sendall(b"\r\n".join(lines) + b"\r\n\r\n" + content)

    def until(self, mark: bytes) -> bytes:
        data = b""
        while mark not in data:
            piece = self.sock.recv(65536)
            assert piece, data
            data += piece
        return data

    def rest(self) -> tuple[bytes, str]:
        data = b""
        try:
            while piece := self.sock.recv(65536):
                data += piece
        except ConnectionResetError:
            return data, "reset"
        return data, "closed"

    def close(self) -> None:
        self.sock.close()


@pytest.fixture
def sockets() -> Iterator[list[Socket]]:
    opened: list[Socket] = []
    yield opened
    for one in opened:
        one.close()


def talk(emulator: Emulator, sockets: list[Socket], content: bytes) -> Socket:
    one = Socket(emulator)
    sockets.append(one)
    one.post(content)
    return one


@pytest.mark.parametrize(
    ("fault", "ending"),
    [
        (ResetBeforeHeaders(), "reset"),
        (CloseBeforeHeaders(), "closed"),
        (ResetAfterHeaders(), "reset"),
        (DropAfter(3), "reset"),
        (DropAfter(3, reset=False), "closed"),
        (DropAfter(99), "reset"),
    ],
)
def test_connections_break_exactly_as_told(
    sockets: list[Socket], fault: Fault, ending: str
) -> None:
    with Emulator(["One two three four"], faults=[fault]) as emulator:
        data, seen = talk(emulator, sockets, body(stream=True)).rest()
    assert seen == ending
    assert data.count(b"data: ") == {3: 3, 99: 7}.get(getattr(fault, "chunks", 0), 0)
    assert (b"HTTP/1.1 200 OK" in data) == isinstance(fault, ResetAfterHeaders | DropAfter)
    assert not data.endswith(b"0\r\n\r\n")


def test_what_was_sent_before_a_reset_arrives_however_large_it_is(sockets: list[Socket]) -> None:
    text = "x" * 3_000_000
    with Emulator([text], chunking="whole", faults=[DropAfter(2)]) as emulator:
        client = talk(emulator, sockets, body(stream=True))
        time.sleep(0.1)  # The client is slow, and the pipe fills.
        data, ending = client.rest()
    assert ending == "reset"
    assert text.encode() in data


def test_every_byte_alone_is_still_the_same_reply(sockets: list[Socket]) -> None:
    with Emulator(["Hello"], faults=[SplitEveryByte()]) as emulator:
        client = talk(emulator, sockets, body())
        data = client.until(b"}}}")
    assert msgspec.json.decode(data.partition(b"\r\n\r\n")[2])["choices"]


def test_a_kept_connection_serves_pipelined_requests_in_order(sockets: list[Socket]) -> None:
    with Emulator(["one", "two", "three"]) as emulator:
        client = Socket(emulator)
        sockets.append(client)
        for _ in range(2):
            client.post(body())
        client.post(body(), b"connection: close")
        data, ending = client.rest()
    assert ending == "closed"
    assert [data.find(b'"one"'), data.find(b'"two"'), data.find(b'"three"')] == sorted(
        [data.find(b'"one"'), data.find(b'"two"'), data.find(b'"three"')]
    )
    assert data.count(b"HTTP/1.1 200 OK") == 3


def test_a_chunked_request_and_one_that_waits_for_leave(sockets: list[Socket]) -> None:
    content = body("chunky")
    with Emulator() as emulator:
        client = Socket(emulator)
        sockets.append(client)
        head = b"POST %b HTTP/1.1\r\nhost: x\r\n" % PATH.encode()
        client.sock.sendall(head + b"transfer-encoding: chunked\r\n\r\n")
        for at in range(0, len(content), 7):
            piece = content[at : at + 7]
            client.sock.sendall(b"%x;ext=1\r\n%b\r\n" % (len(piece), piece))
        client.sock.sendall(b"0\r\nx-trailer: 1\r\n\r\n")
        assert b"You said: chunky" in client.until(b"}}}")
        client.sock.sendall(
            head + b"expect: 100-continue\r\ncontent-length: %d\r\n\r\n" % len(content)
        )
        assert client.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sock.sendall(content)
        assert b"You said: chunky" in client.until(b"}}}")


@pytest.mark.parametrize(
    "junk",
    [b"what\r\n\r\n", b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n", b"x" * 1_100_000],
)
def test_invalid_http_is_refused(sockets: list[Socket], junk: bytes) -> None:
    with Emulator() as emulator:
        client = Socket(emulator)
        sockets.append(client)
        client.sock.sendall(junk)
        assert client.sock.recv(100).startswith(b"HTTP/1.1 400")
        assert emulator.requests == []


def test_the_log_says_what_came_and_what_was_done(sockets: list[Socket]) -> None:
    with Emulator(["Hello"], faults=[[Delay(0.05), HttpStatus(429)]]) as emulator:
        client = Socket(emulator)
        sockets.append(client)
        client.post(
            body(), b"Authorization: Bearer sk-1", b"X-Api-Key: k", path=PATH + "?key=k&b=1"
        )
        client.until(b"}}")
        emulator.wait_idle_sync()
        entry = emulator.requests[0]
    assert entry.number == 1
    assert entry.wire == "openai_chat"
    assert entry.path == PATH + "?key=[masked]&b=1"
    assert entry.headers["authorization"] == entry.headers["x-api-key"] == "[masked]"
    assert entry.body == msgspec.json.decode(body())
    assert entry.faults == (Delay(0.05), HttpStatus(429))
    assert entry.status == 429
    assert entry.chunks == 1
    assert not entry.client_gone
    assert entry.first_byte is not None
    assert entry.ended is not None
    assert entry.received + 0.04 < entry.first_byte <= entry.ended
    assert "sk-1" not in repr(entry)


@pytest.mark.parametrize("stage", ["choose_reply", "delay", "stall", "comments"])
def test_the_log_says_that_the_client_closed_the_connection(
    sockets: list[Socket], stage: str
) -> None:
    thinking, think = threading.Event(), threading.Event()

    async def slow(request: EmulatedRequest) -> str:
        thinking.set()
        await asyncio.get_running_loop().run_in_executor(None, think.wait)
        return "late"

    faults: dict[str, Fault] = {
        "delay": Delay(60),
        "stall": Stall(1, 60),
        "comments": Stall(1, 60, comments=True, every=0.01),
    }
    choose_reply = slow if stage == "choose_reply" else ["Hello"]
    with Emulator(choose_reply, faults=[faults[stage]] if stage in faults else []) as emulator:
        client = talk(emulator, sockets, body(stream=True))
        if stage == "choose_reply":
            thinking.wait(60)
        elif stage != "delay":
            client.until(b"data: ")
        client.close()
        think.set()
        deadline = time.monotonic() + 60
        while not emulator.requests and time.monotonic() < deadline:
            time.sleep(0.001)
        emulator.wait_idle_sync()
        assert emulator.requests[0].client_gone
        assert emulator.requests[0].ended is not None


def test_a_reply_that_a_fault_broke_is_served_to_the_retry(sockets: list[Socket]) -> None:
    faults = [ErrorResponse("overloaded"), DropAfter(2), CutToolArguments(), Html200(), None, None]
    with Emulator([call("first"), "second"], faults=faults) as emulator:
        for _ in range(4):
            talk(emulator, sockets, body(stream=True)).sock.recv(10)
            emulator.wait_idle_sync()
        assert b"first" in talk(emulator, sockets, body()).until(b"}}}")
        assert b"second" in talk(emulator, sockets, body()).until(b"}}}")


def test_a_reply_that_a_client_left_is_served_to_the_retry(sockets: list[Socket]) -> None:
    with Emulator(["Hello"], faults=[Stall(1, 60)]) as emulator:
        client = talk(emulator, sockets, body(stream=True))
        client.until(b"data: ")
        client.close()
        emulator.wait_idle_sync()
        assert b"Hello" in talk(emulator, sockets, body()).until(b"}}}")


def raising(request: EmulatedRequest) -> str:
    raise ZeroDivisionError("by the function")


@pytest.mark.parametrize(
    ("choose_reply", "said"),
    [
        ([], "the script has 0 replies, and all were delivered"),
        (raising, "ZeroDivisionError: by the function"),
        (lambda request: 7, "one of replies: must be Reply, a text, "),
    ],
)
def test_a_script_without_a_reply_is_reported_and_is_not_worth_a_retry(
    sockets: list[Socket], choose_reply: Any, said: str
) -> None:
    with Emulator(choose_reply) as emulator:
        data = talk(emulator, sockets, body()).until(b"}}")
        emulator.wait_idle_sync()
        assert said in emulator.requests[0].problem
    assert b"400 Bad Request" in data
    assert said.encode() in data


def test_a_fault_script_that_raises_is_reported(sockets: list[Socket]) -> None:
    with Emulator(faults=raising) as emulator:  # type: ignore[arg-type]
        assert b"ZeroDivisionError" in talk(emulator, sockets, body()).until(b"}}")


def test_a_history_that_the_provider_refuses_is_refused(sockets: list[Socket]) -> None:
    with Emulator() as emulator:
        data = talk(emulator, sockets, b'{"model": "m", "messages": []}').until(b"}}")
        emulator.wait_idle_sync()
        assert "empty array" in emulator.requests[0].problem
        assert emulator.requests[0].number == 0, "it used up no fault"
    assert b"400 Bad Request" in data
    assert b"invalid_request_error" in data


def test_models_and_unknown_paths() -> None:
    with Emulator(models=["a", "b"]) as emulator:
        with urllib.request.urlopen(emulator.base_url + "/models") as response:
            listed = msgspec.json.decode(response.read())
        assert [model["id"] for model in listed["data"]] == ["a", "b"]
        with pytest.raises(urllib.error.HTTPError) as missing:
            urllib.request.urlopen(emulator.base_url + "/embeddings", b"{}")
        assert missing.value.code == 404
        missing.value.close()


def test_faults_by_a_function_and_by_a_list(sockets: list[Socket]) -> None:
    def script(request: EmulatedRequest) -> FaultEntry:
        return HttpStatus(500) if "bad" in request.text else None

    with Emulator(faults=script) as emulator:
        assert b" 200 OK" in talk(emulator, sockets, body("good")).until(b"}}}")
        assert b" 500 " in talk(emulator, sockets, body("bad")).until(b"}}")
    one = EmulatedRequest(number=1)
    assert faults_for([[Delay(1), Pace(1)]], one) == (Delay(1), Pace(1))
    assert faults_for([], one) == ()


def test_an_invalid_fault_is_reported_with_an_example_of_one() -> None:
    with pytest.raises(ConfigurationError) as raised:
        Emulator(["Hi"], faults=["overloaded"])  # type: ignore[list-item]  # REASON: it is wrong
    assert str(raised.value) == (
        'faults[0]: must be a fault, such as ErrorResponse("overloaded"), a list, or None; got str'
    )


def test_chaos_is_the_same_for_the_same_seed() -> None:
    requests = [EmulatedRequest(number=n) for n in range(1, 200)]
    one = [chaos(seed=1, share=0.5)(request) for request in requests]
    assert one == [chaos(seed=1, share=0.5)(request) for request in requests]
    assert one != [chaos(seed=2, share=0.5)(request) for request in requests]
    assert 60 < sum(fault is not None for fault in one) < 140
    with pytest.raises(ConfigurationError, match="share"):
        chaos(seed=1, share=2)


async def test_leaving_ends_what_is_running() -> None:
    async with Emulator(faults=[Stall(0, 3600)]) as emulator:
        port = int(emulator.origin.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            b"POST %b HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % (PATH.encode(), len(body()))
        )
        writer.write(body())
        await reader.readuntil(b"\r\n\r\n")
    assert await reader.read() == b""
    assert emulator.requests[0].ended is not None
    writer.close()


def test_a_port_that_is_taken_is_named() -> None:
    with Emulator() as emulator:
        port = int(emulator.origin.rpartition(":")[2])
        with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}"):
            Emulator(listen=Listen(port=port)).__enter__()


def test_wrong_settings_are_named() -> None:
    with pytest.raises(ConfigurationError, match="replies"):
        Emulator("Hello")
    with pytest.raises(ConfigurationError, match="chunking"):
        Emulator(chunking=0)
    with pytest.raises(ConfigurationError, match="not running"):
        _ = Emulator().base_url
    assert Emulator().requests == []


def test_on_request_is_called_when_a_request_has_ended(sockets: list[Socket]) -> None:
    seen: list[LoggedRequest] = []
    with Emulator(on_request=seen.append) as emulator:
        talk(emulator, sockets, body()).until(b"}}}")
        emulator.wait_idle_sync()
    assert [entry.format_line() for entry in seen] == [f"#1 POST {PATH} 200"]


def test_serving_until_interrupted() -> None:
    code = (
        "import logging; from holdfast.testing.emulator import serve, Listen;"
        # On a busy machine everything is slow, which the debug mode would report.
        "logging.getLogger('asyncio').addFilter(lambda record: 'took' not in record.msg);"
        "serve(listen=Listen(), on_start=lambda url: print(url, flush=True),"
        "on_request=lambda entry: print(entry.format_line(), flush=True))"
    )
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        try:
            assert program.stdout is not None
            assert program.stderr is not None
            url = program.stdout.readline().decode().strip()
            with urllib.request.urlopen(url + "/models") as response:
                assert response.status == 200
            assert program.stdout.readline() == b"#0 GET /v1/models 200\n"
            program.send_signal(signal.SIGINT)
            assert program.wait(60) == 0
            assert program.stderr.read() == b""
        finally:
            program.kill()


PATHS = (
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1beta/models/a:generateContent",
)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", [b"[" * 2_000, b'{"a":' * 2_000, b'"\xff"', b'{"model": "\xff"}'])
def test_a_request_that_no_reader_takes_is_answered_with_an_error(path: str, body: bytes) -> None:
    with Emulator() as emulator:
        address = emulator.base_url.removesuffix("/v1") + path
        headers = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
        request = urllib.request.Request(address, body, headers)
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=10)
        assert caught.value.code == 400
        assert b"error" in caught.value.read()


# A new emulator has a port of its own, because a circuit breaker knows an endpoint by its address.


def agent_at(base_url: str) -> Agent[str]:
    return Agent(
        "openai:gpt-5.2",
        base_url=base_url,
        api_key="k",
        clock=FakeClock(),
    )


async def test_a_new_emulator_has_a_port_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    create = loop.create_server
    async with Emulator(faults=lambda _: ErrorResponse("overloaded")) as down:
        url = down.base_url
        with pytest.raises(Exception, match="overloaded"):
            await agent_at(url).run("Hello")
    port = int(url.split(":")[-1].split("/")[0])
    given: list[int] = []

    async def the_same_port_first(factory: Any, host: str, wanted: int, **more: Any) -> Any:
        given.append(wanted)
        return await create(factory, host, port if len(given) == 1 else wanted, **more)

    monkeypatch.setattr(loop, "create_server", the_same_port_first)
    async with Emulator() as sound:
        assert len(given) > 1  # and more, if the machine gives ports of other tests
        assert set(given) == {0}
        assert sound.base_url != url
        assert (await agent_at(sound.base_url).run("Hello")).output == "You said: Hello"
        with pytest.raises(OSError, match="Connect call failed"):
            await asyncio.open_connection("127.0.0.1", port)


async def test_a_port_that_was_asked_for_is_had_again() -> None:
    async with Emulator() as first:
        url = first.base_url
    port = int(url.split(":")[-1].split("/")[0])
    async with Emulator(listen=Listen(port=port)) as again:
        assert again.base_url == url
        with pytest.raises(ConfigurationError, match="cannot listen"):
            await Emulator(listen=Listen(port=port)).start()
