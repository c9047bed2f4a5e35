"""Bodies of this wire, written by hand, and one way to read them to the end."""

import json
from collections.abc import Iterable

from tests.codecs.reading import Body, assemble_deltas, read_deltas

from holdfast.codecs.assemble import AssembledReply
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.core.deltas import Delta

Json = dict[str, object]

DONE = b"data: [DONE]\n\n"
STREAM = "text/event-stream; charset=utf-8"


def event(value: object, name: str = "", end: str = "\n") -> bytes:
    head = f"event: {name}{end}" if name else ""
    return f"{head}data: {json.dumps(value)}{end}{end}".encode()


def chunk(delta: object, finish: object = None, **more: object) -> Json:
    return {
        "id": "c1",
        "object": "chat.completion.chunk",
        "model": "m1",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        **more,
    }


def stream(*values: object, done: bool = True) -> bytes:
    return b"".join(event(value) for value in values) + (DONE if done else b"")


def whole(message: object, finish: object = "stop", **more: object) -> bytes:
    body: Json = {
        "id": "c1",
        "object": "chat.completion",
        "model": "m1",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        **more,
    }
    return json.dumps(body).encode()


def call(name: str = "", arguments: object = "", **more: object) -> Json:
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def as_stream(body: Json) -> bytes:
    """A whole reply as its server would have streamed it: half a field at a time."""
    shared = {key: body[key] for key in ("id", "model") if key in body}
    values: list[Json] = []
    for choice in body.get("choices") or ():  # type: ignore[attr-defined]  # a list by its format
        place = {"index": choice.get("index", 0)}
        values += [
            {**shared, "choices": [{**place, "delta": delta, "finish_reason": None}]}
            for delta in _fragments(choice.get("message") or {})
        ]
        rest = {key: value for key, value in choice.items() if key not in ("message", "delta")}
        values.append({**shared, "choices": [{**rest, "delta": {}}]})
    values.append({**body, "choices": []})
    return stream(*values)


def _fragments(message: Json) -> list[Json]:
    made: list[Json] = [{"role": "assistant", "content": ""}]
    for name, value in sorted(message.items(), key=lambda field: _ORDER.get(field[0], 9)):
        if isinstance(value, str) and name in _GROWING:
            half = len(value) // 2
            made += [{name: value[:half]}, {name: value[half:]}]
        elif name == "tool_calls" and isinstance(value, list):
            for number, entry in enumerate(value):
                made += _call_fragments(number, entry)
        elif name != "role":
            made.append({name: value})
    return made


_GROWING = ("reasoning", "reasoning_content", "content", "refusal")
_ORDER = dict.fromkeys(_GROWING[:2], 0) | {"content": 2, "refusal": 3}
_ORDER |= dict.fromkeys(("reasoning_details", "thought_signature", "extra_content"), 1)


def _call_fragments(number: int, entry: Json) -> list[Json]:
    function = entry.get("function")
    arguments = function.get("arguments") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(arguments, str):
        return [{"tool_calls": [{**entry, "index": number}]}]
    half = len(arguments) // 2
    first = {**entry, "index": number, "function": {**function, "arguments": arguments[:half]}}
    more = {"index": number, "function": {"arguments": arguments[half:]}}
    return [{"tool_calls": [first]}, {"tool_calls": [more]}]


def deltas(body: Body, content_type: str = STREAM) -> list[Delta]:
    return read_deltas(OpenAIChat(), body, content_type, "openai")


def assemble(found: Iterable[Delta], profile: EndpointProfile | None = None) -> AssembledReply:
    return assemble_deltas(found, "openai_chat", profile or EndpointProfile())


def read(
    body: Body, content_type: str = STREAM, profile: EndpointProfile | None = None
) -> AssembledReply:
    return assemble(deltas(body, content_type), profile)
