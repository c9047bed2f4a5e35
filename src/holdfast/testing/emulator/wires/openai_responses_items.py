"""The output items of a reply on the Responses wire, and the events that stream each item.

A complete item contains the content of all its events.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Opaque, Part, Reasoning, Refusal, Reply, Text, ToolCall
from holdfast.testing.emulator.wires.emulator_wire import Chunking, Rendering, split_text
from holdfast.testing.emulator.wires.openai_responses_history import WIRE, thought_of
from holdfast.testing.emulator.wires.signatures import sign_text

_Item: TypeAlias = dict[str, Any]
_Event: TypeAlias = dict[str, object]


def items_for(reply: Reply, rendering: Rendering) -> list[_Item]:
    """Convert a reply to items; successive texts and refusals are one message."""
    items: list[_Item] = []
    for part in reply.parts:
        if not isinstance(part, Text | Refusal):
            items.append(_render_item(part, f"{rendering.number}_{len(items)}", rendering))
            continue
        if not part.text:
            continue
        if not items or items[-1]["type"] != "message":
            own = f"msg_emulated_{rendering.number}_{len(items)}"
            fields = {"status": "completed", "role": "assistant", "content": []}
            items.append({"type": "message", "id": own, **fields})
        items[-1]["content"].append(_render_text(part))
    return items if rendering.choices else []


def _render_text(part: Text | Refusal) -> _Item:
    if isinstance(part, Refusal):
        return {"type": "refusal", "refusal": part.text}
    own = (part.extra or {}).get("part")
    notes = own.get("annotations", []) if isinstance(own, dict) else []
    return {"type": "output_text", "text": part.text, "annotations": notes, "logprobs": []}


def _render_item(part: Part, name: str, rendering: Rendering) -> _Item:
    match part:
        case Reasoning():
            return _render_reasoning(part, name, sealed=rendering.include_state)
        case ToolCall():
            return {
                "type": "function_call",
                "id": f"fc_emulated_{name}",
                "status": "completed",
                "call_id": part.id,
                "name": part.name,
                "arguments": part.arguments,
            }
        case Opaque(wire="openai_responses", data=data):
            return dict(data)
        case _:
            raise ConfigurationError(
                "replies", f"the wire {WIRE} cannot carry {type(part).__name__} in a reply"
            )


def _render_reasoning(part: Reasoning, name: str, *, sealed: bool) -> _Item:
    summary = [{"type": "summary_text", "text": part.text}] if part.text else []
    item = {"type": "reasoning", "id": f"rs_emulated_{name}", "summary": summary}
    state = part.signature or sign_text(thought_of(item))
    return {**item, "encrypted_content": state if sealed else None}


def item_events(item: _Item, index: int, chunking: Chunking) -> list[_Event]:
    """Return the events of an item, from its start to its end, without sequence numbers."""
    place: _Event = {"item_id": item.get("id"), "output_index": index}
    initial, events = item, []
    match item["type"]:
        case "message":
            initial = {**item, "status": "in_progress", "content": []}
            for at, part in enumerate(item["content"]):
                events += _content_events(part, {**place, "content_index": at}, chunking)
        case "reasoning":
            initial = {**item, "summary": []}
            for at, part in enumerate(item["summary"]):
                events += _summary_events(part, {**place, "summary_index": at}, chunking)
        case "function_call":
            initial = {**item, "status": "in_progress", "arguments": ""}
            kind = "response.function_call_arguments"
            events = [
                {"type": f"{kind}.delta", **place, "delta": piece}
                for piece in split_text(item["arguments"], chunking)
            ]
            events.append({"type": f"{kind}.done", **place, "arguments": item["arguments"]})
        case "web_search_call" | "file_search_call" | "code_interpreter_call" as kind:
            initial = {"type": kind, "id": item["id"], "status": "in_progress"}
            step = "interpreting" if kind == "code_interpreter_call" else "searching"
            events = [
                {"type": f"response.{kind}.{state}", **place}
                for state in ("in_progress", step, "completed")
            ]
    return [
        {"type": "response.output_item.added", "output_index": index, "item": initial},
        *events,
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


def _content_events(part: _Item, place: _Event, chunking: Chunking) -> list[_Event]:
    field = "refusal" if part["type"] == "refusal" else "text"
    kind = "response.refusal" if field == "refusal" else "response.output_text"
    beside: _Event = {} if field == "refusal" else {"logprobs": []}
    notes: list[_Event] = [
        {"type": "response.output_text.annotation.added", **place, "annotation": note}
        for note in part.get("annotations", [])
    ]
    return [
        {"type": "response.content_part.added", **place, "part": {**part, field: ""}},
        *(
            {"type": f"{kind}.delta", **place, "delta": piece, **beside}
            for piece in split_text(part[field], chunking)
        ),
        *notes,
        {"type": f"{kind}.done", **place, field: part[field], **beside},
        {"type": "response.content_part.done", **place, "part": part},
    ]


def _summary_events(part: _Item, place: _Event, chunking: Chunking) -> list[_Event]:
    kind = "response.reasoning_summary_part"
    text = "response.reasoning_summary_text"
    return [
        {"type": f"{kind}.added", **place, "part": {**part, "text": ""}},
        *(
            {"type": f"{text}.delta", **place, "delta": piece}
            for piece in split_text(part["text"], chunking)
        ),
        {"type": f"{text}.done", **place, "text": part["text"]},
        {"type": f"{kind}.done", **place, "part": part},
    ]
