"""One text delta on each wire, from its bytes to the assembled reply: the others next to Chat."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from msgspec.json import encode

from benchmarks.case import Budget, Pair, Timed, seconds_each

CALLS = 1000
WORD = " word"
CHAT = "openai_chat"


def _data(value: object, name: str = "", end: bytes = b"\n") -> bytes:
    head = b"event: " + name.encode() + end if name else b""
    return head + b"data: " + encode(value) + end + end


def _named(value: dict[str, object]) -> bytes:
    return _data(value, str(value["type"]))


def _chat(delta: dict[str, object]) -> bytes:
    return _data(
        {
            "id": "chatcmpl-D8xKq2mVbN0pTzYc4RwLfHsJu1Ga",
            "object": "chat.completion.chunk",
            "created": 1760000000,
            "model": "gpt-5.2",
            "service_tier": "default",
            "system_fingerprint": "fp_1a2b3c4d5e",
            "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}],
            "usage": None,
            "obfuscation": "x4Kq9TbWm",
        }
    )


_MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
_CONTENT = {"candidates": [{"content": {"parts": [{"text": WORD}], "role": "model"}, "index": 0}]}
_USED = {
    "promptTokenCount": 12,
    "candidatesTokenCount": 40,
    "totalTokenCount": 52,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 12}],
}
_GEMINI = {
    **_CONTENT,
    "usageMetadata": _USED,
    "modelVersion": "gemini-2.5-flash",
    "responseId": "q3rGaLnOCuOuqtsP",
}

STREAMS: dict[str, tuple[bytes, bytes]] = {
    # what comes before the first delta, and the delta
    CHAT: (_chat({"role": "assistant", "content": ""}), _chat({"content": WORD})),
    "anthropic": (
        _named({"type": "message_start", "message": {**_MESSAGE, "model": "claude"}})
        + _named(
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "text", "text": ""},
            }
        ),
        _named(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": WORD},
            }
        ),
    ),
    "openai_responses": (
        _named({"type": "response.created", "response": {"id": "resp_1", "model": "gpt-5.2"}})
        + _named({"type": "response.output_item.added", "output_index": 0, "item": _MESSAGE}),
        _named(
            {
                "type": "response.output_text.delta",
                "sequence_number": 123,
                "item_id": "msg_68f0a9cbd8f08197b0f2d8d1a",
                "output_index": 0,
                "content_index": 0,
                "delta": WORD,
                "logprobs": [],
                "obfuscation": "x4Kq9TbWm",
            }
        ),
    ),
    # This vendor ends its lines with CRLF.
    "gemini": (b"", _data(_GEMINI, end=b"\r\n")),
}
OTHERS = tuple(wire for wire in STREAMS if wire != CHAT)


@cache
def reader(wire: str) -> Callable[[], str]:
    """What reads one delta of a stream that is under way, and gives its text."""
    # Not at the top: other cases' processes must not hold what they do not measure.
    from holdfast import TextDelta  # noqa: PLC0415
    from holdfast.codecs.anthropic.decode import AnthropicDecoder  # noqa: PLC0415
    from holdfast.codecs.assemble import Assembler  # noqa: PLC0415
    from holdfast.codecs.gemini.codec import Gemini  # noqa: PLC0415
    from holdfast.codecs.openai_chat.codec import OpenAIChat  # noqa: PLC0415
    from holdfast.codecs.openai_responses.decode import ResponsesDecoder  # noqa: PLC0415
    from holdfast.models import EndpointProfile  # noqa: PLC0415

    decoders = {
        CHAT: OpenAIChat().make_decoder,
        "anthropic": AnthropicDecoder,
        "openai_responses": ResponsesDecoder,
        "gemini": Gemini().make_decoder,
    }
    decoder = decoders[wire]("text/event-stream")
    assembler = Assembler(EndpointProfile(), wire)
    opening, delta = STREAMS[wire]

    def read() -> str:
        text = ""
        for found in decoder.feed(delta):
            assembler.feed(found)
            if isinstance(found, TextDelta):
                text = found.text
        return text

    decoder.feed(opening)
    read()
    return read


def sample() -> Pair:
    """The cost of a delta on Chat, under the name of each other wire, and on that wire."""
    floor, ours = {}, {}
    for wire in OTHERS:
        floor[wire] = seconds_each(reader(CHAT), CALLS)
        ours[wire] = seconds_each(reader(wire), CALLS)
    return floor, ours


CASE = Timed(
    name="wire-deltas",
    sample=sample,
    budgets=tuple(
        Budget(metric=wire, what=f"decoding one delta of {wire}", limit=1.3) for wire in OTHERS
    ),
)
