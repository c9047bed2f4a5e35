"""A whole call with `[DONE]` and no finish reason is judged the same for every provider of the wire.

The end marker proves nothing: further calls may have been lost. Only a provider whose row says that it
sends no finish reasons is trusted, and then with complete arguments.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.codecs.assemble import Assembler
from holdfast.core.messages import ReplyKind
from holdfast.models.presets import PRESETS, Preset
from holdfast.models.resolve import _load_codec

DONE = b"data: [DONE]\n\n"


def judge(preset: Preset, *events: dict[str, Any]) -> ReplyKind:
    codec = _load_codec(preset.wire, preset.quirks)
    decoder, assembler = codec.make_decoder("", preset.name), Assembler(preset.quirks, preset.wire)
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    for delta in [*decoder.feed(body + DONE), *decoder.close()]:
        assembler.feed(delta)
    return assembler.finish().reply.kind


@pytest.mark.parametrize("preset", [one for one in PRESETS.values() if one.wire == "openai_chat"])
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
def test_every_chat_provider(preset: Preset, arguments: str, kind: ReplyKind, text: str) -> None:
    function = {"name": "pay", "arguments": arguments}
    call = {"index": 0, "id": "c1", "type": "function", "function": function}
    delta = {"role": "assistant", "content": text or None, "tool_calls": [call]}
    event = {"id": "1", "model": "m", "choices": [{"index": 0, "delta": delta}]}
    if not preset.quirks.ends_without_finish:
        kind = ReplyKind.UNTERMINATED
    assert judge(preset, event) is kind


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
def test_every_provider_of_another_wire(preset: Preset) -> None:
    assert judge(preset, *OTHER_WIRES[preset.wire]) is ReplyKind.UNTERMINATED
