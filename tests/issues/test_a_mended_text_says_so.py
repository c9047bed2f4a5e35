"""Bytes of a reply that are no characters became U+FFFD, and nobody was told."""

from __future__ import annotations

import pytest
from tests.transport.raw import Client, RawServer

from holdfast import Agent
from holdfast.core.deltas import TextDelta
from holdfast.events import CharactersReplaced

pytestmark = pytest.mark.anyio

MODELS = {
    "openai_chat": ("openai:m", "/v1"),
    "openai_responses": ("openai-responses:m", "/v1"),
    "anthropic": ("anthropic:m", ""),
    "gemini": ("gemini:m", "/v1beta"),
}
_MESSAGE = (
    b'{"type":"message","id":"1","role":"assistant","content":[{"type":"output_text","text":"%b"}]}'
)
_RESPONSE = b'{"id":"r","object":"response","status":"completed","output":[' + _MESSAGE + b"]}"
BODIES: dict[str, tuple[bytes, bytes]] = {
    # For each wire, a whole body and a stream.
    "openai_chat": (
        b'{"id":"r","model":"m","choices":[{"message":{"content":"%b"},"finish_reason":"stop"}]}',
        (
            b'data: {"id":"r","model":"m","choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n'
            b'data: {"id":"r","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
            b"data: [DONE]\n\n"
        ),
    ),
    "openai_responses": (
        _RESPONSE,
        b'data: {"type":"response.completed","response":' + _RESPONSE + b"}\n\n",
    ),
    "anthropic": (
        (
            b'{"id":"r","type":"message","role":"assistant","model":"m",'
            b'"content":[{"type":"text","text":"%b"}],"stop_reason":"end_turn","usage":{}}'
        ),
        (
            b'data: {"type":"message_start","message":{"id":"r","model":"m","content":[]}}\n\n'
            b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text"}}\n\n'
            b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%b"}}\n\n'
            b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{}}\n\n'
            b'data: {"type":"message_stop"}\n\n'
        ),
    ),
    "gemini": (
        b'{"candidates":[{"content":{"parts":[{"text":"%b"}]},"finishReason":"STOP"}]}',
        b'data: {"candidates":[{"content":{"parts":[{"text":"%b"}]},"finishReason":"STOP"}]}\n\n',
    ),
}


async def read(wire: str, form: int, text: bytes) -> tuple[str, str, int]:
    """Return the text of the result, the text that was streamed, and the number of notices."""

    async def serve(client: Client) -> None:
        await client.request()
        kind = b"text/event-stream" if form else b"application/json"
        await client.chunked(kind)
        await client.chunk(BODIES[wire][form] % text)
        await client.send(b"0\r\n\r\n")

    server = RawServer(serve)
    await server.start()
    model, path = MODELS[wire]
    place = f"http://127.0.0.1:{server.port}{path}"
    streamed, notices = "", 0
    try:
        async with Agent(model, base_url=place, api_key="k").stream("Hi") as run:
            async for item in run:
                streamed += item.text if isinstance(item, TextDelta) else ""
                notices += isinstance(item, CharactersReplaced)
            return run.result.text, streamed, notices
    finally:
        await server.stop()


@pytest.mark.parametrize("form", [0, 1], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", BODIES)
@pytest.mark.parametrize("text", [b"caf\xff", b"caf\xc3", b"caf\\ud83d"])
async def test_the_text_is_mended_and_a_notice_says_so(wire: str, form: int, text: bytes) -> None:
    assert await read(wire, form, text) == ("caf\ufffd", "caf\ufffd", 1)


@pytest.mark.parametrize("form", [0, 1], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", BODIES)
async def test_a_character_that_the_provider_sent_is_no_notice(wire: str, form: int) -> None:
    sent = "caf\ufffd é 😀"
    assert await read(wire, form, sent.encode()) == (sent, sent, 0)
