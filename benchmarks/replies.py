"""What the server answers: bodies of Chat Completions, rendered once per distinct answer.

A request of OpenAI's Responses wire, which has `input` in place of `messages`, gets the short answer
as a stream of that wire.

The model's name selects the scenario, `<kind>-<number>`:

    text          one short answer
    tools-N       N iterations of one call each, then a short answer
    parallel-N    one iteration of N calls, then a short answer
    stream-N      an answer of N text deltas, sent as fast as the socket takes them
    paced-N       the same in ten portions, 20 ms apart
    drip-N        the same with each text in a write of its own, 10 ms apart, and the end with the last
    burst-N       the same in one write
    closing-N     the same in one write, and then the server closes the connection
    sent          the time at which the last write of the reply before was made, on the monotonic clock

A streamed body is framed as common servers do it: one event per delta and one HTTP chunk per event,
if nothing else is said `BATCH` of them in each write. Events carry all the fields that the vendor
sends, because skipping what is not read is part of the work. This module must never keep state about a client.
"""

from __future__ import annotations

import re
from functools import cache

import msgspec

BATCH = 16
"""Events in one write to the socket."""

PORTIONS = 10
"""Portions of a paced stream."""

ENDING = 4
"""What follows the texts: the finish reason, the usage, the end marker, and the end of the body."""

_PAUSES = {"paced": 0.02, "drip": 0.01}

ANSWER = "It will be sunny in Porto, with a light wind from the north and 24 degrees at noon."
ARGUMENTS = '{"city": "Porto", "days": 3}'
TOOL = "weather"

CLOSES_AFTER = 0.0004
"""Seconds from the last write of a closing stream until its connection is closed, as llama.cpp does it."""

_LONG = frozenset({"stream", "paced", "drip", "burst", "closing"})
_WORDS = ANSWER.split(" ")
_FINGERPRINT = "fp_9b1f0c7d2e"
_CREATED = 1_760_000_000
_MESSAGE = "msg_0f3a9d5c7e1b4a680068f7c2d2a1b0819a8c7d6e5f4a3b2c1d"
_NAME = re.compile(rb'"model"\s*:\s*"([^"]+)"')
_STREAM = re.compile(rb'"stream"\s*:\s*true')
_RESPONSES = re.compile(rb'"input"\s*:\s*\[')
_encode = msgspec.json.encode

Pieces = tuple[bytes, ...]
"""A whole HTTP response, cut where the server writes."""


def answer(body: bytes, sent_at: float = 0.0) -> tuple[Pieces, float]:
    """The response to a request body, and the seconds between the beginnings of two of its pieces.

    Args:
        body: the request.
        sent_at: when the last write of the reply before was made.
    """
    found = _NAME.search(body)
    model = found[1].decode() if found else "text"
    if _RESPONSES.search(body):
        return render_responses(model), False
    # A call id stands in every tool message and nowhere else, whatever the spacing of the JSON.
    done = body.count(b'"tool_call_id"') if model.startswith(("tools", "parallel")) else 0
    if model == "sent":
        model = f"sent-{sent_at:.6f}"
    pause = _PAUSES.get(model.partition("-")[0], 0.0)
    return render(model, done, _STREAM.search(body) is not None), pause


def is_closing(body: bytes) -> bool:
    """Whether the server closes the connection after the response to a request."""
    found = _NAME.search(body)
    return found is not None and found[1].startswith(b"closing-")


@cache
def render(model: str, done: int, streamed: bool) -> Pieces:
    """The response of the scenario `model` after `done` tool results."""
    kind, _, number = model.partition("-")
    count = int(number or 0) if kind != "sent" else 0
    if kind == "tools" and done < count:
        return _calls(model, done, 1, streamed)
    if kind == "parallel" and done < count:
        return _calls(model, done, count, streamed)
    texts = _texts(count) if kind in _LONG else _texts(len(_WORDS))
    if kind == "sent":
        texts = [number]
    if not streamed:
        return _whole(model, {"role": "assistant", "content": "".join(texts)}, "stop")
    deltas: list[dict[str, object]] = [{"role": "assistant", "content": "", "refusal": None}]
    deltas += [{"content": text} for text in texts]
    return _events(model, deltas, "stop", kind)


@cache
def render_responses(model: str) -> Pieces:
    """The short answer as OpenAI streams it on the Responses wire."""
    texts = _texts(len(_WORDS))
    at: dict[str, object] = {"item_id": _MESSAGE, "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
    whole = {**part, "text": "".join(texts)}
    item = {"id": _MESSAGE, "type": "message", "status": "in_progress", "role": "assistant"}
    done = {**item, "status": "completed", "content": [whole]}
    events: list[dict[str, object]] = [
        {"type": "response.created", "response": _response(model, [])},
        {"type": "response.in_progress", "response": _response(model, [])},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **at, "part": part},
        *(
            {
                "type": "response.output_text.delta",
                **at,
                "delta": text,
                "logprobs": [],
                "obfuscation": "x4Kq9TbWm",
            }
            for text in texts
        ),
        {"type": "response.output_text.done", **at, "text": whole["text"], "logprobs": []},
        {"type": "response.content_part.done", **at, "part": whole},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": _response(model, [done])},
    ]
    chunks = []
    for number, event in enumerate(events):
        name = str(event["type"]).encode()
        body = _encode({**event, "sequence_number": number})
        chunks.append(_chunk(b"event: %b\ndata: %b\n\n" % (name, body)))
    chunks.append(b"0\r\n\r\n")
    pieces = [b"".join(chunks[at : at + BATCH]) for at in range(0, len(chunks), BATCH)]
    head = _head("content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n")
    return (head + pieces[0], *pieces[1:])


def _response(model: str, output: list[dict[str, object]]) -> dict[str, object]:
    usage = {
        "input_tokens": 120,
        "input_tokens_details": {"cached_tokens": 64},
        "output_tokens": 24,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 144,
    }
    return {
        "id": "resp_0f3a9d5c7e1b4a680068f7c2d1e4a0819a9b7c6d5e4f3a2b1c",
        "object": "response",
        "created_at": _CREATED,
        "status": "completed" if output else "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": None,
        "service_tier": "default",
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage if output else None,
        "user": None,
        "metadata": {},
    }


def _texts(count: int) -> list[str]:
    return [(" " if index else "") + _WORDS[index % len(_WORDS)] for index in range(count)]


def _calls(model: str, done: int, count: int, streamed: bool) -> Pieces:
    calls: list[dict[str, object]] = [
        {
            "id": f"call_{done + index:024d}",
            "type": "function",
            "function": {"name": TOOL, "arguments": ARGUMENTS},
        }
        for index in range(count)
    ]
    if not streamed:
        said: dict[str, object] = {"role": "assistant", "content": None, "refusal": None}
        return _whole(model, {**said, "tool_calls": calls}, "tool_calls")
    deltas: list[dict[str, object]] = [{"role": "assistant", "content": None, "refusal": None}]
    for index, call in enumerate(calls):
        opening = {**call, "index": index, "function": {"name": TOOL, "arguments": ""}}
        deltas.append({"tool_calls": [opening]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": ARGUMENTS[at : at + 7]}}]}
            for at in range(0, len(ARGUMENTS), 7)
        ]
    return _events(model, deltas, "tool_calls")


def _usage() -> dict[str, object]:
    return {
        "prompt_tokens": 120,
        "completion_tokens": 24,
        "total_tokens": 144,
        "prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def _whole(model: str, message: dict[str, object], finish: str) -> Pieces:
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    body = _encode(
        {
            "id": "chatcmpl-D8xKq2mVbN0pTzYc4RwLfHsJu1Ga",
            "object": "chat.completion",
            "created": _CREATED,
            "model": model,
            "choices": [choice],
            "usage": _usage(),
            "service_tier": "default",
            "system_fingerprint": _FINGERPRINT,
        }
    )
    head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
    return (_head(head) + body,)


def _events(model: str, deltas: list[dict[str, object]], finish: str, kind: str = "") -> Pieces:
    chunks = [_chunk(_event(model, delta)) for delta in deltas]
    chunks.append(_chunk(_event(model, {}, finish)))
    chunks.append(_chunk(_event(model, None)))
    chunks.append(_chunk(b"data: [DONE]\n\n"))
    chunks.append(b"0\r\n\r\n")
    if kind == "drip":
        chunks[-ENDING - 1 :] = [b"".join(chunks[-ENDING - 1 :])]
    sizes = {
        "paced": -(-len(chunks) // PORTIONS),
        "drip": 1,
        "burst": len(chunks),
        "closing": len(chunks),
    }
    size = sizes.get(kind, BATCH)
    pieces = [b"".join(chunks[at : at + size]) for at in range(0, len(chunks), size)]
    head = _head("content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n")
    return (head + pieces[0], *pieces[1:])


def _event(model: str, delta: dict[str, object] | None, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    event = {
        "id": "chatcmpl-D8xKq2mVbN0pTzYc4RwLfHsJu1Ga",
        "object": "chat.completion.chunk",
        "created": _CREATED,
        "model": model,
        "service_tier": "default",
        "system_fingerprint": _FINGERPRINT,
        "choices": [] if delta is None else [choice],
        "usage": _usage() if delta is None else None,
        "obfuscation": "x4Kq9TbWm",
    }
    return b"data: " + _encode(event) + b"\n\n"


def _chunk(event: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(event), event)


def _head(fields: str) -> bytes:
    # What a vendor's edge adds to every answer: a client has to parse these too.
    usual = (
        "date: Thu, 09 Oct 2025 08:53:20 GMT\r\n"
        "x-request-id: req_3f6f0a6e5b0d4a0c9d2b7a8e1c4f5d60\r\n"
        "openai-processing-ms: 412\r\n"
        "x-ratelimit-limit-requests: 10000\r\n"
        "x-ratelimit-remaining-requests: 9999\r\n"
        "x-ratelimit-remaining-tokens: 1999880\r\n"
    )
    return f"HTTP/1.1 200 OK\r\n{fields}{usual}\r\n".encode()
