"""The response handler on objects of the vendors' SDKs, next to the budgets of seed 004.

Ours must be at least 20 times under each budget: to validate a whole response (1 ms), to take one
chunk (0.5 ms), and for a whole request with its stream (5 ms).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from msgspec import Struct

from benchmarks.case import Budget, Pair, Timed, seconds_each

CALLS = 40
SEED: dict[str, float] = {"validation": 0.001, "chunk": 0.0005, "total": 0.005}
WORDS = ("Hello", ", ", "world")
TEXT = "".join(WORDS)

Json = dict[str, object]


def _gemini(word: str, finish: str | None = None) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": [{"text": word}]}, "index": 0}
    used = {"promptTokenCount": 12, "candidatesTokenCount": 3, "totalTokenCount": 15}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "usageMetadata": used, "modelVersion": "gemini-2.5-flash"}


def _chat(what: str, said: Json, finish: str | None, **more: object) -> Json:
    return {
        "id": "chatcmpl-D8xKq2mVbN0pTzYc4RwLfHsJu1Ga",
        "object": "chat.completion" if what == "message" else "chat.completion.chunk",
        "created": 1760000000,
        "model": "gpt-5.2",
        "choices": [{"index": 0, what: said, "logprobs": None, "finish_reason": finish}],
        **more,
    }


def _response(status: str, *output: Json) -> Json:
    used = {
        "input_tokens": 12,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 15,
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1760000000,
        "model": "gpt-5.2",
        "status": status,
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": used if status == "completed" else None,
    }


def _item(status: str, *words: str) -> Json:
    content = [{"type": "output_text", "text": word, "annotations": []} for word in words]
    kind = {"id": "msg_1", "type": "message", "role": "assistant"}
    return {**kind, "status": status, "content": content}


def _responses_events() -> list[Json]:
    at: Json = {"output_index": 0, "item_id": "msg_1", "content_index": 0}
    events: list[Json] = [
        {"type": "response.created", "response": _response("in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": _item("in_progress")},
        *(
            {"type": "response.output_text.delta", **at, "delta": word, "logprobs": []}
            for word in WORDS
        ),
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": _item("completed", TEXT),
        },
        {
            "type": "response.completed",
            "response": _response("completed", _item("completed", TEXT)),
        },
    ]
    return [{**event, "sequence_number": at} for at, event in enumerate(events)]


def _message(stop: str | None, *words: str) -> Json:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": word} for word in words],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 12, "output_tokens": 3},
    }


def _message_events() -> list[Json]:
    return [
        {"type": "message_start", "message": _message(None)},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": word},
            }
            for word in WORDS
        ),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 3},
        },
        {"type": "message_stop"},
    ]


_USAGE: Json = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}

WHOLE: dict[str, Json] = {
    "gemini": _gemini(TEXT, "STOP"),
    "openai_chat": _chat("message", {"role": "assistant", "content": TEXT}, "stop", usage=_USAGE),
    "openai_responses": _response("completed", _item("completed", TEXT)),
    "anthropic": _message("end_turn", TEXT),
}
STREAMS: dict[str, list[Json]] = {
    "gemini": [*map(_gemini, WORDS), _gemini("", "STOP")],
    "openai_chat": [
        *(_chat("delta", {"content": word}, None) for word in WORDS),
        _chat("delta", {}, "stop", usage=_USAGE),
    ],
    "openai_responses": _responses_events(),
    "anthropic": _message_events(),
}


class Objects(Struct, frozen=True):
    """A whole response and the chunks of a stream, as the vendor's SDK gives them."""

    response: object
    chunks: list[object]


@cache
def objects(wire: str) -> Objects:
    """Built by the SDK's own classes."""
    # Not at the top: other cases' processes must not hold what they do not measure.
    from pydantic import TypeAdapter  # noqa: PLC0415

    whole, chunk = _classes(wire)
    chunks = TypeAdapter(list[chunk]).validate_python(STREAMS[wire])  # type: ignore[valid-type]
    return Objects(TypeAdapter(whole).validate_python(WHOLE[wire]), chunks)


def _classes(wire: str) -> tuple[object, object]:
    match wire:
        case "gemini":
            from google.genai.types import GenerateContentResponse  # noqa: PLC0415

            return GenerateContentResponse, GenerateContentResponse
        case "anthropic":
            from anthropic.types import Message, RawMessageStreamEvent  # noqa: PLC0415

            return Message, RawMessageStreamEvent
        case "openai_chat":
            from openai.types.chat import ChatCompletion, ChatCompletionChunk  # noqa: PLC0415

            return ChatCompletion, ChatCompletionChunk
        case _:
            from openai.types.responses import Response, ResponseStreamEvent  # noqa: PLC0415

            return Response, ResponseStreamEvent


@cache
def works(wire: str) -> dict[str, Callable[[], object]]:
    """What is measured, by the name of its budget."""
    from holdfast.calls import ResponseHandler, send_message_streaming  # noqa: PLC0415

    held = objects(wire)
    handler = ResponseHandler(_ignored)
    word = next(
        chunk for chunk in held.chunks if (found := handler.process_chunk(chunk)) and found.text
    )
    return {
        "validation": lambda: handler.validate_response(held.response),
        "chunk": lambda: handler.process_chunk(word),
        "total": lambda: send_message_streaming(lambda: held.chunks, status_callback=_ignored),
    }


def _ignored(_: str) -> None:
    """A status callback."""


def sample() -> Pair:
    """The seed's budgets, and what ours needs, in seconds."""
    floor, ours = {}, {}
    for wire in WHOLE:
        for name, act in works(wire).items():
            metric = f"{wire}-{name}"
            floor[metric], ours[metric] = SEED[name], seconds_each(act, CALLS)
    return floor, ours


CASE = Timed(
    name="response-budgets",
    sample=sample,
    budgets=tuple(
        Budget(metric=f"{wire}-{name}", what=f"SDK objects of {wire}: {name}", limit=1 / 20)
        for wire in WHOLE
        for name in SEED
    ),
)
