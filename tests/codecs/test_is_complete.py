"""`is_complete` on every recorded stream: a complete reply stays the same if its body breaks off."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tests.corpus import Row, rows

from holdfast.codecs.anthropic.codec import AnthropicCodec
from holdfast.codecs.assemble import Assembler
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.gemini.codec import Gemini
from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.codecs.openai_responses.codec import ResponsesCodec
from holdfast.codecs.wire import Codec
from holdfast.core.messages import Reply, ReplyKind
from holdfast.models.presets import PRESETS, Preset
from holdfast.models.resolve import load_codec

CODECS: dict[str, Codec] = {
    "openai_chat": OpenAIChat(),
    "openai_responses": ResponsesCodec(),
    "anthropic_messages": AnthropicCodec(),
    "gemini": Gemini(),
}
_EVENT = re.compile(rb".*?(?:\r\n\r\n|\n\n|\r\r|\Z)", re.DOTALL)


def provider_of(row: Row) -> str:
    return "vertex" if row.provider == "google_vertex" else ""


def said(reply: Reply) -> tuple[object, ...]:
    calls = [(call.name, call.arguments or "{}") for call in reply.calls]
    return reply.text, calls, reply.finish


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("dialect", CODECS)
def test_nothing_follows_the_proof_of_a_recorded_stream(dialect: str) -> None:
    codec, proofs, streams = CODECS[dialect], 0, 0
    for row in rows(dialect):
        if row.framing != "sse" or (row.status or 200) >= 300:
            continue
        streams += 1
        decoder = codec.make_decoder(row.content_type, provider_of(row))
        assembler = Assembler(EndpointProfile(), codec.name)
        broken: Reply | None = None
        for event in _EVENT.findall(row.body):
            for delta in decoder.feed(event):
                assembler.feed(delta)
            if assembler.is_complete and broken is None:
                broken = assembler.finish().reply
        for delta in decoder.close():
            assembler.feed(delta)
        whole = assembler.finish().reply
        if broken is not None and broken.kind is ReplyKind.COMPLETE:
            proofs += 1
            assert whole.kind is ReplyKind.COMPLETE, row.id
            assert said(broken) == said(whole), row.id
    assert proofs > streams / 2
    print(f"\n{dialect}: {proofs} of {streams} streams proved that they are whole, and were")


# A whole call with `[DONE]` and no finish reason. The end marker proves nothing, because further
# calls may have been lost. Only a provider whose row says that it sends no finish reasons is
# trusted, and then with complete arguments.

DONE = b"data: [DONE]\n\n"


def judge(preset: Preset, *events: dict[str, Any]) -> ReplyKind:
    codec = load_codec(preset.wire, preset.profile)
    decoder, assembler = codec.make_decoder("", preset.name), Assembler(preset.profile, preset.wire)
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    for delta in [*decoder.feed(body + DONE), *decoder.close()]:
        assembler.feed(delta)
    return assembler.finish().reply.kind


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ('{"euros": 5}', ReplyKind.COMPLETE),
        ("{}", ReplyKind.COMPLETE),
        ("", ReplyKind.UNTERMINATED),
        ('{"euros":', ReplyKind.UNTERMINATED),
    ],
)
@pytest.mark.parametrize("text", ["", "I will pay."])
def test_an_end_marker_is_judged_alike_for_every_chat_provider(
    arguments: str, kind: ReplyKind, text: str
) -> None:
    function = {"name": "pay", "arguments": arguments}
    call = {"index": 0, "id": "c1", "type": "function", "function": function}
    delta = {"role": "assistant", "content": text or None, "tool_calls": [call]}
    event = {"id": "1", "model": "m", "choices": [{"index": 0, "delta": delta}]}
    for preset in PRESETS.values():
        if preset.wire == "openai_chat":
            expected = kind if preset.profile.ends_without_finish else ReplyKind.UNTERMINATED
            assert judge(preset, event) is expected, preset.name


CALL = {"type": "function_call", "id": "f", "call_id": "c", "name": "pay", "arguments": "{}"}
BLOCK = {"type": "tool_use", "id": "c", "name": "pay", "input": {"euros": 5}}
PART = {"functionCall": {"name": "pay", "args": {"euros": 5}}}
OTHER_WIRES: dict[str, list[dict[str, Any]]] = {
    "openai_responses": [
        {"type": "response.created", "response": {"id": "r", "model": "m"}},
        {"type": "response.output_item.done", "output_index": 0, "item": CALL},
    ],
    "anthropic": [
        {"type": "message_start", "message": {"id": "r", "model": "m", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": BLOCK},
        {"type": "content_block_stop", "index": 0},
    ],
    "gemini": [{"candidates": [{"content": {"parts": [PART]}}]}],
}


@pytest.mark.parametrize("preset", [one for one in PRESETS.values() if one.wire in OTHER_WIRES])
def test_a_call_without_an_end_is_unterminated_on_every_other_wire(preset: Preset) -> None:
    assert judge(preset, *OTHER_WIRES[preset.wire]) is ReplyKind.UNTERMINATED
