"""Bodies of this wire as tests write them, and how a body becomes a reply."""

import json
from typing import Any

from tests.codecs.reading import Body, assemble_deltas, read_deltas

from holdfast.codecs.anthropic.codec import AnthropicCodec
from holdfast.codecs.assemble import AssembledReply
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.core.deltas import Delta

Json = dict[str, Any]

STRICT = EndpointProfile(ends_without_marker=False)


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def started(**fields: Any) -> bytes:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], **fields}
    return event("message_start", message={"model": "claude-sonnet-4-5", **message})


def opened(index: int, **block: Any) -> bytes:
    return event("content_block_start", index=index, content_block=block)


def grown(index: int, kind: str, **delta: Any) -> bytes:
    return event("content_block_delta", index=index, delta={"type": kind, **delta})


def stopped(index: int) -> bytes:
    return event("content_block_stop", index=index)


def ended(reason: str | None, **fields: Any) -> bytes:
    usage = fields.pop("usage", {"output_tokens": 5})
    delta = {"stop_reason": reason, "stop_sequence": None, **fields}
    return event("message_delta", delta=delta, usage=usage) + event("message_stop")


def text(index: int, *pieces: str) -> bytes:
    grows = b"".join(grown(index, "text_delta", text=piece) for piece in pieces)
    return opened(index, type="text", text="") + grows + stopped(index)


def whole(*content: Json, reason: str | None = "end_turn", **fields: Any) -> bytes:
    message: Json = {"id": "msg_1", "type": "message", "role": "assistant"}
    message |= {"model": "claude-sonnet-4-5", "content": list(content), "stop_reason": reason}
    return json.dumps({**message, "stop_sequence": None, **fields}).encode()


def deltas(body: Body, content_type: str = "") -> list[Delta]:
    return read_deltas(AnthropicCodec(), body, content_type, "anthropic")


def read(body: Body, profile: EndpointProfile = STRICT) -> AssembledReply:
    return assemble_deltas(deltas(body), "anthropic", profile)


def _pieces(value: str) -> list[str]:
    half = len(value) // 2
    return [value[:half], value[half:]] if half else [value]


_GROWS = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}


def as_stream(message: Json) -> bytes:
    """A whole message as the server would have streamed it."""
    usage = message.get("usage") or {}
    made = [started(**{**message, "content": [], "usage": usage}), event("ping")]
    for at, block in enumerate(message["content"]):
        made.append(_block(at, block))
    details = {"stop_details": message.get("stop_details")}
    made.append(ended(message["stop_reason"], usage=usage, **details))
    return b"".join(made)


def _block(at: int, block: Json) -> bytes:
    kind = block["type"]
    made = []
    start = dict(block)
    if kind in _GROWS:
        delta, field = _GROWS[kind]
        start[field] = ""
        made += [grown(at, delta, **{field: piece}) for piece in _pieces(block[field])]
    if kind == "thinking":
        start["signature"] = ""
        made.append(grown(at, "signature_delta", signature=block.get("signature", "")))
    if isinstance(block.get("citations"), list):
        start["citations"] = []
        made += [grown(at, "citations_delta", citation=one) for one in block["citations"]]
    if isinstance(block.get("input"), dict):
        start["input"] = {}
        told = json.dumps(block["input"], separators=(",", ":"), ensure_ascii=False)
        made.append(grown(at, "input_json_delta", partial_json=""))
        made += [grown(at, "input_json_delta", partial_json=piece) for piece in _pieces(told)]
    return opened(at, **start) + b"".join(made) + stopped(at)
