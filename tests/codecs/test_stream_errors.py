"""An error object in an event stream is read in every form, on every wire."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Agent
from holdfast.codecs.assemble import Assembler
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.core.errors import ErrorCategory, ErrorInfo
from holdfast.events import RetryScheduled
from holdfast.models.resolve import load_codec
from holdfast.testing import Emulator, FakeClock
from holdfast.testing.emulator import ErrorEvent

BEGINNING: dict[str, list[dict[str, Any]]] = {
    "openai_chat": [
        {"id": "r", "model": "m", "choices": [{"index": 0, "delta": {"content": "Hel"}}]}
    ],
    "openai_responses": [
        {"type": "response.created", "response": {"id": "r", "model": "m"}},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "H"},
    ],
    "anthropic": [
        {"type": "message_start", "message": {"id": "r", "model": "m", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}},
    ],
    "gemini": [{"candidates": [{"content": {"parts": [{"text": "Hel"}]}}]}],
}
RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}
STATUS = {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Slow down.", "details": [RETRY]}
ERROR: dict[str, Any] = {"error": STATUS}


def pretty(value: object) -> bytes:
    return json.dumps(value, indent=2).encode()


def plain(value: object) -> bytes:
    return json.dumps(value).encode()


FORMS: dict[str, bytes] = {
    "an event": b"data: " + plain(ERROR) + b"\n\n",
    "an event named error": b"event: error\ndata: " + plain(ERROR) + b"\n\n",
    "an event named error without an envelope": b"event: error\ndata: " + plain(STATUS) + b"\n\n",
    "an event without an envelope": b"data: " + plain(STATUS) + b"\n\n",
    "an array in an event": b"data: " + plain([ERROR]) + b"\n\n",
    "an array in an event named error": b"event: error\ndata: " + plain([ERROR]) + b"\n\n",
    "a line named error": b"error: " + plain(ERROR) + b"\n\n",
    "one bare line": plain(ERROR) + b"\n\n",
    "one bare line without an end": plain(ERROR),
    "bare lines": pretty(ERROR) + b"\n\n",
    "bare lines without an end": pretty(ERROR),
    "bare lines with CRLF": pretty(ERROR).replace(b"\n", b"\r\n") + b"\r\n",
    "a bare status": pretty(STATUS) + b"\n",
    "a bare array": pretty([ERROR]) + b"\n",
    "bare lines and an end marker": pretty(ERROR) + b"\n\ndata: [DONE]\n\n",
}
PLACES = [
    *((form, b"\n") for form in FORMS),
    # A bare text may follow an event without a blank line between them.
    *((form, b"") for form, body in FORMS.items() if body.startswith((b"{", b"["))),
]
Split = Callable[[bytes], list[bytes]]
SPLITS: dict[str, Split] = {
    "at once": lambda body: [body],
    "byte by byte": lambda body: [body[at : at + 1] for at in range(len(body))],
}


def read(wire: str, body: bytes, split: Split) -> ErrorInfo:
    codec = load_codec(wire, EndpointProfile())
    decoder, assembler = (
        codec.make_decoder("text/event-stream", "p"),
        Assembler(EndpointProfile(), wire),
    )
    for data in split(body):
        for delta in decoder.feed(data):
            assembler.feed(delta)
    for delta in decoder.close():
        assembler.feed(delta)
    error = assembler.finish().error
    assert error is not None
    return error.info


@pytest.mark.parametrize("wire", BEGINNING)
def test_the_error_has_its_status_its_category_and_its_wait(wire: str) -> None:
    body = b"\n".join(b"data: " + plain(event) + b"\n" for event in BEGINNING[wire])
    for (form, gap), split in itertools.product(PLACES, SPLITS):
        info = read(wire, body + gap + FORMS[form], SPLITS[split])
        assert (info.status, info.retry_after) == (429, 7.0), (form, gap, split)
        assert info.category is ErrorCategory.RATE_LIMIT_RETRYABLE, (form, gap, split)
        assert "Slow down." in info.safe, (form, gap, split)


@pytest.mark.parametrize("wire", BEGINNING)
def test_the_error_may_be_the_whole_stream(wire: str) -> None:
    for body in (plain(ERROR), pretty(ERROR), plain([ERROR]), b": ping\n\n" + pretty(ERROR)):
        info = read(wire, body, SPLITS["at once"])
        assert (info.status, info.retry_after) == (429, 7.0)


@pytest.mark.parametrize("wire", BEGINNING)
def test_half_an_error_is_a_stream_that_was_cut(wire: str) -> None:
    body = b"".join(b"data: " + plain(event) + b"\n\n" for event in BEGINNING[wire])
    info = read(wire, body + pretty(ERROR)[:40], SPLITS["at once"])
    assert info.category.is_retryable


async def test_the_next_attempt_waits_as_long_as_google_asks() -> None:
    faults = [ErrorEvent(1, body=ERROR, framed=False)]
    async with Emulator(["one two three"], faults=faults) as provider:
        agent = Agent(
            "gemini:gemini-3-pro",
            base_url=provider.base_url_for("gemini"),
            api_key="k",
            clock=FakeClock(),
        )
        async with agent.stream("Count.") as run:
            waits = [item.delay async for item in run if isinstance(item, RetryScheduled)]
        assert run.result.text == "one two three"
    assert waits == [pytest.approx(7.0, abs=1.0)]
