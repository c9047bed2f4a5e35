"""The four clients of vendors, against the emulator: one call, whole or streamed, in both kinds."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.calls import (
    CallResult,
    asend_message,
    asend_message_streaming,
    send_message,
    send_message_streaming,
)
from holdfast.testing import Emulator

WIRES = ("openai_chat", "openai_responses", "anthropic", "gemini")
PROMPT = "Where is Porto?"
MESSAGES = [{"role": "user", "content": PROMPT}]


@asynccontextmanager
async def vendor_call(
    wire: str, provider: Emulator, *, streamed: bool = False, is_async: bool = False
) -> AsyncIterator[Callable[[], Any]]:
    """Open the client of the wire's vendor; the value makes one request with it."""
    close, call = _OPENERS[wire](provider, streamed, is_async)
    try:
        yield call
    finally:
        closed = close()
        if inspect.isawaitable(closed):
            await closed


Opened = tuple[Callable[[], Any], Callable[[], Any]]


def _openai(provider: Emulator, wire: str, is_async: bool) -> Any:
    sdk = pytest.importorskip("openai")
    kind = sdk.AsyncOpenAI if is_async else sdk.OpenAI
    return kind(base_url=provider.base_url_for(wire), api_key="any", max_retries=0)


def _chat(provider: Emulator, streamed: bool, is_async: bool) -> Opened:
    client = _openai(provider, "openai_chat", is_async)
    make = client.chat.completions.create
    return client.close, lambda: make(model="demo", messages=MESSAGES, stream=streamed)


def _responses(provider: Emulator, streamed: bool, is_async: bool) -> Opened:
    client = _openai(provider, "openai_responses", is_async)
    make = client.responses.create
    return client.close, lambda: make(model="demo", input=PROMPT, stream=streamed)


def _anthropic(provider: Emulator, streamed: bool, is_async: bool) -> Opened:
    sdk = pytest.importorskip("anthropic")
    kind = sdk.AsyncAnthropic if is_async else sdk.Anthropic
    base = provider.base_url_for("anthropic").removesuffix("/v1")
    client = kind(base_url=base, api_key="any", max_retries=0)
    request = {"model": "demo", "max_tokens": 99, "messages": MESSAGES, "stream": streamed}
    return client.close, lambda: client.messages.create(**request)


def _gemini(provider: Emulator, streamed: bool, is_async: bool) -> Opened:
    genai = pytest.importorskip("google.genai")
    base = provider.base_url_for("gemini").removesuffix("/v1beta")
    client = genai.Client(api_key="any", http_options=genai.types.HttpOptions(base_url=base))
    models = client.aio.models if is_async else client.models
    make = models.generate_content_stream if streamed else models.generate_content
    close = client.aio.aclose if is_async else client.close
    return close, lambda: make(model="demo", contents=PROMPT)


_OPENERS = {
    "openai_chat": _chat,
    "openai_responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}


async def send(
    wire: str, provider: Emulator, *, streamed: bool, is_async: bool = False
) -> CallResult:
    """Make the call with the function of `holdfast.calls` that fits it."""
    async with vendor_call(wire, provider, streamed=streamed, is_async=is_async) as call:
        if is_async:
            send_async: Callable[..., Awaitable[CallResult]] = (
                asend_message_streaming if streamed else asend_message
            )
            return await send_async(call)
        send_sync = send_message_streaming if streamed else send_message
        return await asyncio.to_thread(send_sync, call)
