"""Real HTTP clients and SDKs against the emulator, and the kinds of bad replies that it sends them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.resilience.operations import Bench
from tests.seeds.sdks import MESSAGES, PROMPT, WIRES, vendor_call

from holdfast.calls import (
    CallResult,
    Guard,
    ResultKind,
    asend_message,
    asend_message_streaming,
    send_message,
    send_message_streaming,
)
from holdfast.core.errors import ErrorCategory
from holdfast.resilience import (
    BreakerOptions,
    BreakerStrategy,
    CallMetrics,
    CircuitBreaker,
    MetricsRecorder,
    Pipeline,
    Retry,
)
from holdfast.resilience.retry.options import RetryOptions
from holdfast.testing import Emulator
from holdfast.testing.emulator import (
    CloseBeforeHeaders,
    DropAfter,
    EmptyChoices,
    ErrorEvent,
    ErrorResponse,
    Fault,
    Html200,
    HttpStatus,
    NoTerminator,
    OddJson,
    ResetAfterHeaders,
    ResetBeforeHeaders,
    TruncatedJson,
)

ANSWER = "Porto is in Portugal."
PAGE = "<!DOCTYPE html><html><head><title>Bad gateway</title></head><body>Porto</body></html>"

Call = Callable[[], Any]


def request_for(wire: str, provider: Emulator, *, streamed: bool) -> tuple[str, Any, Any]:
    """The address, the body and the headers of a request that a user writes by hand."""
    base = provider.base_url_for(wire)
    stream = {"stream": True} if streamed else {}
    if wire == "openai_chat":
        body: dict[str, Any] = {"model": "demo", "messages": MESSAGES, **stream}
        return f"{base}/chat/completions", body, {"authorization": "Bearer any"}
    if wire == "openai_responses":
        body = {"model": "demo", "input": PROMPT, **stream}
        return f"{base}/responses", body, {"authorization": "Bearer any"}
    if wire == "anthropic":
        body = {"model": "demo", "max_tokens": 99, "messages": MESSAGES, **stream}
        return f"{base}/v1/messages", body, {"x-api-key": "any", "anthropic-version": "2023-06-01"}
    method = "streamGenerateContent?alt=sse" if streamed else "generateContent"
    body = {"contents": [{"role": "user", "parts": [{"text": PROMPT}]}]}
    return f"{base}/models/demo:{method}", body, {"x-goog-api-key": "any"}


@asynccontextmanager
async def http_call(
    client: str, wire: str, provider: Emulator, *, streamed: bool
) -> AsyncIterator[Call]:
    url, body, headers = request_for(wire, provider, streamed=streamed)
    if client == "requests":
        requests = pytest.importorskip("requests")
        with requests.Session() as session:
            yield lambda: session.post(url, json=body, headers=headers, stream=streamed)
    elif client == "httpx":
        httpx = pytest.importorskip("httpx")
        with httpx.Client() as session:
            if streamed:
                yield lambda: session.stream("POST", url, json=body, headers=headers)
            else:
                yield lambda: session.post(url, json=body, headers=headers)
    elif client == "httpx_async":
        httpx = pytest.importorskip("httpx")
        async with httpx.AsyncClient() as session:
            if streamed:
                yield lambda: session.stream("POST", url, json=body, headers=headers)
            else:
                yield lambda: session.post(url, json=body, headers=headers)
    else:
        aiohttp = pytest.importorskip("aiohttp")
        async with aiohttp.ClientSession() as session:
            yield lambda: session.post(url, json=body, headers=headers)


@asynccontextmanager
async def raw_call(wire: str, provider: Emulator, *, streamed: bool) -> AsyncIterator[Call]:
    """The raw response of an SDK, whose body it has not parsed."""
    base = provider.base_url_for(wire)
    request: dict[str, Any] = {"model": "demo", "messages": MESSAGES, "stream": streamed}
    if wire == "anthropic":
        sdk = pytest.importorskip("anthropic")
        base, request = base.removesuffix("/v1"), {**request, "max_tokens": 99}
        client = sdk.Anthropic(base_url=base, api_key="any", max_retries=0)
        messages = client.messages
    else:
        sdk = pytest.importorskip("openai")
        client = sdk.OpenAI(base_url=base, api_key="any", max_retries=0)
        messages = client.chat.completions
    if wire == "openai_responses":
        messages, request = client.responses, {"model": "demo", "input": PROMPT, "stream": streamed}
    raw = messages.with_streaming_response if streamed else messages.with_raw_response
    try:
        yield lambda: raw.create(**request)
    finally:
        client.close()


@asynccontextmanager
async def chat_call(provider: Emulator, *, streamed: bool, is_async: bool) -> AsyncIterator[Call]:
    """The chats of google-genai, which keep the conversation themselves."""
    genai = pytest.importorskip("google.genai")
    base = provider.base_url_for("gemini").removesuffix("/v1beta")
    client = genai.Client(api_key="any", http_options=genai.types.HttpOptions(base_url=base))
    chats = (client.aio if is_async else client).chats

    def ask() -> Any:
        chat = chats.create(model="demo")
        return (chat.send_message_stream if streamed else chat.send_message)(PROMPT)

    try:
        yield ask
    finally:
        await client.aio.aclose()
        client.close()


CLIENTS = (
    "requests",
    "httpx",
    "httpx_async",
    "aiohttp",
    "sdk",
    "sdk_async",
    "raw",
    "chat",
    "chat_async",
)


@asynccontextmanager
async def open_call(
    client: str, wire: str, provider: Emulator, *, streamed: bool
) -> AsyncIterator[Call]:
    if client == "raw":
        opened = raw_call(wire, provider, streamed=streamed)
    elif client.startswith("chat"):
        opened = chat_call(provider, streamed=streamed, is_async=client == "chat_async")
    elif client.startswith("sdk"):
        opened = vendor_call(wire, provider, streamed=streamed, is_async=client == "sdk_async")
    else:
        opened = http_call(client, wire, provider, streamed=streamed)
    async with opened as call:
        yield call


def sender(client: str, *, streamed: bool) -> Callable[..., Any]:
    if client in ("httpx_async", "aiohttp", "sdk_async", "chat_async"):
        return asend_message_streaming if streamed else asend_message
    return send_message_streaming if streamed else send_message


async def send(client: str, call: Call, *, streamed: bool) -> CallResult:
    function = sender(client, streamed=streamed)
    if inspect.iscoroutinefunction(function):
        return await function(call)  # type: ignore[no-any-return]
    return await asyncio.to_thread(function, call)


ALWAYS: list[Fault] = [
    HttpStatus(500),
    HttpStatus(502, {"content-type": "text/html"}, PAGE),
    HttpStatus(401),
    HttpStatus(429),
    HttpStatus(404, body={"text": ANSWER}),
    ErrorResponse("overloaded"),
    ErrorResponse("insufficient_quota"),
    CloseBeforeHeaders(),
    ResetBeforeHeaders(),
    ResetAfterHeaders(),
    DropAfter(1),
    DropAfter(1, reset=False),
    TruncatedJson(),
    OddJson({"text": ANSWER}),
    OddJson({"message": ANSWER}),
    OddJson([ANSWER]),
    OddJson(ANSWER),
    Html200(),
    EmptyChoices(),
    ErrorEvent(1),
]
"""One of these comes instead of each reply."""
_LOST = (CloseBeforeHeaders, ResetBeforeHeaders)


async def check_bad_replies(client: str, wire: str, *, streamed: bool) -> None:
    """Send each bad reply to a client: it is never an answer, and counts as a failure."""
    faults = [*ALWAYS, *([NoTerminator()] if streamed else [])]
    if client in ("sdk_async", "chat_async") and wire == "gemini":
        # This client sleeps for up to ten seconds when its connection is lost before the headers.
        faults = [fault for fault in faults if not isinstance(fault, _LOST)]
    async with (
        Emulator([ANSWER] * len(faults), faults=lambda _: current) as provider,
        open_call(client, wire, provider, streamed=streamed) as call,
    ):
        for current in faults:
            await _check_bad_reply(client, call, current, streamed=streamed)
    async with (
        Emulator(lambda _: "") as provider,
        open_call(client, wire, provider, streamed=streamed) as call,
    ):
        await _check_bad_reply(client, call, "an empty reply", streamed=streamed)


async def check_good_reply(client: str, wire: str, *, streamed: bool) -> None:
    """Send a good reply to a client."""
    async with (
        Emulator([ANSWER]) as provider,
        open_call(client, wire, provider, streamed=streamed) as call,
    ):
        result = await send(client, call, streamed=streamed)
    assert (result.ok, result.kind, result.text) == (True, ResultKind.TEXT, ANSWER), result
    assert streamed or result.usage.output > 0


async def _check_bad_reply(client: str, call: Call, fault: object, *, streamed: bool) -> None:
    result = await send(client, call, streamed=streamed)
    assert not result.ok, (fault, result)
    assert result.text == "", fault
    assert result.error is not None, fault
    assert result.info is not None, fault
    metrics, breaker = (
        CallMetrics(),
        CircuitBreaker("any", BreakerOptions(mode="consecutive", failures=2)),
    )
    guard = Guard(
        Pipeline.of(
            Retry(RetryOptions(max_retries=1, retry_delay=0)),
            MetricsRecorder(metrics),
            BreakerStrategy(breaker),
        ),
        env=Bench().env,
    )
    with pytest.raises(Exception) as raised:  # noqa: PT011  # each client has its own
        await guard.call(sender(client, streamed=streamed), call)
    counts = metrics.snapshot()
    assert (counts.total_calls, counts.successful_calls) == (1, 0), (fault, raised.value)
    attempts = 2 if result.info.category.is_retryable else 1
    assert dict(counts.retry_counts) == {attempts: 1}, (fault, result.info)
    if result.category in BROKEN:
        assert breaker.snapshot().state == "open", (fault, result.info)


BROKEN = (ErrorCategory.SERVER_ERROR, ErrorCategory.TRANSIENT, ErrorCategory.TIMEOUT)

PAIRS = [
    (client, wire)
    for client in CLIENTS
    for wire in WIRES
    if (client, wire) != ("raw", "gemini")  # google-genai has no raw responses
    and (not client.startswith("chat") or wire == "gemini")
]
"""Every client with every wire that it can speak."""
