"""A reply has limits on every wire: an endless stream ends with a typed error."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from tests.transport.raw import Client, RawServer

from holdfast import Agent, tool
from holdfast.core.errors import ConfigurationError, exception_for
from holdfast.errors import ReplyTooLargeError
from holdfast.resilience import ReplyLimits, Resilience
from holdfast.testing import ScriptedModel

MEBIBYTE = 1024 * 1024
SMALL = ReplyLimits(text=MEBIBYTE, arguments=MEBIBYTE, calls=50, body=32 * MEBIBYTE)
MODELS = {
    "openai_chat": ("openai:m", "/v1"),
    "openai_responses": ("openai-responses:m", "/v1"),
    "anthropic": ("anthropic:m", ""),
    "gemini": ("gemini:m", "/v1beta"),
}
Events = Iterator[dict[str, Any]]


def chat(kind: str, size: int) -> Events:
    for number in itertools.count():
        delta: dict[str, Any] = {"content": "x" * size}
        function = {"name": "pay" if not number or kind == "calls" else None, "arguments": ""}
        call = {"index": number, "id": f"c{number}", "type": "function", "function": function}
        if kind == "calls":
            delta = {"tool_calls": [call]}
        elif kind == "arguments":
            function["arguments"] = "x" * size
            delta = {"tool_calls": [{**call, "index": 0, "id": "" if number else "c"}]}
        elif kind == "reasoning":
            delta = {"reasoning_content": "x" * size}
        yield {"id": "r", "model": "m", "choices": [{"index": 0, "delta": delta}]}


def responses(kind: str, size: int) -> Events:
    yield {"type": "response.created", "response": {"id": "r", "model": "m"}}
    sections = {
        "text": ("message", "response.output_text.delta"),
        "arguments": ("function_call", "response.function_call_arguments.delta"),
        "reasoning": ("reasoning", "response.reasoning_text.delta"),
    }
    for number in itertools.count():
        item_type, event = sections.get(kind, ("function_call", ""))
        if not number or kind == "calls":
            item = {"type": item_type, "id": f"i{number}", "call_id": f"c{number}", "name": "pay"}
            yield {"type": "response.output_item.added", "output_index": number, "item": item}
        if kind != "calls":
            yield {"type": event, "output_index": 0, "content_index": 0, "delta": "x" * size}


def anthropic(kind: str, size: int) -> Events:
    yield {"type": "message_start", "message": {"id": "r", "model": "m", "content": []}}
    blocks: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "text": ({"type": "text"}, {"type": "text_delta", "text": "x" * size}),
        "reasoning": ({"type": "thinking"}, {"type": "thinking_delta", "thinking": "x" * size}),
        "arguments": (
            {"type": "tool_use", "id": "c", "name": "pay"},
            {"type": "input_json_delta", "partial_json": "x" * size},
        ),
    }
    for number in itertools.count():
        block, delta = blocks.get(kind, blocks["arguments"])
        if not number or kind == "calls":
            yield {"type": "content_block_start", "index": number, "content_block": block}
        if kind != "calls":
            yield {"type": "content_block_delta", "index": 0, "delta": delta}


def gemini(kind: str, size: int) -> Events:
    parts: dict[str, dict[str, Any]] = {
        "text": {"text": "x" * size},
        "reasoning": {"text": "x" * size, "thought": True},
        "arguments": {"functionCall": {"name": "pay", "args": {"note": "x" * size}}},
        "calls": {"functionCall": {"name": "pay", "args": {}}},
    }
    while True:
        yield {"candidates": [{"content": {"parts": [parts[kind]]}}]}


STREAMS = {
    "openai_chat": chat,
    "openai_responses": responses,
    "anthropic": anthropic,
    "gemini": gemini,
}


class Endless:
    """A server that streams until its client leaves."""

    def __init__(self, wire: str, kind: str, size: int) -> None:
        self._events = STREAMS[wire](kind, size)
        self.sent = 0
        self.requests = 0
        self.server = RawServer(self._serve)

    async def _serve(self, client: Client) -> None:
        await client.request()
        self.requests += 1
        await client.chunked(b"text/event-stream")
        try:
            while True:
                some = itertools.islice(self._events, 64)
                data = b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in some)
                await client.chunk(data)
                self.sent += len(data)
        except OSError:
            return


async def read_endless(wire: str, kind: str, size: int, limits: ReplyLimits) -> Endless:
    """Run a turn against an endless stream, and return the server."""
    endless = Endless(wire, kind, size)
    await endless.server.start()
    model, path = MODELS[wire]
    ran: list[str] = []

    @tool
    def pay(note: str = "") -> str:
        """Pay."""
        ran.append(note)
        return "paid"

    agent = Agent(
        model,
        base_url=f"http://127.0.0.1:{endless.server.port}{path}",
        api_key="k",
        tools=[pay],
        resilience=Resilience(reply_limits=limits),
    )
    try:
        async with agent.stream("Hi") as run:
            with pytest.raises(ReplyTooLargeError) as caught:
                await run.wait()
    finally:
        await endless.server.stop()
    assert caught.value.partial is not None
    assert (caught.value.limit, ran) == ("text" if kind == "reasoning" else kind, [])
    assert f"reply_limits.{caught.value.limit}" in str(caught.value)
    saved = exception_for(caught.value.info.to_public())
    assert isinstance(saved, ReplyTooLargeError)
    assert saved.limit == caught.value.limit
    return endless


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("kind", ["text", "reasoning", "arguments", "calls"])
@pytest.mark.parametrize("wire", STREAMS)
async def test_an_endless_stream_ends_at_its_limit(wire: str, kind: str) -> None:
    limits = SMALL if kind != "arguments" else ReplyLimits(arguments=MEBIBYTE, calls=None)
    endless = await read_endless(wire, kind, 20_000, limits)
    assert endless.requests == 1
    assert endless.sent < 24 * MEBIBYTE


# Small pieces take seconds for each wire, since every allocation is noted.
@pytest.mark.parametrize("size", [pytest.param(40, marks=pytest.mark.slow), 20_000])
@pytest.mark.parametrize("wire", STREAMS)
async def test_the_memory_of_an_endless_stream_is_bounded(wire: str, size: int) -> None:
    tracemalloc.start()
    try:
        await read_endless(wire, "text", size, ReplyLimits(text=MEBIBYTE // 4))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 * MEBIBYTE


async def test_the_limits_hold_by_default() -> None:
    endless = await read_endless("openai_chat", "text", 500_000, ReplyLimits())
    assert endless.sent < 128 * MEBIBYTE


@pytest.mark.slow  # takes half a second or more
async def test_a_body_without_content_has_a_limit_too() -> None:
    endless = Endless("openai_chat", "text", 0)
    await endless.server.start()
    place = f"http://127.0.0.1:{endless.server.port}/v1"
    limits = Resilience(reply_limits=ReplyLimits(body=MEBIBYTE))
    try:
        with pytest.raises(ReplyTooLargeError) as caught:
            await Agent("openai:m", base_url=place, api_key="k", resilience=limits).run("Hi")
    finally:
        await endless.server.stop()
    assert caught.value.limit == "body"


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_small_reply_with_too_many_calls_is_refused_at_its_end(streamed: bool) -> None:
    function = {"name": "pay", "arguments": "{}"}
    calls = [
        {"index": at, "id": f"c{at}", "type": "function", "function": function} for at in range(60)
    ]
    message = {"role": "assistant", "tool_calls": calls}
    choice = {"index": 0, "finish_reason": "tool_calls"}
    choice["delta" if streamed else "message"] = message  # type: ignore[assignment]
    body = json.dumps({"id": "r", "model": "m", "choices": [choice]}).encode()

    async def serve(client: Client) -> None:
        await client.request()
        await client.chunked(b"text/event-stream" if streamed else b"application/json")
        await client.chunk(b"data: %b\n\ndata: [DONE]\n\n" % body if streamed else body)
        await client.send(b"0\r\n\r\n")

    server = RawServer(serve)
    await server.start()
    place = f"http://127.0.0.1:{server.port}/v1"
    agent = Agent(
        "openai:m",
        base_url=place,
        api_key="k",
        resilience=Resilience(reply_limits=SMALL),
    )
    try:
        async with agent.stream("Hi") as run:
            with pytest.raises(ReplyTooLargeError) as caught:
                await run.wait()
    finally:
        await server.stop()
    assert caught.value.limit == "calls"


def test_a_wrong_limit_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"reply_limits\.text: must be at least 1"):
        ReplyLimits(text=0)
    with pytest.raises(ConfigurationError, match=r"resilience\.reply_limits: must be ReplyLimits"):
        Agent(ScriptedModel("Hi."), resilience=Resilience(reply_limits=5))  # type: ignore[arg-type]
