"""A second, small reading of recorded bodies, in plain JSON, to compare ours with."""

import json
from typing import Any

Json = dict[str, Any]

_TEXTS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


def events(body: bytes) -> list[Json]:
    """The events of the first message of a stream."""
    found = []
    for line in body.decode().replace("\r\n", "\n").split("\n"):
        if line.startswith("data:"):
            found.append(json.loads(line[5:]))
            if found[-1]["type"] == "message_stop":
                break
    return found


def message(body: bytes) -> Json | None:
    """The message of a body, streamed or whole, as the server would have sent it whole."""
    if body.lstrip()[:1] == b"{":
        found: Json = json.loads(body)
        return found if found.get("type") == "message" else None
    made: Json = {}
    inputs: dict[int, str] = {}
    for event in events(body):
        match event["type"]:
            case "message_start":
                made = {**event["message"], "content": []}
            case "content_block_start":
                made["content"].append(dict(event["content_block"]))
                if event["content_block"]["type"] == "fallback":
                    made["model"] = event["content_block"]["to"]["model"]
            case "content_block_delta":
                _grow(made["content"], inputs, event["index"], event["delta"])
            case "message_delta":
                made.update({k: v for k, v in event["delta"].items() if v is not None})
                usage = {k: v for k, v in (event.get("usage") or {}).items() if v is not None}
                made["usage"] = {**made.get("usage", {}), **usage}
    for index, told in inputs.items():
        made["content"][index]["input"] = _arguments(told)
    return made


def _arguments(told: str) -> object:
    try:
        return json.loads(told or "{}")
    except ValueError:
        return told


def _grow(content: list[Json], inputs: dict[int, str], index: int, delta: Json) -> None:
    block = content[index]
    kind = delta["type"]
    if kind in _TEXTS:
        block[_TEXTS[kind]] = block.get(_TEXTS[kind], "") + delta[_TEXTS[kind]]
    elif kind == "input_json_delta":
        inputs[index] = inputs.get(index, "") + delta["partial_json"]
    elif kind == "citations_delta":
        block["citations"] = [*(block.get("citations") or []), delta["citation"]]
    else:
        raise AssertionError(f"the small reader does not know {kind}")


def sendable(content: list[Json]) -> list[Json]:
    """What of a reply can be sent back: no blank text, no unsigned thinking, no empty field."""
    kept = []
    for block in content:
        if block["type"] == "text" and not block["text"].strip():
            continue
        if block["type"] == "thinking" and not block.get("signature"):
            continue
        kept.append({k: v for k, v in block.items() if not (k == "citations" and not v)})
    return kept


def counts(usage: Json) -> tuple[int, int, int, int]:
    read = usage.get("cache_read_input_tokens") or 0
    written = usage.get("cache_creation_input_tokens") or 0
    sent = (usage.get("input_tokens") or 0) + read + written
    return sent, usage.get("output_tokens") or 0, read, written
