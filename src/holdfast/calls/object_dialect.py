"""Detects the wire of an object by the names of its fields, and gives Bedrock's Converse the form of a known wire.

The class of an object does not matter, because a gateway may use the SDK of another vendor.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from holdfast.codecs.anthropic.history import WIRE as ANTHROPIC
from holdfast.codecs.gemini.vocabulary import WIRE as GEMINI
from holdfast.codecs.openai_chat.vocabulary import WIRE as CHAT
from holdfast.codecs.openai_responses.vocabulary import WIRE as RESPONSES

_OBJECTS = {"response": RESPONSES, "chat.completion": CHAT, "chat.completion.chunk": CHAT}
_GEMINI = frozenset(
    {"candidates", "promptFeedback", "prompt_feedback", "usageMetadata", "usage_metadata"}
)
_CHAT = frozenset({"choices"})
_RESPONSES = frozenset({"output", "output_text"})
_ANTHROPIC = frozenset({"stop_reason"})
_MESSAGE_EVENTS = frozenset(
    {
        "message_start",
        "message_delta",
        "message_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    }
)


def detect_wire(chunk: Mapping[str, object], fields: Mapping[str, object]) -> str:
    """Return the name of the wire, or "" if it cannot be detected.

    Args:
        chunk: the object's JSON form.
        fields: the fields that its class declares, which may be empty in the object.

    >>> detect_wire({"choices": []}, {}), detect_wire({"type": "message_start"}, {})
    ('openai_chat', 'anthropic')
    >>> detect_wire({"colour": "red"}, {})
    ''
    """
    object_name = chunk.get("object")
    if isinstance(object_name, str) and object_name in _OBJECTS:
        return _OBJECTS[object_name]
    if _has_any_field(chunk, fields, _GEMINI):
        return GEMINI
    if _has_any_field(chunk, fields, _CHAT):
        return CHAT
    kind = chunk.get("type")
    if isinstance(kind, str):
        if kind.startswith("response."):
            return RESPONSES
        if kind in _MESSAGE_EVENTS:
            return ANTHROPIC
    if _has_any_field(chunk, fields, _RESPONSES):
        return RESPONSES
    if kind == "message" or _has_any_field(chunk, fields, _ANTHROPIC):
        return ANTHROPIC
    if isinstance(chunk.get("content"), list):
        return ANTHROPIC
    # An error has the same form on all wires. A field `text` alone proves nothing: every HTTP client has it.
    return CHAT if chunk.get("error") else ""


def find_reply_id(chunk: Mapping[str, object], wire: str) -> str:
    """Return the id of the reply that this chunk begins or belongs to; "" if it has none.

    Only the SDKs of google-genai and anthropic give several replies in one stream.

    >>> find_reply_id({"type": "message_start", "message": {"id": "msg_1"}}, "anthropic")
    'msg_1'
    """
    value: object = None
    if wire == GEMINI:
        value = chunk.get("responseId") or chunk.get("response_id")
    elif wire == ANTHROPIC:
        message = chunk if chunk.get("type") == "message" else chunk.get("message")
        value = message.get("id") if isinstance(message, Mapping) else None
    return value if isinstance(value, str) else ""


def is_whole_response(chunk: Mapping[str, object], wire: str) -> bool:
    """Whether an object of an event wire is a whole response instead of an event."""
    if wire == RESPONSES:
        return not isinstance(chunk.get("type"), str)
    return wire == ANTHROPIC and (chunk.get("type") == "message" or "content" in chunk)


def _has_any_field(
    chunk: Mapping[str, object], fields: Mapping[str, object], names: frozenset[str]
) -> bool:
    return not (names.isdisjoint(chunk) and names.isdisjoint(fields))


# boto3 returns dictionaries. A whole reply of `converse` has `stopReason`, and each event of `converse_stream` one key.
_STOP = "stopReason"
_USAGE = "metadata"
_EVENTS = frozenset(
    {
        "messageStart",
        "contentBlockStart",
        "contentBlockDelta",
        "contentBlockStop",
        "messageStop",
    }
)
_FINISHES: Mapping[object, str] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
    "malformed_model_output": "error",
    "malformed_tool_use": "error",
}


def convert_converse(value: dict[str, object]) -> dict[str, object]:
    """Return a reply or an event of Bedrock's Converse as one of chat completions, and any other unchanged.

    >>> convert_converse({"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Hi"}}})
    {'choices': [{'index': 0, 'delta': {'content': 'Hi'}}]}
    >>> convert_converse({"choices": []})
    {'choices': []}
    """
    if _STOP in value and isinstance(value.get("output"), Mapping):
        return _convert_reply(value)
    if len(value) != 1:
        return value
    (name, event), *_ = value.items()
    if not isinstance(event, Mapping) or (name not in _EVENTS and name != _USAGE):
        return value
    if name == _USAGE:
        return {"choices": [], **_convert_usage(event)} if "usage" in event else value
    if name == "messageStop":
        return _choice({"delta": {}, "finish_reason": _finish(event)})
    block = event.get("delta" if name == "contentBlockDelta" else "start")
    index = event.get("contentBlockIndex")
    return _choice({"delta": _convert_block(block if isinstance(block, Mapping) else {}, index)})


def _convert_reply(value: Mapping[str, object]) -> dict[str, object]:
    output = value["output"]
    message = output.get("message") if isinstance(output, Mapping) else None
    content = message.get("content") if isinstance(message, Mapping) else None
    blocks = [block for block in _items(content) if isinstance(block, Mapping)]
    converted = [_convert_block(block, index) for index, block in enumerate(blocks)]
    merged: dict[str, object] = {"content": None}
    for name in ("content", "reasoning_content"):
        if texts := [text for block in converted if isinstance(text := block.get(name), str)]:
            merged[name] = "".join(texts)
    if calls := [call for block in converted for call in _items(block.get("tool_calls"))]:
        merged["tool_calls"] = calls
    return {
        **_choice({"message": merged, "finish_reason": _finish(value)}),
        **_convert_usage(value),
    }


def _convert_block(block: Mapping[str, object], index: object) -> dict[str, object]:
    """Return the fields of a message, or of its delta, for a block of content."""
    if isinstance(text := block.get("text"), str):
        return {"content": text}
    if isinstance(use := block.get("toolUse"), Mapping):
        given = use.get("input")
        arguments = "" if given is None else given if isinstance(given, str) else json.dumps(given)
        function = {"name": use["name"]} if "name" in use else {}
        call = {"id": use["toolUseId"], "type": "function"} if "toolUseId" in use else {}
        return {
            "tool_calls": [
                {"index": index, **call, "function": {**function, "arguments": arguments}}
            ]
        }
    reasoning = block.get("reasoningContent")
    if isinstance(reasoning, Mapping):
        whole = reasoning.get("reasoningText")
        text = (whole if isinstance(whole, Mapping) else reasoning).get("text")
        return {"reasoning_content": text} if isinstance(text, str) else {}
    return {}


def _convert_usage(value: Mapping[str, object]) -> Mapping[str, object]:
    usage = value.get("usage")
    if not isinstance(usage, Mapping):
        return {}
    read, written = usage.get("inputTokens"), usage.get("outputTokens")
    return {"usage": {"prompt_tokens": read, "completion_tokens": written}}


def _choice(fields: Mapping[str, object]) -> dict[str, object]:
    return {"choices": [{"index": 0, **fields}]}


def _finish(value: Mapping[str, object]) -> object:
    reason = value.get(_STOP)
    return _FINISHES.get(reason, reason)


def _items(value: object) -> Iterator[object]:
    return iter(value) if isinstance(value, list) else iter(())
