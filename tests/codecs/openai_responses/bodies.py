"""Bodies of this wire as tests write them, and how a body becomes a reply."""

import json
from collections.abc import Iterator
from typing import Any

from tests.codecs.reading import Body, assemble_deltas, read_deltas

from holdfast.codecs.assemble import AssembledReply
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.openai_responses.codec import ResponsesCodec
from holdfast.core.deltas import Delta

Json = dict[str, Any]

STRICT = EndpointProfile(ends_without_marker=False)
WIRE = "openai_responses"


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def response(status: str = "completed", **fields: Any) -> Json:
    made: Json = {"id": "resp_1", "object": "response", "model": "gpt-5.2", "status": status}
    return {**made, "error": None, "incomplete_details": None, "output": [], **fields}


def created() -> bytes:
    return event("response.created", response=response("in_progress"))


def completed(*output: Json, status: str = "completed", **fields: Any) -> bytes:
    whole = response(status, output=list(output), **fields)
    return event(f"response.{status}", response=whole)


def added(at: int, **item: Any) -> bytes:
    return event("response.output_item.added", output_index=at, item=item)


def done(at: int, **item: Any) -> bytes:
    return event("response.output_item.done", output_index=at, item=item)


def grown(kind: str, at: int, delta: str, **fields: Any) -> bytes:
    return event(f"response.{kind}.delta", output_index=at, delta=delta, **fields)


def message(text: str, item_id: str = "msg_1", **fields: Any) -> Json:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    item: Json = {"type": "message", "id": item_id, "role": "assistant", "status": "completed"}
    return {**item, "content": content, **fields}


def call(arguments: str, call_id: str = "call_1", **fields: Any) -> Json:
    item: Json = {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": "weather"}
    return {**item, "arguments": arguments, "status": "completed", **fields}


def said(text: str, at: int = 0) -> bytes:
    """A message as it streams."""
    item = message(text)
    pieces = b"".join(
        grown("output_text", at, piece, content_index=0, item_id="msg_1") for piece in halves(text)
    )
    return added(at, **{**item, "content": []}) + pieces + done(at, **item)


def halves(text: str) -> list[str]:
    half = len(text) // 2
    return [text[:half], text[half:]] if half else [text]


def deltas(body: Body, content_type: str = "") -> list[Delta]:
    return read_deltas(ResponsesCodec(), body, content_type, "openai")


def read(body: Body, profile: EndpointProfile = STRICT) -> AssembledReply:
    return assemble_deltas(deltas(body), WIRE, profile)


def as_stream(whole: Json, *, final_output: bool = True) -> bytes:
    """A whole response as the server would have streamed it."""
    made = [event("response.created", response={**whole, "output": [], "status": "in_progress"})]
    for at, item in enumerate(whole["output"]):
        made += [_begin(at, item), *_pieces(at, item), done(at, **item)]
    last = whole if final_output else {**whole, "output": []}
    status = whole.get("status") or "completed"
    kind = "completed" if status == "complete" else status
    return b"".join([*made, event(f"response.{kind}", response=last)])


def _begin(at: int, item: Json) -> bytes:
    empty = {"content": [], "summary": [], "arguments": "", "input": "", "result": None}
    return added(at, **{k: empty.get(k, v) for k, v in item.items()})


_WHOLE = {"function_call": "arguments", "custom_tool_call": "input"}
_NAMES = {
    "arguments": "function_call_arguments",
    "input": "custom_tool_call_input",
    "output_text": "output_text",
    "refusal": "refusal",
    "reasoning_text": "reasoning_text",
}


def _pieces(at: int, item: Json) -> Iterator[bytes]:
    for index, part in enumerate(item.get("summary") or []):
        for piece in halves(part["text"]):
            yield grown("reasoning_summary_text", at, piece, summary_index=index)
    for index, part in enumerate(item.get("content") or []):
        kind = part["type"]
        if kind not in _NAMES:
            continue
        told = part["refusal" if kind == "refusal" else "text"]
        for piece in halves(told):
            yield grown(_NAMES[kind], at, piece, content_index=index)
        if kind == "output_text":
            place = {"output_index": at, "content_index": index}
            yield event("response.output_text.done", **place, text=told)
    if (field := _WHOLE.get(item.get("type", ""))) is not None:
        for piece in halves(item[field]):
            yield grown(_NAMES[field], at, piece)
