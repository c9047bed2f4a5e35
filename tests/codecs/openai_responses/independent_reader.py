"""A second, small reading of recorded bodies, in plain JSON, to compare ours with."""

import json
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

_ENDS = {
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.cancelled",
    "error",
}


def events(body: bytes) -> list[Json]:
    """The events of the first response of a stream."""
    found = []
    for line in body.decode().replace("\r\n", "\n").split("\n"):
        if line.startswith("data:") and line[5:].strip() != "[DONE]":
            found.append(json.loads(line[5:]))
            if found[-1]["type"] in _ENDS:
                break
    return found


@dataclass
class Reading:
    """What a body says, as plain values."""

    text: str = ""
    thoughts: list[str] = field(default_factory=list)
    calls: list[tuple[str, str, object]] = field(default_factory=list)
    refusal: str = ""
    items: list[Json] = field(default_factory=list)
    status: str = ""
    reason: str = ""
    usage: tuple[int, int, int, int] = (0, 0, 0, 0)
    streamed_text: str | None = None


def reading(body: bytes) -> Reading | None:
    """None for a body that is not a response."""
    if body.lstrip()[:1] == b"{":
        whole = json.loads(body)
        return _of(whole, whole["output"]) if isinstance(whole.get("output"), list) else None
    told = events(body)
    last = told[-1].get("response") or {}
    final = last.get("output") or []
    dones = [event for event in told if event["type"] == "response.output_item.done"]
    finished = [event["item"] for event in sorted(dones, key=lambda e: e.get("output_index", 0))]
    made = _of(last, finished if len(finished) >= len(final) else final)
    texts = [event["delta"] for event in told if event["type"] == "response.output_text.delta"]
    made.streamed_text = "".join(texts)
    return made


def _of(whole: Json, items: list[Json]) -> Reading:
    made = Reading(status=whole.get("status") or "", items=items)
    made.reason = (whole.get("incomplete_details") or {}).get("reason") or ""
    for item in items:
        _item(made, item)
    usage = whole.get("usage") or {}
    sent, out = usage.get("input_tokens_details") or {}, usage.get("output_tokens_details") or {}
    made.usage = (
        usage.get("input_tokens") or 0,
        usage.get("output_tokens") or 0,
        sent.get("cached_tokens") or 0,
        out.get("reasoning_tokens") or 0,
    )
    return made


def _item(made: Reading, item: Json) -> None:
    match item.get("type"):
        case "message":
            for part in item.get("content") or []:
                made.text += part.get("text") or "" if part["type"] == "output_text" else ""
                made.refusal += part.get("refusal") or "" if part["type"] == "refusal" else ""
        case "reasoning":
            told = [*(item.get("summary") or []), *(item.get("content") or [])]
            made.thoughts += [part["text"] for part in told if part["text"]] or [""]
        case "function_call":
            made.calls.append((item["call_id"], item["name"], _parsed(item["arguments"])))
        case "custom_tool_call":
            made.calls.append((item["call_id"], item["name"], {"input": item["input"]}))


def _parsed(arguments: str) -> object:
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments
