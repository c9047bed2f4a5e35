"""Small replies of each wire, whole and as the chunks of a stream."""

from typing import Any

Json = dict[str, Any]


def gemini(*parts: Json, finish: str | None = "STOP", **beside: Any) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "gemini", **beside}


def text(words: str) -> Json:
    return {"text": words}


def call(name: str, **args: Any) -> Json:
    return {"functionCall": {"name": name, "args": args}}


def result(name: str, **response: Any) -> Json:
    return {"functionResponse": {"name": name, "response": response}}


def chat(words: str | None, finish: str = "stop", **message: Any) -> Json:
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": words, **message},
                "finish_reason": finish,
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }


def chat_chunk(finish: str | None = None, **delta: Any) -> Json:
    return {
        "id": "c1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def responses(*output: Json, status: str = "completed", **beside: Any) -> Json:
    return {
        "id": "r1",
        "object": "response",
        "created_at": 1,
        "model": "gpt",
        "status": status,
        "output": list(output),
        "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
        **beside,
    }


def item(words: str) -> Json:
    content = [{"type": "output_text", "text": words, "annotations": []}]
    return {
        "type": "message",
        "id": "m1",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }


def responses_events(words: list[str]) -> list[Json]:
    whole = "".join(words)
    opening = {**item(""), "content": [], "status": "in_progress"}
    return [
        {"type": "response.created", "response": responses(status="in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": opening},
        *(
            {
                "type": "response.output_text.delta",
                "output_index": 0,
                "content_index": 0,
                "item_id": "m1",
                "delta": word,
            }
            for word in words
        ),
        {"type": "response.output_item.done", "output_index": 0, "item": item(whole)},
        {"type": "response.completed", "response": responses(item(whole))},
    ]


def message(*content: Json, stop: str = "end_turn") -> Json:
    return {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": list(content),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }


def message_events(words: list[str], stop: str = "end_turn") -> list[Json]:
    return [
        {"type": "message_start", "message": {**message(), "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": word},
            }
            for word in words
        ),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop, "stop_sequence": None},
            "usage": {"output_tokens": 2},
        },
        {"type": "message_stop"},
    ]


WORDS = ["Hello", ", ", "world"]

STREAMS: dict[str, list[Json]] = {
    "gemini": [*(gemini(text(word), finish=None) for word in WORDS[:2]), gemini(text(WORDS[2]))],
    "openai_chat": [*(chat_chunk(content=word) for word in WORDS), chat_chunk("stop")],
    "openai_responses": responses_events(WORDS),
    "anthropic": message_events(WORDS),
}

WHOLE: dict[str, Json] = {
    "gemini": gemini(text("Hello, world")),
    "openai_chat": chat("Hello, world"),
    "openai_responses": responses(item("Hello, world")),
    "anthropic": message({"type": "text", "text": "Hello, world"}),
}
