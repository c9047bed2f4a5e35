"""Streams behind the strategies: retried before their first piece, and told to the reader after it."""

from __future__ import annotations

import asyncio
import functools
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.calls.replies import chat_chunk
from tests.resilience.operations import Bench
from tests.seeds.sdks import MESSAGES, WIRES, vendor_call

from holdfast.calls import (
    CallResult,
    Guard,
    ResultKind,
    arguments_key,
    execute,
    opened_streams,
    resilient,
    send_message,
    send_message_streaming,
)
from holdfast.calls.opened_streams import CallInThread
from holdfast.compat import retry_ai_call_with_parsing
from holdfast.core.errors import (
    ConfigurationError,
    EmptyResponseError,
    ErrorCategory,
    ErrorInfo,
    ToolFailedError,
)
from holdfast.resilience import (
    AttemptTimeout,
    Cache,
    CacheOptions,
    CallMetrics,
    MetricsRecorder,
    Pipeline,
    Retry,
    Store,
)
from holdfast.resilience.retry.options import RetryOptions
from holdfast.testing import Emulator
from holdfast.testing.emulator import DropAfter, ErrorResponse, Html200, HttpStatus
from holdfast.tools.threads import ThreadCall, ToolThreads

RETRY = Pipeline.of(Retry())

each_wire = pytest.mark.parametrize("wire", WIRES)


class Source:
    """A generator function that fails before its first piece, or after some, as often as it is told."""

    def __init__(self, *pieces_before_failure: int) -> None:
        self.failures, self.calls = list(pieces_before_failure), 0
        self.closed = 0

    def pieces(self, count: int = 3) -> Iterator[int]:
        self.calls += 1
        fails_at = self.failures.pop(0) if self.failures else -1
        try:
            for number in range(count):
                if number == fails_at:
                    raise ConnectionResetError("cut")
                yield number
        finally:
            self.closed += 1

    async def apieces(self, count: int = 3) -> AsyncIterator[int]:
        for number in self.pieces(count):
            yield number

    async def opened(self, count: int = 3) -> AsyncIterator[int]:
        return self.apieces(count)

    def returned(self, count: int = 3) -> Any:
        return self.pieces(count)


async def read(stream: Any) -> list[Any]:
    if hasattr(stream, "__aiter__"):
        return [piece async for piece in stream]
    return list(stream)


KINDS = ["pieces", "apieces", "opened", "returned"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_stream_is_retried_before_its_first_piece(kind: str) -> None:
    source, bench = Source(0, 0), Bench()
    stream = await Guard(RETRY, env=bench.env).call(getattr(source, kind), 2)
    assert (source.calls, bench.clock.sleeps) == (3, [1.0, 2.0])
    assert await read(stream) == [0, 1]


@pytest.mark.parametrize("kind", KINDS)
async def test_after_its_first_piece_the_reader_is_told(kind: str) -> None:
    source, bench = Source(2), Bench()
    stream = await Guard(RETRY, env=bench.env).call(getattr(source, kind))
    with pytest.raises(ConnectionResetError) as raised:
        await read(stream)
    assert raised.value.__notes__ == ["Not retried: the stream had given 2 pieces before."]
    assert (source.calls, bench.clock.sleeps) == (1, [])


@pytest.mark.parametrize("kind", KINDS)
async def test_a_stream_without_a_piece_is_a_failed_attempt(kind: str) -> None:
    source, metrics = Source(), CallMetrics()
    guard = Guard(Pipeline.of(Retry(), MetricsRecorder(metrics)), env=Bench().env)
    with pytest.raises(EmptyResponseError, match="before its first piece"):
        await guard.call(getattr(source, kind), 0)
    assert source.calls == 4
    assert metrics.snapshot().successful_calls == 0


def test_a_decorated_generator_stays_a_generator() -> None:
    source = Source(0)
    decorated = resilient(Retry(), env=Bench().env)(source.pieces)
    with decorated() as stream:  # type: ignore[attr-defined]
        assert next(stream) == 0
    assert (source.calls, source.closed) == (2, 2)
    assert list(stream) == []


async def test_a_decorated_asynchronous_generator_stays_one() -> None:
    source = Source(0)
    decorated = resilient(Retry(), env=Bench().env)(functools.partial(source.apieces, 2))
    assert [piece async for piece in decorated()] == [0, 1]
    assert source.calls == 2
    stream = decorated()
    assert await anext(stream) == 0
    await stream.aclose()  # type: ignore[attr-defined]
    assert [piece async for piece in stream] == []


async def test_strategies_around_strategies_read_no_piece_twice() -> None:
    source = Source(0)
    inner = Guard(RETRY, env=Bench().env)
    stream = await execute(RETRY, inner.call, source.pieces)
    assert list(stream) == [0, 1, 2]


async def test_iterators_that_are_no_streams_are_returned_as_they_are() -> None:
    cursor = sqlite3.connect(":memory:").execute("select 1")
    for value in ([1], iter([1]), cursor, {"a": 1}, Path(__file__).open()):  # noqa: ASYNC230, SIM115
        assert await execute(RETRY, lambda value=value: value) is value
        getattr(value, "close", int)()


async def test_an_asynchronous_function_may_return_a_blocking_stream() -> None:
    thread_names: list[str] = []

    def blocking() -> Iterator[int]:
        thread_names.append(threading.current_thread().name)
        yield 1

    async def call() -> Iterator[int]:
        return blocking()

    stream = await execute(RETRY, call)
    assert thread_names != [threading.main_thread().name]
    assert list(stream) == [1]


class BothStream(Iterator[str], AsyncIterator[str]):
    """The stream of litellm, which only one of its clients can read."""

    completion_stream = None

    def __init__(self) -> None:
        self.pieces = ["Porto"]

    def __next__(self) -> str:
        raise ZeroDivisionError

    async def __anext__(self) -> str:
        if not self.pieces:
            raise StopAsyncIteration
        return self.pieces.pop()


async def test_a_stream_of_both_kinds_is_read_as_the_client_is() -> None:
    async def ask() -> BothStream:
        return BothStream()

    stream: Any = await execute(RETRY, ask)
    assert [piece async for piece in stream] == ["Porto"]


async def test_a_stream_that_comes_after_its_time_is_closed() -> None:
    go, source = threading.Event(), Source()

    def late() -> Iterator[int]:
        go.wait()
        closed.append("opened")
        try:
            yield 1
        finally:
            closed.append("closed")
            done.set()

    closed: list[str] = []
    done = threading.Event()
    with pytest.raises(Exception, match=r"0\.2 s, the limit for one attempt"):
        await execute(Pipeline.of(AttemptTimeout(0.2)), late)
    go.set()
    assert await asyncio.to_thread(done.wait, 10)
    assert closed == ["opened", "closed"]
    assert source.calls == 0


async def test_a_cache_keeps_no_stream() -> None:
    cache = Cache(Store(CacheOptions()), arguments_key("acme"), lambda _: 1)
    guard = Guard(Pipeline.of(cache), env=Bench().env)
    source = Source()
    with pytest.raises(ConfigurationError, match="cannot keep the stream"):
        await guard.call(source.pieces)
    assert source.closed == 1


@pytest.mark.slow  # takes half a second or more
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@each_wire
async def test_the_streams_of_the_sdks_are_retried_before_their_first_piece(
    wire: str, *, is_async: bool
) -> None:
    faults = [HttpStatus(503), Html200(), ErrorResponse("overloaded")]
    bench = Bench()
    async with (
        Emulator(["Porto is in Portugal."], faults=faults) as provider,
        vendor_call(wire, provider, streamed=True, is_async=is_async) as call,
    ):
        stream = await Guard(RETRY, env=bench.env).call(call)
        pieces = await read(stream) if is_async else await asyncio.to_thread(list, stream)
        assert len(provider.requests) == 4
    assert send_message_streaming(lambda: iter(pieces)).text == "Porto is in Portugal."


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@each_wire
async def test_a_stream_of_an_sdk_that_breaks_later_is_told(wire: str) -> None:
    async with (
        Emulator(["Porto is in Portugal."], faults=[DropAfter(2)]) as provider,
        vendor_call(wire, provider, streamed=True) as call,
    ):
        stream = await Guard(RETRY, env=Bench().env).call(call)
        result = await asyncio.to_thread(send_message_streaming, lambda: stream)
        assert len(provider.requests) == 1
    assert not result.ok
    assert result.error is not None
    assert "Not retried" in result.error.__notes__[0]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_the_managers_of_streams_are_retried_too(kind: str, *, is_async: bool) -> None:
    sdk = pytest.importorskip(kind)
    async with Emulator(["Porto"], faults=[HttpStatus(503), Html200()]) as provider:
        name = ("Async" if is_async else "") + {"openai": "OpenAI", "anthropic": "Anthropic"}[kind]
        base = provider.base_url_for({"openai": "openai_chat"}.get(kind, kind))
        client = getattr(sdk, name)(base_url=base, api_key="any", max_retries=0)
        request: dict[str, Any] = {"model": "demo", "messages": MESSAGES}
        if kind == "anthropic":
            make = functools.partial(client.messages.stream, max_tokens=9, **request)
        else:
            make = functools.partial(client.chat.completions.stream, **request)
        opened: Any = await Guard(RETRY, env=Bench().env).call(make)
        if is_async:
            async with opened as stream:
                pieces = [piece async for piece in stream]
            await client.close()
        else:
            with opened as stream:
                pieces = await asyncio.to_thread(list, stream)
            client.close()
        assert len(provider.requests) == 3
    assert send_message_streaming(lambda: iter(pieces)).text == "Porto"


async def test_a_manager_that_sends_its_request_later_is_refused() -> None:
    httpx, openai = pytest.importorskip("httpx"), pytest.importorskip("openai")
    client = openai.OpenAI(base_url="http://127.0.0.1:1", api_key="any", max_retries=0)
    create = client.chat.completions.with_streaming_response.create
    with httpx.Client() as session, client:
        for late in (
            lambda: session.stream("GET", "http://127.0.0.1:1"),
            lambda: create(model="demo", messages=MESSAGES),
        ):
            with pytest.raises(ConfigurationError, match="returns a context manager"):
                await execute(RETRY, late)


class TestResults:
    """Results of `send_message` behind the strategies."""

    def test_a_result_without_an_answer_is_a_failed_attempt(self) -> None:
        page = "<html>Sign in</html>"
        replies: list[Any] = [{"choices": []}, page, [chat_chunk(content="Half")], None]
        good = [chat_chunk(content="Whole"), chat_chunk("stop")]
        replies.append(good)
        bench, metrics = Bench(), CallMetrics()

        @resilient(Retry(RetryOptions(max_retries=4)), MetricsRecorder(metrics), env=bench.env)
        def ask() -> CallResult:
            return send_message_streaming(lambda: replies.pop(0))

        assert ask().text == "Whole"
        assert dict(metrics.snapshot().retry_counts) == {5: 1}

    def test_the_error_of_the_last_attempt_is_raised(self) -> None:
        metrics = CallMetrics()

        @resilient(Retry(), MetricsRecorder(metrics), env=Bench().env)
        def ask() -> CallResult:
            return send_message(lambda: {"candidates": []})

        with pytest.raises(EmptyResponseError):
            ask()
        assert metrics.snapshot().successful_calls == 0
        assert send_message(ask).kind is ResultKind.EMPTY

    def test_a_judge_of_the_users_own_comes_on_top(self) -> None:
        texts = ["bad", "good"]

        def judge(value: object) -> ErrorInfo | None:
            is_good = isinstance(value, CallResult) and value.text == "good"
            return (
                None if is_good else ErrorInfo(category=ErrorCategory.INVALID_RESPONSE, safe="bad")
            )

        @resilient(judge=judge, env=Bench().env)
        def ask() -> CallResult:
            answer = {"message": {"content": texts.pop(0)}, "finish_reason": "stop"}
            return send_message(lambda: {"choices": [answer]})

        assert ask().text == "good"

    def test_a_result_is_passed_on_as_it_is(self) -> None:
        answer = {"message": {"content": "Hi"}, "finish_reason": "stop"}
        result = send_message(lambda: {"choices": [answer]})
        failed = send_message(lambda: None)
        assert send_message(lambda: result) is result
        assert send_message(lambda: failed) is failed
        assert retry_ai_call_with_parsing(lambda: result)[2] == "Hi"
        assert retry_ai_call_with_parsing(lambda: failed, max_retries=0)[0] is False


@pytest.mark.parametrize("is_first", [True, False], ids=["call", "end"])
def test_a_stream_that_nobody_waits_for_is_closed_whoever_comes_second(*, is_first: bool) -> None:
    closed: list[bool] = []

    def stream() -> Iterator[str]:
        try:
            yield "Hel"
            yield "lo"
        finally:
            closed.append(True)

    call = CallInThread(stream)
    for step in (call, call.abandon) if is_first else (call.abandon, call):
        step()
    assert closed == [True]


class OpenStream(Iterator[str]):
    """A stream of an SDK, whose connection is open."""

    response = None

    def __init__(self) -> None:
        self.closed = 0

    def __next__(self) -> str:
        return "Hel"

    def close(self) -> None:
        self.closed += 1


async def test_a_stream_that_waits_for_a_thread_is_closed_when_its_caller_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads, go = ToolThreads(1, max_threads=1), threading.Event()
    monkeypatch.setattr("holdfast.calls.guard._threads", threads)
    stream, came = OpenStream(), asyncio.Event()

    async def ask() -> Iterator[str]:
        came.set()
        return stream

    busy = asyncio.create_task(threads.run(ThreadCall("busy", go.wait)))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(execute(Pipeline.of(), ask))
    await came.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert stream.closed == 1
    go.set()
    await busy


async def test_a_stream_for_which_there_is_no_thread_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads, go = ToolThreads(1, max_threads=1, queue_timeout=0.001), threading.Event()
    monkeypatch.setattr("holdfast.calls.guard._threads", threads)
    stream = OpenStream()

    async def ask() -> Iterator[str]:
        return stream

    busy = asyncio.create_task(threads.run(ThreadCall("busy", go.wait)))
    await asyncio.sleep(0)
    with pytest.raises(ToolFailedError, match="every thread is taken"):
        await execute(Pipeline.of(), ask)
    assert stream.closed == 1
    go.set()
    await busy


@pytest.mark.parametrize("is_first", [True, False], ids=["call", "end"])
def test_a_stream_that_is_there_already_is_closed_once(*, is_first: bool) -> None:
    stream = OpenStream()
    call = CallInThread(lambda: stream, stream)
    for step in (call, call.abandon) if is_first else (call.abandon, call.abandon):
        step()
    assert stream.closed == 1


class _AllEqual(type):
    """A metaclass whose classes are equal, and have one hash."""

    def __eq__(cls, other: object) -> bool:
        return isinstance(other, _AllEqual)

    def __hash__(cls) -> int:
        return 1


def test_a_metaclass_does_not_decide_what_is_a_stream() -> None:
    manager = _AllEqual(
        "manager", (), {"__enter__": lambda self: self, "__exit__": lambda *_: None}
    )
    source = _AllEqual("source", (), {"__iter__": lambda self: self, "__next__": lambda _: "a"})
    for kind in (manager, source):
        made = kind()
        assert resilient()(lambda made=made: made)() is made
    methods = [opened_streams._find_methods(kind) for kind in (manager, source)]
    assert methods == [{"__exit__"}, {"__next__"}]
